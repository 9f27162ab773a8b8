"""Whether a repaired model really is one: what the running server answers, not what the files say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tutorial_lib.errors import ServerError
from tutorial_lib.models.names import CLASSES, IMAGE_SHAPE, INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.server import Server

BATCH = 8
LIMIT = 32  # max_batch_size of the whole model
TOLERANCE = 1e-3
TENSORS = {INPUT_NAME: ("FP32", [-1, *IMAGE_SHAPE]), OUTPUT_NAME: ("FP32", [-1, len(CLASSES)])}


@dataclass(frozen=True)
class Finding:
    """What is not right yet.

    Attributes:
        found: what the server says or does.
        expected: what it should.
        hint: a hint that fits exactly this; "" when the fault's own hints fit better.
        served: whether the server refused nothing, and an answer shows it.
    """

    found: str
    expected: str
    hint: str = ""
    served: bool = False


@dataclass(frozen=True)
class Truth:
    """The whole model file, run by ONNX Runtime without any server.

    Attributes:
        model: the bytes of model.onnx.
    """

    model: bytes

    @cached_property
    def images(self) -> np.ndarray:
        """A batch that nobody can know beforehand, float32 (8, 3, 32, 32)."""
        return np.random.default_rng().standard_normal((BATCH, *IMAGE_SHAPE), dtype=np.float32)

    @cached_property
    def scores(self) -> np.ndarray:
        """What the model says to them, float32 (8, 10)."""
        import onnxruntime

        session = onnxruntime.InferenceSession(self.model, providers=["CPUExecutionProvider"])
        return session.run([OUTPUT_NAME], {INPUT_NAME: self.images})[0]


def judge(server: Server, truth: Truth) -> Finding | None:
    """Ask a server that has just loaded the model; None when all is well.

    Args:
        server: with MODEL_NAME loaded, or not.
        truth: the good file.
    """
    if not server.ready(MODEL_NAME):
        return Finding(f"'{MODEL_NAME}' is not ready", "READY in the server's index")
    return _configured(server) or _answered(server, truth)


def _configured(server: Server) -> Finding | None:
    """The promises that clients and operators rely on, as the server has them in force."""
    config, metadata = server.config(MODEL_NAME), server.metadata(MODEL_NAME)
    limit = config["max_batch_size"]
    if limit < 1:
        return Finding("max_batch_size 0", "a repair without giving up batching", "put max_batch_size: 32 back.")
    if limit < BATCH:
        hint = "leave max_batch_size: 32 as it was; without it, or without config.pbtxt, Triton chooses a default."
        return Finding(f"max_batch_size {limit}", f"batches of at least {BATCH}", hint)
    if limit != LIMIT:
        return Finding(
            f"max_batch_size {limit}", f"max_batch_size {LIMIT}, as before", "it was not broken: put it back."
        )
    if "dynamic_batching" not in config:
        return Finding(
            "no dynamic_batching", "dynamic batching, as before: requests share runs", "put dynamic_batching { } back."
        )
    served = {
        tensor["name"]: (tensor["datatype"], [int(axis) for axis in tensor["shape"]])
        for tensor in (*metadata["inputs"], *metadata["outputs"])
    }
    if served.keys() != TENSORS.keys():
        hint = "change the configuration, not the model's own names."
        return Finding(f"tensors {', '.join(served)}", f"{', '.join(TENSORS)}: every client asks for these", hint)
    for name, (datatype, shape) in TENSORS.items():
        if served[name] != (datatype, shape):
            found = f"{name} {served[name][0]} {served[name][1]}"
            return Finding(found, f"{name} {datatype} {shape}", "this is the shape on the wire: -1 is the batch.")
    return None


def _answered(server: Server, truth: Truth) -> Finding | None:
    """A batch of eight, compared with ONNX Runtime, and the labels."""
    try:
        scores = np.array(_infer(server, truth.images)["data"], np.float32).reshape(BATCH, -1)  # (8, 10)
        best = _infer(server, truth.images[:1], classification=1)["data"][0]
    except ServerError as error:
        return Finding(error.problem, f"an answer to a batch of {BATCH}")
    if scores.shape != truth.scores.shape or not np.allclose(scores, truth.scores, rtol=TOLERANCE, atol=TOLERANCE):
        found = "another number of scores"
        if scores.shape == truth.scores.shape:
            found = f"scores that are up to {np.abs(scores - truth.scores).max():.3g} away"
        hint = "another model answers: the file of notebook 02 is in space.exports."
        return Finding(found, "the same answers as the good file gives in ONNX Runtime", hint)
    index = int(truth.scores[0].argmax())
    if best.split(":")[1:] != [str(index), CLASSES[index]]:
        hint = 'the output needs label_filename: "labels.txt", and that file its ten lines.'
        return Finding(f"class {best!r}", f"class {index} called '{CLASSES[index]}', from the label file", hint)
    return None


def _infer(server: Server, images: np.ndarray, **wanted: Any) -> dict[str, Any]:
    entry = {"name": INPUT_NAME, "datatype": "FP32", "shape": list(images.shape), "data": images.ravel().tolist()}
    output = {"name": OUTPUT_NAME, "parameters": {"binary_data": False, **wanted}}
    return server.control.infer(MODEL_NAME, {"inputs": [entry], "outputs": [output]})["outputs"][0]
