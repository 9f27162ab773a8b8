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

from tutorial_lib.course.catch_up import catch_up, export_path
from tutorial_lib.errors import SetupError
from tutorial_lib.models.names import MODEL_NAME
from tutorial_lib.paths import REFERENCE_REPOSITORY, Workspace, workspace
from tutorial_lib.repository.layout import CONFIG

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


def put_model(repository: Path, inject: Callable[[Path], None]) -> bytes:
    """Put a copy of the reference model into a scratch repository, with a fault in it.

    The copy is made beside the repository and moved into place when it is complete: whatever interrupts,
    nothing half-written is there.

    Args:
        repository: of `scratch_repository()`.
        inject: makes the fault in the model's folder.

    Returns:
        The whole model file.

    Raises:
        SetupError: it cannot be written.
    """
    space = catch_up("04")
    new = Path(tempfile.mkdtemp(dir=repository.parent, prefix=f".{repository.name}.new-"))
    try:
        model = _whole_model(new, space)
        good = (model / "1" / "model.onnx").read_bytes()
        inject(model)
        shutil.rmtree(repository / MODEL_NAME, ignore_errors=True)
        os.rename(model, repository / MODEL_NAME)
    except OSError as error:
        raise SetupError(
            f"break-it lab in {repository}: cannot be written: {error}.", action="Free space, and run the cell again."
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return good


def contents(model: Path) -> dict[str, str]:
    """Every file of a model's folder with its hash; hidden ones, such as JupyterLab's checkpoints, are left out."""
    return {
        str(path.relative_to(model)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(model.rglob("*"))
        if not any(part.startswith(".") for part in path.relative_to(model).parts)
    }


def _whole_model(folder: Path, space: Workspace) -> Path:
    """The reference's configuration and labels with the exported file; the learner's own edits stay out of it."""
    model = folder / MODEL_NAME
    shutil.copytree(REFERENCE_REPOSITORY / MODEL_NAME, model, ignore=shutil.ignore_patterns(".*", "[0-9]*"))
    (model / "1").mkdir()
    shutil.copyfile(export_path(space), model / "1" / "model.onnx")
    text = (model / CONFIG).read_text(encoding="utf-8")
    (model / CONFIG).write_text(text.replace("count: 2", "count: 1"), encoding="utf-8")  # loads in half the time
    return model


def _remove_all(owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of the kernel ends, not the kernel
    for slot in _slots:
        shutil.rmtree(slot, ignore_errors=True)


atexit.register(_remove_all, os.getpid())
