"""A real embedded Triton on small repositories made on the spot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tutorial_lib.server import Server, serve

ROUNDS = 5  # a client's thread may start late, where the machine is busy

ECHO_MODEL = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            sent = pb_utils.get_input_tensor_by_name(request, "SENT").as_numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("RETURNED", sent)]))
        return answers
"""
ECHO_CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "SENT" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "RETURNED" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""


def write_echo(repository: Path, name: str = "echo") -> Path:
    """A Python model that returns what it is sent."""
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "model.py").write_text(ECHO_MODEL)
    (repository / name / "config.pbtxt").write_text(ECHO_CONFIG)
    return repository


def save_onnx(path: Path, nodes, inputs, outputs, weights=(), *, ir: int = 9, opset: int = 17) -> Path:
    """Write a small ONNX graph.

    Args:
        inputs: (name, TensorProto type, shape) each; likewise outputs.
        weights: name → array.
    """
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*entry) for entry in inputs],
        [helper.make_tensor_value_info(*entry) for entry in outputs],
        [numpy_helper.from_array(array, name) for name, array in dict(weights).items()],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir), path)
    return path


def save_double(path: Path, **versions: int) -> Path:
    """x [batch, 3] → y = 2x."""
    return save_onnx(
        path,
        [helper.make_node("Mul", ["x", "two"], ["y"])],
        [("x", TensorProto.FLOAT, ["batch", 3])],
        [("y", TensorProto.FLOAT, ["batch", 3])],
        {"two": np.array(2.0, np.float32)},
        **versions,
    )


def wait_until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def rounds_until_together(server: Server, model: str, asked: Sequence, ask: Callable) -> Iterator[list]:
    """The answers to clients that ask at the same time, again until some of them have shared a run of the model."""

    def counted() -> int:
        found = server.statistics(model)["inference_stats"]
        return found["success"]["count"] + found["fail"]["count"]

    earlier = counted()
    for number in range(1, ROUNDS + 1):
        before = server.statistics(model)["execution_count"]
        with ThreadPoolExecutor(len(asked)) as pool:
            yield list(pool.map(ask, asked))
        # Triton counts after it has answered
        wait_until(lambda: counted() - earlier >= number * len(asked))  # noqa: B023
        if server.statistics(model)["execution_count"] - before < len(asked):
            return
    raise AssertionError("they never came together")


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory):
    """One server for tests that only ask: `echo` (Python) and `double` (ONNX, config completed)."""
    repository = write_echo(tmp_path_factory.mktemp("shared"))
    save_double(repository / "double" / "1" / "model.onnx")
    with serve(repository) as server:
        yield server


@pytest.fixture(scope="session")
def judged(tmp_path_factory):
    """What the server says to all cases and examples; see `tests/server/judged.py`."""
    from tests.server.judged import judge_all

    return judge_all(tmp_path_factory.mktemp("judged"))
