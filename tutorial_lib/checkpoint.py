"""Checkpoints that cannot run code: safetensors for the weights, JSON beside them for everything else.

Nothing here unpickles. Every size is bounded before it is read and every field is checked before it is
used, so a checkpoint from a stranger can fail but not surprise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutorial_lib.errors import CheckpointError
from tutorial_lib.models.names import CLASSES, IMAGE_SHAPE, INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.paths import Workspace, atomic_write
from tutorial_lib.versions import installed

if TYPE_CHECKING:
    from tutorial_lib.models.densenet import DenseNet

FORMAT = "tutorial_lib checkpoint"
FORMAT_VERSION = 1
ARCHITECTURE = "DenseNet"
MAX_WEIGHTS_MIB = 256
MAX_METADATA_MIB = 1

_MIB = 1024 * 1024
_AGAIN = "Train it again with notebook 01, or call catch_up('02')."
# the largest network a metadata file may ask for; a wrong number must not eat the memory
_BOUNDS = {"growth": 128, "stem": 512, "classes": 10_000}
_MAX_BLOCKS, _MAX_LAYERS = 8, 64


@dataclass(frozen=True)
class Checkpoint:
    """A model and what is known about it.

    Attributes:
        model: on the CPU, in evaluation mode.
        metadata: the JSON beside the weights; `save_checkpoint` lists its keys.
        path: the safetensors file.
    """

    model: DenseNet
    metadata: dict[str, Any]
    path: Path


def default_path(space: Workspace) -> Path:
    """Where notebook 01 leaves the digits checkpoint of a workspace."""
    return space.checkpoints / "densenet_digits.safetensors"


def metadata_path(path: Path) -> Path:
    """The JSON file that belongs to a weights file."""
    return Path(path).with_suffix(".json")


def save_checkpoint(
    model: DenseNet,
    path: Path,
    *,
    metrics: Mapping[str, float],
    seed: int,
    training: Mapping[str, Any] | None = None,
) -> Path:
    """Write `path` (safetensors) and the metadata beside it; both appear whole or not at all.

    The metadata holds format, architecture and its arguments, classes, tensor names and shapes,
    preprocessing, metrics, seed, training settings, package versions, and size and SHA-256 of the weights.
    It holds no time stamp: the same training writes the same bytes.

    Args:
        metrics: finite numbers, such as {"held_out_accuracy": 0.991}.
        seed: what training and split were seeded with.
        training: settings worth repeating, such as epochs.

    Returns:
        `path`.

    Raises:
        CheckpointError: the path does not end in .safetensors, or a metric is not finite.
    """
    from safetensors.torch import save

    from tutorial_lib.datasets import PREPROCESSING

    path = Path(path)
    if path.suffix != ".safetensors":
        raise CheckpointError(f"checkpoint {path.name!r}: expected a name that ends in .safetensors.")
    weights = save({name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()})
    metadata = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": MODEL_NAME,
        "architecture": {"name": ARCHITECTURE, **model.architecture},
        "classes": list(CLASSES),
        "input": {"name": INPUT_NAME, "datatype": "FP32", "shape": ["batch", *IMAGE_SHAPE]},
        "output": {"name": OUTPUT_NAME, "datatype": "FP32", "shape": ["batch", len(CLASSES)]},
        "preprocessing": PREPROCESSING,
        "metrics": dict(metrics),
        "seed": seed,
        "training": dict(training or {}),
        "versions": installed(),
        "weights": {"file": path.name, "bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
    }
    try:
        text = json.dumps(metadata, indent=2, allow_nan=False)
    except ValueError as error:
        raise CheckpointError(f"checkpoint {path.name!r}: a metric or setting is not finite ({error}).") from error
    with atomic_write(path) as temporary:
        temporary.write_bytes(weights)
    with atomic_write(metadata_path(path)) as temporary:
        temporary.write_text(text + "\n")
    return path


def load_checkpoint(path: Path) -> Checkpoint:
    """Rebuild the model that `save_checkpoint` wrote, after checking everything about it.

    Raises:
        CheckpointError: a file is missing, too large, cut, changed, or of another architecture.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load

    from tutorial_lib.models.densenet import DenseNet

    path = Path(path)
    metadata, weights = _read(path)
    try:
        state = load(weights)
    except SafetensorError as error:
        raise CheckpointError(f"checkpoint {path.name!r}: not a safetensors file ({error}).", action=_AGAIN) from error
    arguments = _architecture(metadata, name=path.name)
    with torch.random.fork_rng(devices=[]):
        model = DenseNet(**arguments)
    _compare(model.state_dict(), state, name=path.name)
    model.load_state_dict(state)
    return Checkpoint(model.eval(), metadata, path)


def verify_checkpoint(path: Path) -> dict[str, Any]:
    """Check both files against each other without loading torch; the metadata when they agree.

    Raises:
        CheckpointError: as in `load_checkpoint`, except for what only the tensors can tell.
    """
    metadata, _ = _read(Path(path))
    _architecture(metadata, name=Path(path).name)
    return metadata


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    name = path.name
    text = _bytes(metadata_path(path), limit_mib=MAX_METADATA_MIB)
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{metadata_path(path).name}: not JSON ({error}).", action=_AGAIN) from error
    found = (metadata.get("format"), metadata.get("format_version")) if isinstance(metadata, dict) else None
    if found != (FORMAT, FORMAT_VERSION):
        raise CheckpointError(
            f"{metadata_path(path).name}: found format {found}, expected {(FORMAT, FORMAT_VERSION)}.", action=_AGAIN
        )
    stated = metadata.get("weights")
    if not isinstance(stated, dict):
        raise CheckpointError(f"{metadata_path(path).name}: the entry 'weights' is missing.", action=_AGAIN)
    weights = _bytes(path, limit_mib=MAX_WEIGHTS_MIB)
    if len(weights) != stated.get("bytes"):
        raise CheckpointError(
            f"checkpoint {name!r}: found {len(weights)} bytes, expected {stated.get('bytes')}; "
            "it was cut, or belongs to other metadata.",
            action=_AGAIN,
        )
    digest = hashlib.sha256(weights).hexdigest()
    if digest != stated.get("sha256"):
        raise CheckpointError(
            f"checkpoint {name!r}: found SHA-256 {digest[:12]}…, expected {str(stated.get('sha256'))[:12]}…; "
            "weights and metadata are not from the same save.",
            action=_AGAIN,
        )
    return metadata, weights


def _bytes(path: Path, *, limit_mib: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(limit_mib * _MIB + 1)
    except (OSError, ValueError) as error:  # ValueError: no path at all
        why = getattr(error, "strerror", None) or error
        raise CheckpointError(f"checkpoint {str(path)!r}: {why}.", action=_AGAIN) from error
    if len(content) > limit_mib * _MIB:
        raise CheckpointError(f"checkpoint {path.name!r}: found more than {limit_mib} MiB, expected less.")
    return content


def _architecture(metadata: dict[str, Any], *, name: str) -> dict[str, Any]:
    """The constructor's arguments, if they are ones that a `DenseNet` may get."""
    stated = metadata.get("architecture")
    kind = stated.get("name") if isinstance(stated, dict) else None
    if kind != ARCHITECTURE:
        raise CheckpointError(f"checkpoint {name!r}: found architecture {kind!r}, expected {ARCHITECTURE!r}.")
    arguments = {key: stated.get(key) for key in (*_BOUNDS, "blocks")}
    blocks = arguments["blocks"]
    fits = all(_between(arguments[key], bound) for key, bound in _BOUNDS.items())
    fits = fits and isinstance(blocks, list) and 1 <= len(blocks) <= _MAX_BLOCKS
    if not (fits and all(_between(layers, _MAX_LAYERS) for layers in blocks)):
        raise CheckpointError(
            f"checkpoint {name!r}: found architecture arguments {arguments}, expected whole numbers up to "
            f"{_BOUNDS} and up to {_MAX_BLOCKS} blocks of up to {_MAX_LAYERS} layers."
        )
    return arguments | {"blocks": tuple(blocks)}


def _between(value: object, bound: int) -> bool:
    return type(value) is int and 1 <= value <= bound


def _compare(expected: Mapping[str, Any], found: Mapping[str, Any], *, name: str) -> None:
    """Names, shapes and types of the tensors must be those of the architecture."""
    wrong = [f"missing {key}" for key in expected if key not in found]
    wrong += [f"unexpected {key}" for key in found if key not in expected]
    for key in expected:
        if key in found:
            have, want = ((str(t.dtype).removeprefix("torch."), list(t.shape)) for t in (found[key], expected[key]))
            if have != want:
                wrong.append(f"{key}: found {have[0]} {have[1]}, expected {want[0]} {want[1]}")
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise CheckpointError(
            f"checkpoint {name!r}: the tensors do not fit the architecture its metadata names: "
            f"{'; '.join(wrong[:3])}{more}.",
            action=_AGAIN,
        )
