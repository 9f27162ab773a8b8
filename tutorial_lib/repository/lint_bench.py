"""How long the linter takes: a made-up repository of many models, timed.

python -m tutorial_lib.repository.lint_bench 1000
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from onnx import TensorProto, helper

from tutorial_lib.repository.lint import lint_repository

_SCRIPT = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", array)]))
        return responses
"""
_TENSORS = """max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 16 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 16 ] } ]
"""
_STEP = '{ model_name: "%s" model_version: -1 input_map { key: "x" value: "%s" } output_map { key: "y" value: "%s" } }'


def make_repository(root: Path, count: int) -> None:
    """Of ten models six are ONNX, three Python and one an ensemble of two; each version folder has its file."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [16, 16], [0.5] * 256)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 16]) for name in "xy")
    graph = helper.make_graph(nodes, "bench", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    for number in range(count):
        kind = number % 10
        folder = root / f"model_{number:05}"
        (folder / "1").mkdir(parents=True)
        if kind < 6:
            (folder / "1" / "model.onnx").write_bytes(model)
            (folder / "config.pbtxt").write_text(f'backend: "onnxruntime"\n{_TENSORS}dynamic_batching {{ }}\n')
        elif kind < 9:
            (folder / "1" / "model.py").write_text(_SCRIPT)
            (folder / "config.pbtxt").write_text(f'backend: "python"\n{_TENSORS}')
        else:
            names = [f"model_{number - back:05}" for back in (1, 2)]
            steps = ", ".join((_STEP % (names[0], "x", "middle"), _STEP % (names[1], "middle", "y")))
            text = f'platform: "ensemble"\n{_TENSORS}ensemble_scheduling {{ step [ {steps} ] }}\n'
            (folder / "config.pbtxt").write_text(text)


def lint_seconds(count: int) -> float:
    """Seconds that linting `count` models takes, the imports of the first model left out."""
    with tempfile.TemporaryDirectory() as place:
        warm, root = Path(place) / "warm", Path(place) / "models"
        make_repository(warm, 10)
        make_repository(root, count)
        lint_repository(warm)
        start = time.perf_counter()
        findings = lint_repository(root)
        seconds = time.perf_counter() - start
    if findings.errors:
        raise AssertionError(f"the linter finds errors in a repository without any: {findings.errors[0]}")
    return seconds


if __name__ == "__main__":
    models = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{models} models: {lint_seconds(models):.1f} s")
