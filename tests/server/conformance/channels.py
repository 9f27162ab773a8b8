"""One question, four ways to ask it: gRPC, HTTP with binary tensors, HTTP with JSON, and system shared memory."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, shared_memory, triton_to_np_dtype

CHANNELS = ("grpc", "http", "json", "shared-memory")
LARGEST_OUTPUT = 1 << 16  # bytes of an output region; the suites' tensors are small

Arrays = Mapping[str, np.ndarray]


def ask(
    server,
    model: str,
    feeds: Arrays,
    outputs: Sequence[str],
    *,
    channel: str,
    timeout_s: float = 30.0,
    version: str = "",
) -> dict[str, np.ndarray]:
    """The answer to one request.

    Args:
        outputs: those asked for and returned.
        version: the model's version; "" leaves it to the server.

    Raises:
        InferenceServerException: what the server says no with.
    """
    if channel == "grpc":
        with triton_grpc.InferenceServerClient(server.grpc_address) as client:
            return _ask(client, triton_grpc, model, feeds, outputs, {}, client_timeout=timeout_s, model_version=version)
    with triton_http.InferenceServerClient(server.http_address, network_timeout=timeout_s) as client:
        if channel == "shared-memory":
            return _ask_through_regions(client, model, feeds, outputs, version)
        return _ask(
            client, triton_http, model, feeds, outputs, {"binary_data": channel == "http"}, model_version=version
        )


def _ask(client, kind, model: str, feeds: Arrays, outputs: Sequence[str], binary: dict, **options):
    tensors = []
    for name, array in feeds.items():
        tensor = kind.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array, **binary)
        tensors.append(tensor)
    wanted = [kind.InferRequestedOutput(name, **binary) for name in outputs]
    result = client.infer(model, tensors, outputs=wanted, **options)
    return {name: _bytes(result.as_numpy(name)) for name in outputs}


def _bytes(array: np.ndarray) -> np.ndarray:
    """Strings as bytes, which the client gives for binary tensors; for JSON it gives text."""
    if array.dtype.kind not in "OU":
        return array
    texts = [text.encode() if isinstance(text, str) else text for text in array.ravel()]
    return np.array(texts, dtype=object).reshape(array.shape)


def _ask_through_regions(
    client, model: str, feeds: Arrays, outputs: Sequence[str], version: str
) -> dict[str, np.ndarray]:
    """Inputs lie in shared memory, and so do outputs, except BYTES, whose size is not known before."""
    regions: list[tuple[str, object]] = []

    def region(size: int) -> tuple[str, object]:
        name = f"c2t-test-{uuid.uuid4().hex}"
        handle = shared_memory.create_shared_memory_region(name, f"/{name}", size)
        regions.append((name, handle))
        client.register_system_shared_memory(name, f"/{name}", size)
        return name, handle

    try:
        tensors = []
        for name, array in feeds.items():
            tensor = triton_http.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
            if array.dtype == object or not array.nbytes:
                tensor.set_data_from_numpy(array)
            else:
                label, handle = region(array.nbytes)
                shared_memory.set_shared_memory_region(handle, [array])
                tensor.set_shared_memory(label, array.nbytes)
            tensors.append(tensor)
        wanted, handles = [], {}
        for name in outputs:
            output = triton_http.InferRequestedOutput(name, binary_data=True)
            label, handles[name] = region(LARGEST_OUTPUT)
            output.set_shared_memory(label, LARGEST_OUTPUT)
            wanted.append(output)
        result = client.infer(model, tensors, outputs=wanted, model_version=version)
        answers = {}
        for name in outputs:
            described = result.get_output(name)
            kind = triton_to_np_dtype(described["datatype"])
            # a copy: the region goes away
            view = shared_memory.get_contents_as_numpy(handles[name], kind, described["shape"])
            answers[name] = np.array(view, dtype=kind)
        return answers
    finally:
        for label, handle in regions:
            _unregister(client, label)
            shared_memory.destroy_shared_memory_region(handle)


def _unregister(client, label: str, timeout_s: float = 5.0) -> None:
    """Triton lets go of a request's regions a moment after it has answered."""
    deadline = time.monotonic() + timeout_s
    while "currently in use" in said(lambda: client.unregister_system_shared_memory(label)):
        assert time.monotonic() < deadline, f"region {label} is still in use"


def said(call: Callable[[], object]) -> str:
    """What an exception of the client says; "" when the call goes through."""
    try:
        call()
    except InferenceServerException as error:
        return error.message()
    return ""
