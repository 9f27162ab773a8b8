"""What a model of a break-it lab must answer, known without a server; asked of a running one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tritonclient.utils import np_to_triton_dtype, triton_to_np_dtype

from tutorial_lib.course.judge import BATCH, TOLERANCE, Finding
from tutorial_lib.errors import ServerError
from tutorial_lib.server import Server

Promise = dict[str, tuple[str, list[int]]]  # tensor → type and shape on the wire


@dataclass(frozen=True)
class Exam:
    """A batch with its right answers.

    Attributes:
        model: its name.
        inputs: tensor → array, the first axis is the batch of 8.
        outputs: tensor → what another way of computing says, likewise.
    """

    model: str
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]

    def __call__(self, server: Server) -> Finding | None:
        """Ask a server that has just loaded the model; None when all is well."""
        if not server.ready(self.model):
            return Finding(f"'{self.model}' is not ready", "READY in the server's index")
        limit = server.config(self.model)["max_batch_size"]
        if limit < BATCH:
            return Finding(f"max_batch_size {limit}", f"batches of at least {BATCH}", "put max_batch_size back.")
        return self._promised(server.metadata(self.model)) or self._answered(server)

    def _promised(self, metadata: Mapping[str, Any]) -> Finding | None:
        """Whether clients are still promised the same tensors."""
        wanted = _promise({**self.inputs, **self.outputs})
        found = {
            one["name"]: (one["datatype"], [int(axis) for axis in one["shape"]])
            for one in (*metadata["inputs"], *metadata["outputs"])
        }
        if found == wanted:
            return None
        hint = "clients were written for these tensors: mend what the model does, not what it promises."
        return Finding(_told(found), f"{_told(wanted)}, as before", hint)

    def _answered(self, server: Server) -> Finding | None:
        header, tensors = _binary(self.inputs)
        try:  # first in binary, the form that every type has
            answer = server.control.infer_binary(self.model, header, tensors)
            found = _wrong_type(answer["outputs"], self.outputs)
            if found:
                return found
            answer = server.control.infer(self.model, {"inputs": [_entry(*one) for one in self.inputs.items()]})
        except ServerError as error:
            return Finding(error.problem, f"an answer to a batch of {BATCH}")
        for name, expected in self.outputs.items():
            one = next(one for one in answer["outputs"] if one["name"] == name)
            values = np.array(one["data"], triton_to_np_dtype(one["datatype"])).reshape(expected.shape)
            if not np.allclose(values, expected, rtol=TOLERANCE, atol=TOLERANCE):
                away = np.abs(values - expected).max()
                return Finding(f"values of {name} that are up to {away:.3g} away", "the right values, as before")
        return None


def _wrong_type(answered: Sequence[Mapping[str, Any]], outputs: Mapping[str, np.ndarray]) -> Finding | None:
    """The first output that has another type or shape than clients are promised."""
    for name, expected in outputs.items():
        found = next((one for one in answered if one["name"] == name), None)
        wanted = (np_to_triton_dtype(expected.dtype), list(expected.shape))
        if found is None or (found["datatype"], found["shape"]) != wanted:
            arrives = f"{found['datatype']} {found['shape']}" if found else "not at all"
            return Finding(
                f"it loads, it is ready, and it answers; but {name} arrives as {arrives}",
                f"{name} {wanted[0]} {wanted[1]}, as the model's metadata promise",
                served=True,
            )
    return None


def _binary(inputs: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], bytes]:
    """A request in Triton's binary form: its header, and the tensors' bytes."""
    entries = [
        {"name": name, "datatype": np_to_triton_dtype(array.dtype), "shape": list(array.shape)}
        | {"parameters": {"binary_data_size": array.nbytes}}
        for name, array in inputs.items()
    ]
    tensors = b"".join(array.tobytes() for array in inputs.values())
    return {"inputs": entries, "parameters": {"binary_data_output": True}}, tensors


def _promise(tensors: Mapping[str, np.ndarray]) -> Promise:
    return {name: (np_to_triton_dtype(array.dtype), [-1, *array.shape[1:]]) for name, array in tensors.items()}


def _told(promise: Promise) -> str:
    return ", ".join(f"{name} {kind} {shape}" for name, (kind, shape) in promise.items())


def _entry(name: str, array: np.ndarray) -> dict[str, Any]:
    kind = np_to_triton_dtype(array.dtype)
    return {"name": name, "datatype": kind, "shape": list(array.shape), "data": array.ravel().tolist()}
