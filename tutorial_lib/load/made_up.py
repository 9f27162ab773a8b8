"""Inputs made up from a model's metadata, for a load run that needs any."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tutorial_lib.errors import LoadError
from tutorial_lib.load.checks import seeded, whole

MOST_BYTES = 256 * 2**20


def made_up_inputs(
    metadata: Mapping[str, Any],
    config: Mapping[str, Any],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int = 1,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """An array for each input that is not optional.

    Numbers are uniform from 0 to 1, integers 0 or 1 (small enough for any vocabulary), texts are "text".

    Args:
        metadata, config: Triton's answers for the model.
        shapes: input → whole shape, batch included; needed where a dimension other than the batch is open.
        batch: the size of the batch axis, where the model has one.

    Raises:
        LoadError: an open dimension has no shape, or the shape does not fit the model.
    """
    given = {name: _sizes(name, shape) for name, shape in dict(shapes or {}).items()}
    whole("batch", batch, high=100_000)
    entries = {entry["name"]: entry for entry in metadata["inputs"]}
    if unknown := next((name for name in given if name not in entries), None):
        raise LoadError(f"shapes: the model has no input '{unknown}'; it has {', '.join(entries)}.")
    optional = {entry["name"] for entry in config.get("input", ()) if entry.get("optional")}
    most = int(config.get("max_batch_size") or 0)
    if most and batch > most:
        raise LoadError(f"batch: found {batch}, the model's max_batch_size is {most}.", action="Give a smaller one.")
    random = seeded(seed)
    wanted = [entry for name, entry in entries.items() if name not in optional or name in given]
    return {entry["name"]: _array(entry, given.get(entry["name"]), most > 0, batch, random) for entry in wanted}


def _sizes(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(operator.index(size) for size in shape)
    except TypeError:
        raise LoadError(
            f"shapes: found {shape!r} for '{name}', expected whole numbers.",
            action=f"Give such as {{'{name}': (1, 3)}}.",
        ) from None


def _array(
    entry: Mapping[str, Any], given: Sequence[int] | None, batched: bool, batch: int, random: np.random.Generator
) -> np.ndarray:
    from tritonclient.utils import triton_to_np_dtype

    name, dims = entry["name"], [int(size) for size in entry["shape"]]
    shape = [int(size) for size in given] if given is not None else list(dims)
    if given is None and batched:
        shape[0] = batch
    fits = len(shape) == len(dims) and all(size in (-1, own) for size, own in zip(dims, shape, strict=True))
    if not fits or min(shape, default=1) < 1:
        raise LoadError(
            f"input '{name}': found the shape {shape}, the model's is {dims}.",
            action=f"Give every size, batch included: shapes={{'{name}': (…)}} or --shape {name}:….",
        )
    dtype = np.dtype(triton_to_np_dtype(entry["datatype"]) or np.float32)
    if int(np.prod(shape, dtype=np.float64)) * dtype.itemsize > MOST_BYTES:
        raise LoadError(f"input '{name}': {shape} is more than {MOST_BYTES // 2**20} MiB.", action="Make it smaller.")
    if dtype == np.object_:
        return np.full(shape, b"text", dtype=np.object_)
    if dtype.kind in "iub":
        return random.integers(0, 2, shape).astype(dtype)
    return random.random(shape, dtype=np.float32).astype(dtype)
