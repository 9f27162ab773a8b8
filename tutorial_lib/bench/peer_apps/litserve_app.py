"""LitServe around the bench's ONNX file; runs in an environment of its own."""

import base64
import os

import litserve
import numpy as np
import onnxruntime


class Scores(litserve.LitAPI):
    """Base64 in JSON: LitServe hands JSON to its workers."""

    def setup(self, device):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self.session = onnxruntime.InferenceSession(os.environ["BENCH_ONNX"], options)
        self.name = self.session.get_inputs()[0].name

    def decode_request(self, request):
        return np.frombuffer(base64.b64decode(request["data"]), np.float32).reshape(3, 64, 64)

    def batch(self, inputs):
        return np.stack(inputs)

    def predict(self, x):
        return self.session.run(None, {self.name: x})[0]

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        return {"scores": output.tolist()}


if __name__ == "__main__":
    api = Scores(max_batch_size=16, batch_timeout=0.001)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(os.environ["BENCH_PORT"]), log_level="warning", generate_client_file=False)
