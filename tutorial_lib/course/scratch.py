"""The scratch repository of a break-it lab: made whole or not at all, gone with the kernel."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tutorial_lib.course.catch_up import catch_up
from tutorial_lib.course.subjects import Ask, Subject
from tutorial_lib.errors import SetupError
from tutorial_lib.paths import workspace

FOLDER = "break_it"

_slots: dict[Path, IO[str]] = {}  # the repositories of this process, with the locks that make them its own


def scratch_repository() -> Path:
    """A folder of this process's own: `break_it/1` in the workspace, or the next number that nobody uses.

    What an earlier process left there is removed.
    """
    base = workspace().root / FOLDER
    for slot in _slots:
        if slot.parent == base:
            slot.mkdir(parents=True, exist_ok=True)
            return slot
    base.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        lock = (base / f".{number}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, however it ends
        except BlockingIOError:
            lock.close()
            continue
        slot = base / str(number)
        for left in (slot, *base.glob(f".{number}.new-*")):
            shutil.rmtree(left, ignore_errors=True)
        slot.mkdir()
        _slots[slot] = lock
        return slot
    raise AssertionError("itertools.count ends nowhere")


def put_models(repository: Path, subject: Subject, inject: Callable[[Path], None]) -> Ask:
    """Put a subject's models into a scratch repository, with a fault in the one that clients ask.

    They are made beside the repository and moved into place when they are complete: whatever interrupts,
    nothing half-written is there. What was in the repository before is removed.

    Args:
        repository: of `scratch_repository()`.
        subject: what is broken.
        inject: makes the fault in the model's folder.

    Returns:
        What to ask a server, from the whole models.

    Raises:
        SetupError: it cannot be written.
    """
    space = catch_up("04", say_kept=False)  # the notebook's own call has named them
    new = Path(tempfile.mkdtemp(dir=repository.parent, prefix=f".{repository.name}.new-"))
    try:
        subject.build(new, space)
        ask = subject.oracle(new)
        inject(new / subject.model)
        for old in repository.iterdir():
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        for model in new.iterdir():
            os.rename(model, repository / model.name)
    except OSError as error:
        raise SetupError(
            f"break-it lab in {repository}: cannot be written: {error}.", action="Free space, and run the cell again."
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return ask


def contents(folder: Path) -> dict[str, str]:
    """Every file below with its hash; JupyterLab's checkpoints, other hidden files and Python's caches are left out."""
    return {
        str(path.relative_to(folder)): _hash(path)
        for path in sorted(folder.rglob("*"))
        if not any(part.startswith((".", "__pycache__")) for part in path.relative_to(folder).parts)
    }


def _hash(path: Path) -> str:
    """Empty for what is no file, or none any more: an editor may be saving it."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except FileNotFoundError:
        return ""


def _remove_all(owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of the kernel ends, not the kernel
    for slot in _slots:
        shutil.rmtree(slot, ignore_errors=True)


atexit.register(_remove_all, os.getpid())
