"""Tensors in their wire forms: a ModelInferRequest for gRPC, the binary extension for HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from tutorial_lib.errors import LoadError

Tensors = Mapping[str, np.ndarray]


def each(inputs: Tensors | Sequence[Tensors]) -> list[Tensors]:
    """What is sent in turn: a dict of input name → array for each request.

    Raises:
        LoadError: it is none, or there is none.
    """
    several = list(inputs) if isinstance(inputs, Sequence) else [inputs]
    for tensors in several:
        if not isinstance(tensors, Mapping) or not tensors or not all(isinstance(name, str) for name in tensors):
            raise LoadError(f"inputs: found {type(tensors).__name__}, expected a dict of input name → array.")
    if not several:
        raise LoadError("inputs: found none, expected a dict of input name → array, or a list of these.")
    return several


def wire(name: str, array: np.ndarray) -> tuple[str, list[int], bytes]:
    """Triton's type name, shape and raw bytes of an array.

    Raises:
        LoadError: it is none, or of a type that Triton does not have.
    """
    from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

    try:
        array = np.asarray(array)
    except ValueError as error:
        raise LoadError(f"input '{name}': found no array: {error}.", action="Give rows of equal length.") from None
    if array.dtype.kind in "US":
        array = array.astype(np.object_)
    kind = np_to_triton_dtype(array.dtype)
    if kind is None:
        raise LoadError(f"input '{name}': Triton has no type for numpy's {array.dtype}.", action="Convert the array.")
    if kind == "BYTES":
        packed = serialize_byte_tensor(array)
        return kind, list(array.shape), packed.item() if packed.size else b""
    return kind, list(array.shape), np.ascontiguousarray(array).tobytes()


def grpc_body(model: str, version: str, tensors: Tensors) -> bytes:
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name=model, model_version=version)
    for name, array in tensors.items():
        kind, shape, raw = wire(name, array)
        request.inputs.add(name=name, datatype=kind, shape=shape)
        request.raw_input_contents.append(raw)
    return request.SerializeToString()


def binary_body(tensors: Tensors) -> tuple[int, bytes]:
    """The length of the JSON part, and the whole body."""
    described, parts = [], []
    for name, array in tensors.items():
        kind, shape, raw = wire(name, array)
        described.append({"name": name, "datatype": kind, "shape": shape, "parameters": {"binary_data_size": len(raw)}})
        parts.append(raw)
    head = json.dumps({"inputs": described, "parameters": {"binary_data_output": True}}).encode()
    return len(head), b"".join([head, *parts])
