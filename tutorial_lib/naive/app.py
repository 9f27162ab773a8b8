"""The naive app, as the articles show it: decode, preprocess, run the model, all inside one request handler.

It is kept as it is written every day, without limits, deadlines or batches; a picture it cannot read is a
500. `engine` is the model: PyTorch as trained, or the exported graph in ONNX Runtime.
"""

from __future__ import annotations

import base64
import importlib
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from fastapi import FastAPI
from PIL import Image

from tutorial_lib.checkpoint import load_checkpoint
from tutorial_lib.naive.schemas import Answer, Picture

Model = Callable[[np.ndarray], np.ndarray]


def load_torch(weights: str, threads: int | None) -> Model:
    """FP32 (1, 3, h, w) → scores FP32 (1, classes), by PyTorch.

    Args:
        weights: a checkpoint of notebook 01, or "module:function", which makes the network.
        threads: for one picture; None leaves it to PyTorch, which takes all cores.
    """
    import torch

    if threads:
        torch.set_num_threads(threads)
    if ":" in weights:
        module, _, name = weights.partition(":")
        network = getattr(importlib.import_module(module), name)()
    else:
        network = load_checkpoint(Path(weights)).model
    network.eval()

    def run(x: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return network(torch.from_numpy(x)).numpy()

    return run


def load_onnx(weights: str, threads: int | None) -> Model:
    """The same, by ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x})[0]


def create_app(
    *, weights: str, engine: str, labels: list[str], side: int, blocking: bool, threads: int | None
) -> FastAPI:
    """The app.

    Args:
        weights: the model's file.
        engine: "torch" or "onnx".
        labels: the class names, in order.
        side: height and width that the model takes.
        blocking: `async def`, which blocks the event loop while the model runs; else a plain `def`, which
            FastAPI runs in its thread pool.
        threads: the engine's, for one picture; None leaves them to it.
    """
    app = FastAPI(title="Naive digits")
    model = {"torch": load_torch, "onnx": load_onnx}[engine](weights, threads)

    def classify(picture: Picture) -> Answer:
        image = Image.open(io.BytesIO(base64.b64decode(picture.image))).convert("RGB")
        image = image.resize((side, side), Image.Resampling.BILINEAR)
        x = (np.asarray(image, np.float32) / 127.5 - 1).transpose(2, 0, 1)[None].copy()  # (1, 3, side, side)
        scores = model(x)[0]  # (classes,)
        best = int(scores.argmax())
        return Answer(class_name=labels[best], class_id=best, logit=float(scores[best]))

    if blocking:

        @app.post("/predict")
        async def predict(picture: Picture) -> Answer:
            return classify(picture)  # nothing else happens in this process until it returns
    else:

        @app.post("/predict")
        def predict(picture: Picture) -> Answer:
            return classify(picture)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return app
