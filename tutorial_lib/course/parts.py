"""The parts that the notebooks leave for later ones: how each is made, from what, and whether it is fresh."""

from __future__ import annotations

import enum
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutorial_lib.checkpoint import default_path, load_checkpoint, metadata_path, verify_checkpoint
from tutorial_lib.course.manifest import Manifest, code_version, sha256_of
from tutorial_lib.errors import CheckpointError, ExportError
from tutorial_lib.models.names import INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.paths import Workspace
from tutorial_lib.versions import target

SEED = 0

# the shared code that decides what is in a part
_TRAINING = ("training.py", "datasets.py", "models/densenet.py", "models/names.py", "checkpoint.py")
_EXPORT = ("export/to_onnx.py", "models/densenet.py", "models/names.py")


class State(enum.Enum):
    """What there is of a part."""

    MISSING = "missing"
    FRESH = "made by catch_up, from the present inputs"
    STALE = "made by catch_up, from other inputs"
    OWN = "made by the learner"
    UNFIT = "not made by catch_up as it is, and of no use to later steps"


@dataclass(frozen=True)
class Part:
    """Something that one notebook leaves for later ones.

    Attributes:
        name: its name in the manifest.
        doing: what a progress bar says while it is made.
        step: the number of the first notebook that finds it.
        files: where it is in a workspace.
        inputs: what it is made from there; another value makes it stale.
        problem: why files that `catch_up` did not make are of no use, or "".
        make: writes the files under the same names into an empty folder; the last argument shows progress.
    """

    name: str
    doing: str
    step: int
    files: Callable[[Workspace], tuple[Path, ...]]
    inputs: Callable[[Workspace], Mapping[str, Any]]
    problem: Callable[[Workspace], str]
    make: Callable[[Workspace, Path, bool], object]

    def hashes(self, space: Workspace) -> dict[str, str]:
        """SHA-256 by path in the workspace; "" for a file that is not there."""
        return {str(path.relative_to(space.root)): sha256_of(path) for path in self.files(space)}

    def state(self, space: Workspace, manifest: Manifest) -> State:
        """Compare the files with what the manifest says of them."""
        found = self.hashes(space)
        if not any(found.values()):
            return State.MISSING
        if manifest.made(self.name, found):
            return State.FRESH if manifest.fresh(self.name, found, inputs=self.inputs(space)) else State.STALE
        return State.UNFIT if self.problem(space) else State.OWN


def export_path(space: Workspace) -> Path:
    """Where notebook 02 leaves the ONNX file."""
    return space.exports / f"{MODEL_NAME}.onnx"


def served_path(space: Workspace) -> Path:
    """Where Triton looks for the model's first version."""
    return space.model_repository / MODEL_NAME / "1" / "model.onnx"


def _checkpoint_problem(space: Workspace) -> str:
    try:
        verify_checkpoint(default_path(space))
    except CheckpointError as error:
        return error.problem
    return ""


def _checkpoint_hash(space: Workspace) -> str:
    try:
        return verify_checkpoint(default_path(space))["weights"]["sha256"]
    except CheckpointError:
        return ""


def _make_checkpoint(space: Workspace, folder: Path, progress: bool) -> None:
    from tutorial_lib.training import save_trained, train_digits

    trained = train_digits(seed=SEED, progress=progress)
    save_trained(*trained, folder / default_path(space).name, seed=SEED)


def _export_problem(space: Workspace) -> str:
    return _model_problem(export_path(space), space)


def _make_export(space: Workspace, folder: Path, progress: bool) -> None:
    from tutorial_lib.export.to_onnx import export_densenet

    checkpoint = load_checkpoint(default_path(space))
    digest = checkpoint.metadata["weights"]["sha256"]
    export_densenet(checkpoint.model, folder / export_path(space).name, checkpoint_sha256=digest)


def _served_problem(space: Workspace) -> str:
    if sha256_of(served_path(space)) == sha256_of(export_path(space)):
        return ""  # the learner copied it, as notebook 04 does
    return _model_problem(served_path(space), space)


def _make_served(space: Workspace, folder: Path, progress: bool) -> None:
    shutil.copyfile(export_path(space), folder / served_path(space).name)


def _model_problem(path: Path, space: Workspace) -> str:
    """Why this is not a whole ONNX file with our tensors, or that a later checkpoint has made it stale."""
    from tutorial_lib.export.onnx_file import inputs_of, outputs_of, read_onnx

    try:
        model = read_onnx(path)
    except ExportError as error:
        return error.problem
    names = [tensor.name for tensor in (*inputs_of(model), *outputs_of(model))]
    if names != [INPUT_NAME, OUTPUT_NAME]:
        return f"{path.name}: found tensors {names}, expected {[INPUT_NAME, OUTPUT_NAME]}."
    stamp = next((entry.value for entry in model.metadata_props if entry.key == "checkpoint_sha256"), None)
    # without a stamp nobody can tell, so the learner knows better
    return "" if stamp in (None, _checkpoint_hash(space)) else f"{path.name}: it came from another checkpoint."


PARTS = (
    Part(
        "checkpoint",
        "training the checkpoint",
        2,
        lambda space: (default_path(space), metadata_path(default_path(space))),
        lambda space: {"seed": SEED, "code": code_version(*_TRAINING)},
        _checkpoint_problem,
        _make_checkpoint,
    ),
    Part(
        "export",
        "exporting to ONNX",
        3,
        lambda space: (export_path(space),),
        lambda space: {
            "checkpoint": _checkpoint_hash(space),
            "code": code_version(*_EXPORT),
            "release": target().tag,
        },
        _export_problem,
        _make_export,
    ),
    Part(
        "served model",
        "filling the model repository",
        5,
        lambda space: (served_path(space),),
        lambda space: {"export": sha256_of(export_path(space))},
        _served_problem,
        _make_served,
    ),
)
