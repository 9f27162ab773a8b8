"""Ray Serve around the bench's ONNX file, with `@serve.batch`; runs in an environment of its own."""

import os
import signal

import numpy as np
import onnxruntime
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response


@serve.deployment(num_replicas=1, max_ongoing_requests=256, ray_actor_options={"num_cpus": 1})
class Scores:
    def __init__(self, path: str):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self.session = onnxruntime.InferenceSession(path, options)
        self.name = self.session.get_inputs()[0].name

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.001)
    async def scores(self, arrays):
        return list(self.session.run(None, {self.name: np.stack(arrays)})[0])

    async def __call__(self, request: Request) -> Response:
        array = np.frombuffer(await request.body(), np.float32).reshape(3, 64, 64)
        return Response((await self.scores(array)).tobytes())


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20)
    serve.start(http_options={"host": "127.0.0.1", "port": int(os.environ["BENCH_PORT"])})
    serve.run(Scores.bind(os.environ["BENCH_ONNX"]), route_prefix="/predict")
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    ray.shutdown()
