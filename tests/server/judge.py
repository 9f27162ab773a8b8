"""Ask the real embedded Triton for its verdict on many small repositories, with few starts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.paths import CHECKOUT
from tutorial_lib.server import Server, serve

CASES = CHECKOUT / "tests" / "cases"
MAX_FOLDERS = 200


@dataclass(frozen=True)
class Verdict:
    """What Triton made of one model: whether any version serves, and the words of its refusal."""

    loaded: bool
    reason: str


def case_folder(number: str) -> Path:
    return next(CASES.glob(f"{number}-*"))


def copy_repository(number: str, target: Path) -> Path:
    """Put a case's models into a new folder and make what is made: ONNX files, stray folders."""
    case = case_folder(number)
    shutil.copytree(case / "model_repository", target)
    for script in ("make_model.py", "setup_files.py"):
        if (case / script).exists():
            subprocess.run([sys.executable, str(case / script)], cwd=target, check=True)
    return target


def groups(repositories: Sequence[Path]) -> list[list[Path]]:
    """The repositories in groups for one server each: as few as a name twice, and a start in good time, allow."""
    found: list[tuple[set[str], list[Path]]] = []
    for repository in repositories:
        names = {path.name for path in repository.iterdir() if path.is_dir()}
        for taken, group in found:
            if not taken & names and len(taken) + len(names) <= MAX_FOLDERS:
                taken |= names
                group.append(repository)
                break
        else:
            found.append((set(names), [repository]))
    return [group for _, group in found]


@contextmanager
def serving(repositories: Sequence[Path]) -> Iterator[Server]:
    """A server with all models of these repositories, whatever becomes of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = serve(repositories, models=["*"], startup_timeout_s=300)
    with server:
        yield server


def verdicts(server: Server) -> dict[str, Verdict]:
    """model folder → verdict, also for those that could not even be polled."""
    log = server.process.log_text()
    states: dict[str, list[dict[str, str]]] = {}
    for entry in server.control.index():
        states.setdefault(entry["name"], []).append(entry)
    found = {}
    for repository in server.repositories:
        for folder in (path for path in repository.iterdir() if path.is_dir()):
            entries = states.get(folder.name, [])
            loaded = any(entry.get("state") == "READY" for entry in entries)
            reasons = [entry.get("reason", "") for entry in entries if entry.get("state") != "READY"]
            if not loaded and not any(reasons):
                name = re.escape(folder.name)
                subject = f"(?:model directory|load model|ensemble|ensembles:) '?{name}'?(?=[:, ])"
                reasons = re.findall(rf'^E.*\] "(.*{subject}.*)"$', log, re.M)
            found[folder.name] = Verdict(loaded, "" if loaded else "; ".join(filter(None, reasons)))
    return found
