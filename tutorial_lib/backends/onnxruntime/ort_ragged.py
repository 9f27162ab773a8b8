"""Ragged batches: inputs of several lengths end to end, and what tells the model where each one begins.

Source: https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/ragged_batching.html
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from ort_file import refuse
from triton_python_backend_utils import triton_string_to_numpy

KINDS = (
    "BATCH_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
    "BATCH_ITEM_SHAPE",
    "BATCH_ITEM_SHAPE_FLATTEN",
)
Feeds = dict[str, np.ndarray]


class Ragged:
    """The ragged inputs, batch inputs and batch outputs of one configuration; falsy when it has none."""

    def __init__(self, config: dict) -> None:
        self.inputs = {entry["name"] for entry in config["input"] if entry.get("allow_ragged_batch")}
        self.batch_inputs = config.get("batch_input", [])
        self.sources, self.shapes = {}, {}
        for entry in self.batch_inputs:
            if entry["kind"] not in KINDS:
                refuse(f"unexpected batch input kind '{entry['kind']}'")
        for output in config.get("batch_output", []):
            if output["kind"] != "BATCH_SCATTER_WITH_INPUT_SHAPE":
                refuse(f"unexpected batch output kind '{output['kind']}'")
            for name in output["target_name"]:
                self.sources[name] = output["source_input"][0]
        for entry in config["output"]:
            if entry["name"] in self.sources:
                lead = [-1] if config["max_batch_size"] > 0 else []
                self.shapes[entry["name"]] = lead + [int(dim) for dim in entry["dims"]]

    def __bool__(self) -> bool:
        return bool(self.inputs or self.batch_inputs or self.sources)

    def feeds(self, parts: list[Feeds]) -> Feeds:
        """One set of feeds for all requests.

        Args:
            parts: each request's tensors, in the shapes clients sent.
        """
        feeds = {}
        for name in parts[0]:
            arrays = [part[name].ravel() if name in self.inputs else part[name] for part in parts]
            feeds[name] = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
        for entry in self.batch_inputs:
            arrays = [part[entry["source_input"][0]] for part in parts]
            value = described(entry["kind"], arrays)
            value = value.astype(triton_string_to_numpy(entry["data_type"]))
            feeds |= dict.fromkeys(entry["target_name"], value)
        return feeds

    def scatter(self, name: str, result: np.ndarray, parts: list[Feeds]) -> list[np.ndarray]:
        """A flat result cut into one piece per request, in the shape of its source input."""
        pieces, start, flat = [], 0, np.ravel(result)
        for part in parts:
            source = part[self.sources[name]].shape
            shape = [source[axis] if dim == -1 else dim for axis, dim in enumerate(self.shapes[name])]
            stop = start + int(np.prod(shape))
            pieces.append(flat[start:stop].reshape(shape))
            start = stop
        return pieces


def described(kind: str, arrays: list[np.ndarray]) -> np.ndarray:
    """What a batch input of this kind says of the requests' arrays."""
    counts = [array.size for array in arrays]
    if kind == "BATCH_ELEMENT_COUNT":
        return np.array(counts)
    if kind == "BATCH_ACCUMULATED_ELEMENT_COUNT":
        return np.array(list(accumulate(counts)))
    if kind == "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO":
        return np.array(list(accumulate(counts, initial=0)))
    if kind == "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE":
        return np.zeros(max(counts))  # only its length says something
    shapes = np.array([array.shape[1:] for array in arrays for _ in range(len(array))])
    return shapes if kind == "BATCH_ITEM_SHAPE" else shapes.ravel()
