"""All cases and all rules' examples in front of the real embedded Triton, once for every test file that asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.server.judge import CASES, Verdict, case_folder, copy_repository, groups, serving, verdicts
from tests.server.rule_examples import Example
from tests.server.rule_examples_ensembles import ENSEMBLES, write_steps
from tests.server.rule_examples_fuzzed import FUZZED
from tests.server.rule_examples_more import EXAMPLES
from tests.server.rule_examples_neighbours import NEIGHBOURS
from tutorial_lib.errors import ServerError
from tutorial_lib.repository import read_config
from tutorial_lib.server.explain import Explanation, explain_log
from tutorial_lib.server.health import zeros_request

# no server, or nothing of a repository: what they show is tested where the part they concern lives
ELSEWHERE = {
    "73": "the exporter: no repository",
    "74": "the exporter: no repository",
    "78": "the notebook runner: no repository",
    "63": "a client shared between threads: the repository is case 60's",
    "65": "a client's address: the repository is case 60's",
    "69": "a flag of the server: the repository is case 60's",
    "70": "a port that is taken: the repository is case 60's",
    "71": "a client's tensor names: the repository is case 60's",
}
JUDGED = sorted(folder.name[:2] for folder in CASES.iterdir() if folder.name[:2] not in ELSEWHERE)
# judged by ONNX Runtime's backend or by Triton's core
SERVED = ["01", "02", "04", "05", "06", "08", "10", "11", "13", "14", "16", "17", "19", "26", "32", "41", "44", "76"]
# the clients whose answers the running server repeats, word for word
ANSWERS = ["36", "46", "52", "53", "55", "56", "58"]
# case → the model that a client has to be quick with, or whose requests it counts, and what it prints in good time
COUNTED = {"04": ("sentence_emb", "inference_count 32 "), "46": ("running_sum", "id, second -> [2.0]")}
ALL: tuple[Example, ...] = (*EXAMPLES, *NEIGHBOURS, *ENSEMBLES, *FUZZED)


@dataclass
class Judged:
    """What the servers said; they have ended.

    Attributes:
        repositories: case, "rules" (the examples) or "right" (the cases' right configurations) → the models.
        said: the same → model → verdict.
        words: the same → model → its explanation, out of the log.
        logs: the same → the log.
        answers: case → what its client printed.
        health: example → whether it answered a request as its configuration says.
        twins: mended example → the folder that was served for it, with the same content.
    """

    repositories: dict[str, Path]
    twins: dict[str, str]
    said: dict[str, dict[str, Verdict]] = field(default_factory=dict)
    words: dict[str, dict[str, Explanation]] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    health: dict[str, bool] = field(default_factory=dict)

    def ask(self, group: list[Path]) -> None:
        """Start a server for a group and keep what it says."""
        with serving(group) as server:
            found, log = verdicts(server), server.process.log_text()
            explained = {item.model: item for item in explain_log(log)}
            for key, repository in self.repositories.items():
                if repository not in group:
                    continue
                names = {path.name for path in repository.iterdir() if path.is_dir()}
                self.logs[key] = log
                self.said[key] = {name: found[name] for name in names}
                self.words[key] = {name: explained[name] for name in names & explained.keys()}
                if key in ANSWERS or (key in SERVED and (case_folder(key) / "client.py").exists()):
                    self.answers[key] = run_client(key, server)
            if self.repositories["rules"] in group:
                for example in ALL:
                    for name in (f"bad_{folder_name(example)}", self.twins[f"ok_{folder_name(example)}"]):
                        asked = found[name].loaded and "sequence_batching" not in (example.config or "")
                        if asked and name not in self.health:
                            self.health[name] = answers_as_declared(server, name)


def judge_all(root: Path) -> Judged:
    """Write everything into a folder and ask, with as few servers as the models' names allow."""
    repositories = {number: copy_repository(number, root / f"case-{number}") for number in JUDGED}
    write_right(repositories, root / "right")
    write_steps(root / "rules")
    twins = write_examples(root / "rules")
    found = Judged(repositories | {"rules": root / "rules", "right": root / "right"}, twins)
    for group in groups(list(found.repositories.values())):
        found.ask(group)
    return found


def folder_name(example: Example) -> str:
    return f"{example.rule}_{example.name}"


def write_examples(repository: Path) -> dict[str, str]:
    """Write all examples; of mended ones that are the same, one is left to be served for all of them."""
    served: dict[tuple, str] = {}
    twins = {}
    for example in ALL:
        _, good = example.write(repository, folder_name(example))
        name = good.name.encode()
        content = tuple(
            (str(path.relative_to(good)), path.read_bytes().replace(name, b"") if path.is_file() else b"")
            for path in sorted(good.rglob("*"))
        )
        twins[good.name] = served.setdefault(content, good.name)
        if twins[good.name] != good.name:
            shutil.rmtree(good)
    return twins


def write_right(repositories: dict[str, Path], target: Path) -> None:
    """The cases' models with the configurations that the official server took."""
    for number in SERVED:
        for right in (case_folder(number) / "expected_config").glob("*.pbtxt"):
            model = repositories[number] / right.stem
            if (model / "1" / (read_config(right).default_model_filename or "model.onnx")).exists():
                shutil.copytree(model, target / right.stem)
                shutil.copyfile(right, target / right.stem / "config.pbtxt")


def answers_as_declared(server, model: str) -> bool:
    """Whether a request of zeros comes back with the outputs that config.pbtxt names."""
    metadata = server.metadata(model)
    try:
        answer = server.control.infer(model, zeros_request(metadata), timeout_s=2 if "no-return" in model else 10)
    except ServerError:
        return False
    return sorted(out["name"] for out in answer.get("outputs", [])) == sorted(
        out["name"] for out in metadata["outputs"]
    )


def run_client(number: str, server) -> str:
    """What a case's client prints; where it was too quick or too slow, the model is loaded anew before another try.

    Triton counts a request after it has answered it, so that a quick client may see one too few; and a sequence ends
    when its client keeps silent for long.
    """
    printed = _run_client(number, server)
    for _ in range(3):
        if number not in COUNTED or COUNTED[number][1] in printed:
            break
        server.unload(COUNTED[number][0])
        server.load(COUNTED[number][0])
        printed = _run_client(number, server)
    return printed


def _run_client(number: str, server) -> str:
    environment = os.environ | {"TRITON_HTTP": server.http_address, "TRITON_GRPC": server.grpc_address}
    command = [sys.executable, str(case_folder(number) / "client.py")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
