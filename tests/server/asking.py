"""Asking a served model over gRPC as its config.pbtxt says, and comparing with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import tritonclient.grpc as triton_grpc


def wire(array: np.ndarray, entry, batched: bool) -> np.ndarray:
    """What a client sends or gets for an array of the graph."""
    if entry.HasField("reshape"):
        assert batched and list(entry.reshape.shape) == [] and list(entry.dims) == [1]
        return array.reshape(-1, 1)
    return np.atleast_1d(array)


def ask(client, model: str, config, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    tensors = []
    for entry in config.input:
        array = wire(feeds[entry.name], entry, config.max_batch_size > 0)
        kind = entry.DESCRIPTOR.fields_by_name["data_type"].enum_type.values_by_number[entry.data_type].name
        tensor = triton_grpc.InferInput(entry.name, list(array.shape), kind[5:].replace("STRING", "BYTES"))
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    result = client.infer(model, tensors, client_timeout=30)
    return {entry.name: result.as_numpy(entry.name) for entry in config.output}


def assert_same(found: np.ndarray, expected: np.ndarray, what: str, *, rtol: float = 1e-5) -> None:
    if expected.dtype == object:
        expected = np.vectorize(str.encode, otypes=[object])(expected)
    assert found.shape == expected.shape, what
    assert found.dtype == expected.dtype, what
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol / 10, err_msg=what)
    else:
        assert np.array_equal(found, expected), what
