"""What many write first: FastAPI around torch, base64 in JSON, the model called inside `async def`."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import numpy as np
import torch
from fastapi import FastAPI
from pydantic import BaseModel

from tutorial_lib.bench.digits import trained_resnet
from tutorial_lib.models.resnet import IMAGE_SHAPE

app = FastAPI()
network = trained_resnet(Path(os.environ["BENCH_WEIGHTS"]))


class Question(BaseModel):
    """One picture, FP32 (3, 64, 64), as base64."""

    data: str


@app.post("/predict")
async def predict(question: Question) -> dict[str, list[float]]:
    """Its ten scores. The call blocks the event loop, and with it every other client."""
    array = np.frombuffer(base64.b64decode(question.data), np.float32).reshape(1, *IMAGE_SHAPE)
    with torch.inference_mode():
        scores = network(torch.from_numpy(array.copy()))
    return {"scores": scores[0].tolist()}
