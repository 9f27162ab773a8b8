"""What `./workshop clean` removes from the workspace."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.errors import SetupError
from tutorial_lib.paths import Workspace
from tutorial_lib.runner.folders import ended_runs, is_running
from tutorial_lib.server.command_lines import command_lines
from tutorial_lib.server.plain_path import names_inside

LEFTOVERS = ("logs", "records", "lab", "cache", "break_it")
TRIES = 100  # to remove a folder that others are removing files from
MADE = ("model_repository", "checkpoints", "exports", "solved", "backups")


@dataclass(frozen=True)
class Plan:
    """What would be removed and what stays.

    Attributes:
        remove: folders to remove, with what each takes in MiB.
        keep: what is left where it is, with the reason.
    """

    remove: Sequence[tuple[Path, float]]
    keep: Sequence[tuple[Path, str]]


def plan(home: Workspace, *, everything: bool = False) -> Plan:
    """Find what a clean removes: runs that have ended, logs, records and caches.

    Only folders that this library makes are ever named, so that a workspace variable pointing at a
    folder with other things in it costs nothing.

    Args:
        home: the workspace to clean.
        everything: also what the learner made: model repository, checkpoints, exports, solved copies, backups.
    """
    remove: list[Path] = ended_runs(home.runs)
    keep = [(path, "a run that still runs") for path in _folders(home.runs) if is_running(path)]
    for name in (*LEFTOVERS, *(MADE if everything else ())):
        folder = home.root / name
        if not folder.is_dir():
            continue
        user = _user_of(folder)
        if user:
            keep.append((folder, f"in use by process {user}"))
        elif folder == home.cache and _catching_up(home):
            keep.append((folder, "a catch_up works there"))
        else:
            remove.append(folder)
    if not everything:
        keep += [(home.root / name, "yours; --all removes it") for name in MADE if (home.root / name).is_dir()]
    known = {*LEFTOVERS, *MADE, home.runs.name}
    keep += [(path, "not made by the workshop") for path in _folders(home.root) if path.name not in known]
    return Plan([(path, _size_mib(path)) for path in remove], keep)


def carry_out(wanted: Plan, home: Workspace) -> None:
    """Remove what the plan names; the workspace's own folder stays.

    Raises:
        SetupError: something could not be removed.
    """
    for path, _ in wanted.remove:
        for tries_left in reversed(range(TRIES)):
            try:
                shutil.rmtree(path)
                break
            except OSError as error:
                if isinstance(error, FileNotFoundError) and not path.exists():
                    break
                if isinstance(error, FileNotFoundError) and tries_left:
                    continue  # somebody else has removed a part of it
                raise SetupError(
                    f"folder {path}: could not be removed: {error.strerror}.", action="Remove it by hand."
                ) from error
    latest = home.runs / "latest"
    if latest.is_symlink() and not latest.exists():
        latest.unlink()
    if home.runs.is_dir() and not any(home.runs.iterdir()):
        home.runs.rmdir()


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("*") if path.is_dir() and not path.is_symlink())


def _size_mib(folder: Path) -> float:
    """What is in a folder, which others may be writing to: files that go meanwhile count nothing."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += os.lstat(os.path.join(place, name)).st_size
    return size / 2**20


def _catching_up(home: Workspace) -> bool:
    """Whether some notebook's catch_up holds its lock."""
    if not home.catch_up_lock.exists():
        return False
    with home.catch_up_lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _user_of(folder: Path) -> int:
    """A process that names the folder on its command line, such as a server with its log there; 0 if none."""
    return next((pid for pid, words in command_lines() if names_inside(words, folder)), 0)
