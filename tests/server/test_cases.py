"""The cases' verdicts, observed with the official C++ backend, hold for our backend too."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.server.judge import case_folder
from tutorial_lib.repository import read_config
from tutorial_lib.server import serve
from tutorial_lib.server.log import decisive_lines

# judged by ONNX Runtime's backend or by Triton's core; the other cases here have tests of their own
SERVED = ["01", "02", "04", "05", "06", "08", "10", "11", "13", "14", "16", "17", "19", "26", "32", "41", "44", "76"]
FAILED = re.compile(r"failed to load '(?P<model>[^']+)' version \d+: (?P<kind>[^:]+): (?P<message>.*?)(\\n)?\"?$")
# what only the C++ library can say: its own source files and functions
CPP = re.compile(r"/onnxruntime_src/\S+ |\S+ onnxruntime::.*?\) (?=[A-Z])")


def verdicts(observed: str) -> dict[str, str]:
    """model → the reason it did not load ("" when it loaded), as the official backend gave it."""
    found = {}
    for line in observed.splitlines():
        if match := re.match(r"\|\s*(\S+)\s*\|\s*\d+\s*\|\s*READY\s*\|", line):
            found[match[1]] = ""
        if match := FAILED.search(line):
            found[match["model"]] = match["message"].replace("<repo>", "REPO").strip()
    return found


def client_lines(observed: str) -> list[str]:
    block = observed.partition("[client rc=0]\n")[2].partition("\n[log]")[0]
    return block.splitlines()


def copy_case(number: str, repository: Path) -> Path:
    """Put a case's models into a repository; returns the case's folder."""
    case = case_folder(number)
    for model in (case / "model_repository").iterdir():
        shutil.copytree(model, repository / model.name)  # raises when two cases use one name
    if (case / "make_model.py").exists():
        subprocess.run([sys.executable, str(case / "make_model.py")], cwd=repository, check=True)
    return case


@pytest.fixture(scope="module")
def all_cases(tmp_path_factory):
    """One server that was given the models of all cases."""
    repository = tmp_path_factory.mktemp("cases")
    for number in SERVED:
        copy_case(number, repository)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = serve(repository)
    with server:
        yield server


@pytest.mark.parametrize("number", SERVED)
def test_same_verdict_as_the_official_backend(all_cases, number):
    case = case_folder(number)
    observed = (case / "observed.txt").read_text()
    expected, index = verdicts(observed), all_cases.models().set_index("name")
    if not expected:  # refused when the repository was polled, in the core's own words
        poll = re.search(r"(model (in|out)put \S+ must specify 'dims' for \S+?)\"?$", observed, re.M)
        assert poll and poll[1] in "\n".join(decisive_lines(all_cases.process.log_text(), limit=200))
    for model, message in expected.items():
        state, reason = index.loc[model, ["state", "reason"]]
        if not message:
            assert state == "READY", reason
            continue
        assert state == "UNAVAILABLE"
        for part in essential(message):
            assert part in reason.replace(str(all_cases.repositories[0]), "REPO"), f"{model}: {reason}"
    if (case / "client.py").exists():
        environment = os.environ | {"TRITON_HTTP": all_cases.http_address, "TRITON_GRPC": all_cases.grpc_address}
        done = subprocess.run(
            [sys.executable, str(case / "client.py")], env=environment, capture_output=True, text=True, check=True
        )
        assert unordered(done.stdout) == unordered("\n".join(client_lines(observed)))


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


def test_the_right_configurations_load(tmp_path):
    repository, models = tmp_path / "models", []
    for number in SERVED:
        case = copy_case(number, repository)
        for expected in (case / "expected_config").glob("*.pbtxt"):
            folder = repository / expected.stem
            shutil.copyfile(expected, folder / "config.pbtxt")
            name = read_config(expected).default_model_filename or "model.onnx"
            if (folder / "1" / name).exists():
                models.append(expected.stem)
    assert len(models) >= 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a model that is not loaded would warn
        with serve(repository, models=models) as server:
            assert [model for model in models if not server.ready(model)] == []
