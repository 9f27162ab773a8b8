"""TorchServe's handler for the bench's ONNX file, raw bytes in; runs in an environment of its own."""

import os

import numpy as np
import onnxruntime


class Scores:
    def initialize(self, context):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self.session = onnxruntime.InferenceSession(os.environ["BENCH_ONNX"], options)
        self.name = self.session.get_inputs()[0].name
        self.initialized = True

    def handle(self, requests, context):
        arrays = [np.frombuffer(request["body"], np.float32).reshape(3, 64, 64) for request in requests]
        return [scores.tobytes() for scores in self.session.run(None, {self.name: np.stack(arrays)})[0]]
