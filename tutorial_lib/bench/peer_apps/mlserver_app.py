"""MLServer around the bench's ONNX file; runs in an environment of its own."""

import json
import os
from pathlib import Path

import numpy as np
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Scores(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self.session = onnxruntime.InferenceSession(os.environ["BENCH_ONNX"], options)
        self.input_name = self.session.get_inputs()[0].name
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        import base64

        texts = payload.inputs[0].data.root
        arrays = [np.frombuffer(base64.b64decode(text), np.float32).reshape(3, 64, 64) for text in texts]
        scores = self.session.run(None, {self.input_name: np.stack(arrays)})[0]
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output(name="scores", payload=scores)]
        )


if __name__ == "__main__":
    import asyncio
    import tempfile

    from mlserver.cli.serve import load_settings
    from mlserver.server import MLServer

    async def main() -> None:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            port = int(os.environ["BENCH_PORT"])
            settings = {
                "host": "127.0.0.1", "http_port": port, "grpc_port": int(os.environ["BENCH_PORT_2"]),
                "metrics_port": int(os.environ["BENCH_PORT_3"]), "parallel_workers": 0, "debug": False,
            }  # fmt: skip
            (folder / "settings.json").write_text(json.dumps(settings))
            model = {"name": "resnet", "implementation": "mlserver_app.Scores", "max_batch_size": 16,
                     "max_batch_time": 0.001}  # fmt: skip
            (folder / "model-settings.json").write_text(json.dumps(model))
            loaded, models = await load_settings(str(folder))
            await MLServer(loaded).start(models)

    asyncio.run(main())
