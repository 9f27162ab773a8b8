"""Health as an answer: send a model a small request and see whether one comes back."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from typing import Any

from tutorial_lib.errors import AnsweredError, ServerError
from tutorial_lib.server.control import Control
from tutorial_lib.server.log import without_stack

PROBE_TIMEOUT_S = 5.0
MAX_PROBE_ELEMENTS = 4_000_000  # 16 MB of FP32: larger fixed shapes are not worth a health check
# Source: "Tensor Data Types" of the KServe protocol, BF16 from Triton's binary tensor extension.
# An empty text is four bytes: its length.
ELEMENT_BYTES = {"BOOL": 1, "BYTES": 4, "BF16": 2, "FP16": 2, "FP32": 4, "FP64": 8} | {
    f"{sign}INT{bits}": bits // 8 for sign in ("", "U") for bits in (8, 16, 32, 64)
}
# how Triton (2.51) itself says that the model's process is gone, in place of the model's own words
DEAD_STUB = ("Stub process '", "is not healthy")
DECOUPLED = "decoupled transaction policy"  # HTTP does not serve these; an ensemble may have one inside


@dataclass(frozen=True)
class Health:
    """What asking a model showed.

    Attributes:
        model: its name.
        ready: what Triton's ready endpoint says.
        answers: whether the model was there to answer; its own refusal of the probe's zeros counts,
            a dead process, a time-out or a broken connection do not.
        detail: the error that came back, or why none came; "" after a plain answer.
    """

    model: str
    ready: bool
    answers: bool
    detail: str = ""

    def __bool__(self) -> bool:
        return self.ready and self.answers


def probe(control: Control, model: str, *, grpc_address: str, timeout_s: float = PROBE_TIMEOUT_S) -> Health:
    """Ask one model a real question: zeros (or empty strings), one of each free axis.

    Triton goes on calling a model ready after its Python stub died, so only an answer counts.

    Args:
        control: calls to the server's HTTP address.
        model: its name.
        grpc_address: host and port of its gRPC side, the only one that serves decoupled models.
        timeout_s: the longest to wait for the answer.

    Raises:
        ServerError: the model's fixed shapes are too large to probe.
    """
    if not control.ready(model):
        return Health(model, False, False, "not ready")
    try:
        config = control.config(model)
        header, tensors = binary_zeros(control.metadata(model))
    except AnsweredError as error:  # it was unloaded in between
        return Health(model, False, False, error.problem)
    if config.get("sequence_batching"):  # a sequence of one request
        sequence = {"sequence_id": uuid.uuid4().int >> 65, "sequence_start": True, "sequence_end": True}
    else:
        sequence = {}
    try:
        header["parameters"] = sequence | {"binary_data_output": True}
        try:
            control.infer_binary(model, header, b"".join(tensors), timeout_s=timeout_s)
        except AnsweredError as error:
            if DECOUPLED not in error.problem:
                raise
            _stream(grpc_address, model, header["inputs"], tensors, sequence, timeout_s)
    except AnsweredError as error:
        dead = all(words in error.problem for words in DEAD_STUB)
        return Health(model, control.ready(model), not dead, error.problem)
    except ServerError as error:
        return Health(model, True, False, error.problem)
    return Health(model, True, True)


def zeros_request(metadata: dict[str, Any]) -> dict[str, Any]:
    """A JSON inference request that fits a model's metadata, filled with zeros.

    Triton takes FP16 and BF16 in binary form only; `probe` sends that for every type.

    Args:
        metadata: Triton's model metadata: inputs with name, datatype and shape (-1: free axis).

    Raises:
        ServerError: a fixed shape is too large to probe.
    """
    inputs = _inputs(metadata)
    for entry in inputs:
        zero: Any = {"BYTES": "", "BOOL": False}.get(entry["datatype"], 0)
        entry["data"] = [zero] * math.prod(entry["shape"])
    return {"inputs": inputs}


def binary_zeros(metadata: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """The same request in binary form: its JSON header, and the bytes of each input.

    Raises:
        ServerError: a fixed shape is too large to probe.
    """
    inputs = _inputs(metadata)
    tensors = [bytes(math.prod(entry["shape"]) * ELEMENT_BYTES[entry["datatype"]]) for entry in inputs]
    for entry, tensor in zip(inputs, tensors, strict=True):
        entry["parameters"] = {"binary_data_size": len(tensor)}
    return {"inputs": inputs}, tensors


def _inputs(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Name, datatype and smallest shape of each input."""
    inputs = []
    for tensor in metadata["inputs"]:
        shape = [1 if axis < 0 else axis for axis in map(int, tensor["shape"])]
        size = math.prod(shape)
        if size > MAX_PROBE_ELEMENTS:
            raise ServerError(
                f"model '{metadata['name']}', input '{tensor['name']}': {size} elements, too large to probe."
            )
        inputs.append({"name": tensor["name"], "datatype": tensor["datatype"], "shape": shape})
    return inputs


def _stream(
    address: str,
    model: str,
    inputs: list[dict[str, Any]],
    tensors: list[bytes],
    sequence: dict[str, Any],
    limit_s: float,
) -> None:
    """Ask a decoupled model over a gRPC stream; returns at its first response, or at its end without one.

    Raises:
        AnsweredError: Triton or the model refused.
        ServerError: no answer came.
    """
    import grpc  # here, because few models need it
    from tritonclient.grpc.service_pb2 import InferParameter, ModelInferRequest
    from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

    parameters = {"triton_enable_empty_final_response": InferParameter(bool_param=True)}
    for name, value in sequence.items():
        kind = "bool_param" if isinstance(value, bool) else "int64_param"
        parameters[name] = InferParameter(**{kind: value})
    described = [{key: entry[key] for key in ("name", "datatype", "shape")} for entry in inputs]
    request = ModelInferRequest(model_name=model, inputs=described, raw_input_contents=tensors, parameters=parameters)
    # as in Control: a proxy must not stand between
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            answer = next(GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]), timeout=limit_s), None)
        except grpc.RpcError as error:
            late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            said = f"no answer within {limit_s:g} s" if late else error.details()
            raise ServerError(f"gRPC stream {address}: {said}.") from error
    if answer is not None and answer.error_message:
        raise AnsweredError(without_stack(answer.error_message))
