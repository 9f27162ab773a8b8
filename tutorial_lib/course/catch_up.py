"""`catch_up("06")`: make whatever the notebooks before 06 would have left, and nothing else."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tqdm.auto import tqdm

from tutorial_lib.checkpoint import (
    default_path,
    load_checkpoint,
    verify_checkpoint,
)
from tutorial_lib.errors import CheckpointError, ExportError, NotebookError
from tutorial_lib.models.names import INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.paths import Workspace, atomic_write, workspace

FIRST_STEP, LAST_STEP = 0, 12
SEED = 0

# the first notebook that finds the work of an earlier one
_AFTER_TRAINING, _AFTER_EXPORT, _AFTER_REPOSITORY = 2, 3, 5


def catch_up(step: str | int, *, progress: bool = True) -> Workspace:
    """Make what the notebooks before `step` leave in the workspace.

    What is there and whole stays as it is, so the call costs a few milliseconds the second time. A file
    that is missing, cut, or made from another checkpoint than the present one is made again, with the
    same code and seed that the notebooks use. Two calls at once wait for each other.

    Args:
        step: the notebook to get ready for, such as "06".
        progress: show a bar for what has to be made.

    Returns:
        The workspace: `checkpoints/`, `exports/` and, from "05" on, `model_repository/` are filled.

    Raises:
        NotebookError: there is no such notebook.
    """
    number = _number(step)
    space = workspace()
    parts: list[tuple[str, Callable[[Workspace], bool], Callable[[Workspace], object]]] = []
    if number >= _AFTER_TRAINING:
        parts.append(("training the checkpoint", _has_checkpoint, _make_checkpoint))
    if number >= _AFTER_EXPORT:
        parts.append(("exporting to ONNX", _has_export, _make_export))
    if number >= _AFTER_REPOSITORY:
        parts.append(("filling the model repository", _has_served_model, _make_served_model))
    with _locked(space):
        if all(is_there(space) for _, is_there, _ in parts):
            bar = None
        else:
            bar = tqdm(total=len(parts), desc="catch up", unit="step", disable=not progress)
        for name, is_there, make in parts:
            if bar is not None:
                bar.set_description(f"catch up: {name}")
            if not is_there(space):
                make(space)
            if bar is not None:
                bar.update()
        if bar is not None:
            bar.set_description("catch up: ready")
            bar.close()
        if number >= _AFTER_REPOSITORY:
            space.seed()
    return space


def export_path(space: Workspace) -> Path:
    """Where notebook 02 leaves the ONNX file."""
    return space.exports / f"{MODEL_NAME}.onnx"


def served_path(space: Workspace) -> Path:
    """Where Triton looks for the model's first version."""
    return space.model_repository / MODEL_NAME / "1" / "model.onnx"


def _number(step: str | int) -> int:
    text = str(step).strip().partition("_")[0]
    if text.isdecimal() and FIRST_STEP <= int(text) <= LAST_STEP:
        return int(text)
    raise NotebookError(
        f"catch_up: found step {step!r}, expected a notebook's number from '{FIRST_STEP:02}' to '{LAST_STEP:02}'."
    )


@contextlib.contextmanager
def _locked(space: Workspace) -> Iterator[None]:
    """One catch-up per workspace; the lock goes with the process, however it ends."""
    space.cache.mkdir(parents=True, exist_ok=True)
    with (space.cache / "catch_up.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _has_checkpoint(space: Workspace) -> bool:
    return _checkpoint_hash(space) is not None


def _checkpoint_hash(space: Workspace) -> str | None:
    try:
        return verify_checkpoint(default_path(space))["weights"]["sha256"]
    except CheckpointError:
        return None


def _has_export(space: Workspace) -> bool:
    return _is_our_model(export_path(space), space)


def _has_served_model(space: Workspace) -> bool:
    return _is_our_model(served_path(space), space)


def _is_our_model(path: Path, space: Workspace) -> bool:
    """Whether this is a whole ONNX file with our tensors that no later checkpoint has made stale."""
    if not path.is_file():
        return False
    from tutorial_lib.export.onnx_file import inputs_of, outputs_of, read_onnx

    try:
        model = read_onnx(path)
    except ExportError:
        return False
    stamp = next((entry.value for entry in model.metadata_props if entry.key == "checkpoint_sha256"), None)
    names = [tensor.name for tensor in (*inputs_of(model), *outputs_of(model))]
    return names == [INPUT_NAME, OUTPUT_NAME] and stamp in (None, _checkpoint_hash(space))


def _make_checkpoint(space: Workspace) -> None:
    from tutorial_lib.training import save_trained, train_digits

    save_trained(*train_digits(seed=SEED), default_path(space), seed=SEED)


def _make_export(space: Workspace) -> None:
    from tutorial_lib.export.to_onnx import export_densenet

    checkpoint = load_checkpoint(default_path(space))
    export_densenet(checkpoint.model, export_path(space), checkpoint_sha256=checkpoint.metadata["weights"]["sha256"])


def _make_served_model(space: Workspace) -> None:
    with atomic_write(served_path(space)) as temporary:
        shutil.copyfile(export_path(space), temporary)
