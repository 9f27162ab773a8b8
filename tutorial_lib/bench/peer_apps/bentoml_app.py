"""BentoML around the bench's ONNX file, with its adaptive batching; runs in an environment of its own."""

import base64
import os

import bentoml
import numpy as np
import onnxruntime


@bentoml.service(traffic={"timeout": 30}, workers=1)
class Scores:
    def __init__(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self.session = onnxruntime.InferenceSession(os.environ["BENCH_ONNX"], options)
        self.name = self.session.get_inputs()[0].name

    @bentoml.api(batchable=True, max_batch_size=16)
    def predict(self, data: list[str]) -> list[list[float]]:
        arrays = [np.frombuffer(base64.b64decode(text), np.float32).reshape(3, 64, 64) for text in data]
        return self.session.run(None, {self.name: np.stack(arrays)})[0].tolist()
