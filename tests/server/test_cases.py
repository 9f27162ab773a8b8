"""The cases' verdicts, observed with the official C++ backend, hold for our backend too."""

from __future__ import annotations

import re

import pytest

from tests.server.judge import case_folder
from tests.server.judged import SERVED
from tutorial_lib.server.log import decisive_lines

FAILED = re.compile(r"failed to load '(?P<model>[^']+)' version \d+: (?P<kind>[^:]+): (?P<message>.*?)(\\n)?\"?$")
# what only the C++ library can say: its own source files and functions
CPP = re.compile(r"/onnxruntime_src/\S+ |\S+ onnxruntime::.*?\) (?=[A-Z])")


def verdicts(text: str) -> dict[str, str]:
    """model → the reason it did not load ("" when it loaded), as the official backend gave it."""
    found = {}
    for line in text.splitlines():
        if match := re.match(r"\|\s*(\S+)\s*\|\s*\d+\s*\|\s*READY\s*\|", line):
            found[match[1]] = ""
        if match := FAILED.search(line):
            found[match["model"]] = match["message"].replace("<repo>", "REPO").strip()
    return found


def client_lines(text: str) -> list[str]:
    block = text.partition("[client rc=0]\n")[2].partition("\n[log]")[0]
    return block.splitlines()


@pytest.mark.parametrize("number", SERVED)
def test_same_verdict_as_the_official_backend(judged, number):
    expected, said = verdicts(observed(number)), judged.said[number]
    if not expected:  # refused when the repository was polled, in the core's own words
        poll = re.search(r"(model (in|out)put \S+ must specify 'dims' for \S+?)\"?$", observed(number), re.M)
        assert poll and poll[1] in "\n".join(decisive_lines(judged.logs[number], limit=200))
    for model, message in expected.items():
        reason = said[model].reason.replace(str(judged.repositories[number]), "REPO")
        assert said[model].loaded == (not message), reason
        for part in essential(message):
            assert part in reason, f"{model}: {reason}"
    if (case_folder(number) / "client.py").exists():
        assert unordered(judged.answers[number]) == unordered("\n".join(client_lines(observed(number))))


def observed(number: str) -> str:
    return (case_folder(number) / "observed.txt").read_text()


def unordered(text: str) -> list[str]:
    """A client's lines, with the tensors of a completed configuration in a fixed order."""
    return [
        " ".join(sorted(re.findall(r"\('.*?\)", line))) + re.sub(r"\('.*?\),? ?", "", line)
        for line in text.splitlines()
    ]


def essential(message: str) -> list[str]:
    """The parts of a message that do not depend on where the C++ library was compiled."""
    if "onnxruntime_src" not in message:
        return [message]
    start = message.partition("failed:")[0] + "failed:"
    core = re.search(r"Unsupported model IR version: \d+, max supported IR version: \d+|"
                     r"Current official support for domain ai.onnx is till opset \d+\.", message)  # fmt: skip
    return [start, core[0]]


def test_the_right_configurations_load(judged):
    said = judged.said["right"]
    assert len(said) >= 8
    assert {name: verdict.reason for name, verdict in said.items() if not verdict.loaded} == {}
