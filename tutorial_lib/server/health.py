"""Health as an answer: send a model a small request and see whether one comes back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tutorial_lib.errors import ServerError
from tutorial_lib.server.control import Control

PROBE_TIMEOUT_S = 5.0
MAX_PROBE_ELEMENTS = 4_000_000  # 16 MB of FP32: larger fixed shapes are not worth a health check


@dataclass(frozen=True)
class Health:
    """What asking a model showed.

    Attributes:
        model: its name.
        ready: what Triton's ready endpoint says.
        answers: whether a real inference came back, even one refusing the probe's values.
        detail: what came back otherwise.
    """

    model: str
    ready: bool
    answers: bool
    detail: str = ""

    def __bool__(self) -> bool:
        return self.ready and self.answers


def probe(control: Control, model: str, *, timeout_s: float = PROBE_TIMEOUT_S) -> Health:
    """Ask one model a real question: zeros (or empty strings), one of each free axis.

    Triton goes on calling a model ready after its Python stub died, so only an answer counts.

    Raises:
        ServerError: the model's fixed shapes are too large to probe.
    """
    ready = control.ready(model)
    if not ready:
        return Health(model, False, False, "not ready")
    try:
        control.infer(model, zeros_request(control.metadata(model)), timeout_s=timeout_s)
    except ServerError as error:
        return Health(model, ready, False, error.problem)
    return Health(model, ready, True)


def zeros_request(metadata: dict[str, Any]) -> dict[str, Any]:
    """A JSON inference request that fits a model's metadata, filled with zeros.

    Args:
        metadata: Triton's model metadata: inputs with name, datatype and shape (-1: free axis).
    """
    inputs = []
    for tensor in metadata["inputs"]:
        shape = [1 if axis < 0 else axis for axis in map(int, tensor["shape"])]
        size = math.prod(shape)
        if size > MAX_PROBE_ELEMENTS:
            raise ServerError(
                f"model '{metadata['name']}', input '{tensor['name']}': {size} elements, too large to probe."
            )
        zero: Any = {"BYTES": "", "BOOL": False}.get(tensor["datatype"], 0)
        inputs.append({"name": tensor["name"], "datatype": tensor["datatype"], "shape": shape, "data": [zero] * size})
    return {"inputs": inputs}
