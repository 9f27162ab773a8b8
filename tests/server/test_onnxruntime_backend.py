"""Our ONNX Runtime backend against ONNX Runtime run directly."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from onnx import TensorProto, helper

from tests.server.conftest import rounds_until_together, save_double, save_onnx, wait_until
from tutorial_lib.repository import read_config
from tutorial_lib.server import launch, serve
from tutorial_lib.server.heal import instances
from tutorial_lib.simulate import Batching

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def infer(server, model: str, feeds: dict, *, outputs=None, client=http):
    address = server.http_address if client is http else server.grpc_address
    kinds = {"float32": "FP32", "int64": "INT64"}
    with client.InferenceServerClient(address) as connection:
        inputs = []
        for name, array in feeds.items():
            tensor = client.InferInput(name, list(array.shape), kinds[array.dtype.name])
            tensor.set_data_from_numpy(array)
            inputs.append(tensor)
        wanted = [client.InferRequestedOutput(name) for name in outputs] if outputs else None
        return connection.infer(model, inputs, outputs=wanted)


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("backend")
    random = np.random.default_rng(0)
    save_onnx(
        root / "linear" / "1" / "model.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [("x", FLOAT, ["n", 64])], [("y", FLOAT, ["n", 10])], {"w": random.random((64, 10), np.float32)},
    )  # fmt: skip
    (root / "linear" / "config.pbtxt").write_text(
        'backend: "onnxruntime" max_batch_size: 32 dynamic_batching { max_queue_delay_microseconds: 100000 }'
    )
    save_onnx(
        root / "fixed" / "1" / "model.onnx",
        [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sub", ["a", "b"], ["difference"])],
        [("a", FLOAT, [2, 3]), ("b", FLOAT, [2, 3])], [("sum", FLOAT, [2, 3]), ("difference", FLOAT, [2, 3])],
    )  # fmt: skip
    # a row index outside the table makes ONNX Runtime fail at run time
    save_onnx(
        root / "lookup" / "1" / "model.onnx",
        [helper.make_node("Gather", ["table", "row"], ["found"], axis=0)],
        [("row", INT64, ["n", 1])], [("found", FLOAT, ["n", 1, 2])],
        {"table": np.arange(8, dtype=np.float32).reshape(4, 2)},
    )  # fmt: skip
    (root / "lookup" / "config.pbtxt").write_text(
        'platform: "onnxruntime_onnx" max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 300000 }'
        " instance_group [ { count: 1 kind: KIND_AUTO } ]"
    )
    # one row per non-zero element: the first axis of the output is free, but it is not the batch
    save_onnx(
        root / "nonzero" / "1" / "model.onnx",
        [helper.make_node("NonZero", ["x"], ["t"]), helper.make_node("Transpose", ["t"], ["y"], perm=[1, 0])],
        [("x", FLOAT, ["n", 3])], [("y", INT64, ["k", 2])],
    )  # fmt: skip
    (root / "nonzero" / "config.pbtxt").write_text(
        'backend: "onnxruntime" max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 300000 }'
        " instance_group [ { count: 1 kind: KIND_CPU } ]"
    )
    # one row per sample, although the exporter named the two axes differently
    save_onnx(
        root / "other_name" / "1" / "model.onnx",
        [helper.make_node("Add", ["x", "x"], ["y"])],
        [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["m", 3])],
    )  # fmt: skip
    shutil.copyfile(root / "nonzero" / "config.pbtxt", root / "other_name" / "config.pbtxt")
    for name, threads in (("one_thread", 1), ("five_threads", 5)):
        save_double(root / name / "1" / "weights.onnx")
        (root / name / "config.pbtxt").write_text(
            'backend: "onnxruntime" default_model_filename: "weights.onnx" instance_group [ { kind: KIND_CPU } ]'
            f' parameters {{ key: "intra_op_thread_count" value {{ string_value: "{threads}" }} }}'
        )
    return root


@pytest.fixture(scope="module")
def server(repository):
    with serve(repository) as running:
        yield running


@pytest.mark.parametrize("client", [http, grpc], ids=["http", "grpc"])
@pytest.mark.parametrize("batch", [1, 2, 7, 32])
def test_a_batched_model_answers_as_onnx_runtime_does(server, repository, client, batch):
    x = np.random.default_rng(batch).random((batch, 64), np.float32)
    direct = ort.InferenceSession(str(repository / "linear" / "1" / "model.onnx")).run(None, {"x": x})[0]
    np.testing.assert_allclose(infer(server, "linear", {"x": x}, client=client).as_numpy("y"), direct, rtol=1e-6)


def test_a_batch_is_formed_and_split_again(server):
    before = server.statistics("linear")
    rows = [np.full((1 + n % 3, 64), n, np.float32) for n in range(12)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda x: infer(server, "linear", {"x": x}).as_numpy("y"), rows))
    for x, y in zip(rows, answers, strict=True):
        assert y.shape == (len(x), 10)
        np.testing.assert_allclose(y, infer(server, "linear", {"x": x}).as_numpy("y"), rtol=1e-5)
    counted = 2 * sum(map(len, rows))
    wait_until(lambda: server.statistics("linear")["inference_count"] - before["inference_count"] >= counted)
    after = server.statistics("linear")
    executed = after["execution_count"] - before["execution_count"] - len(rows)
    assert after["inference_count"] - before["inference_count"] == counted and executed < len(rows), "no batch formed"


def test_without_batching_and_only_the_output_asked_for(server):
    assert server.config("fixed")["max_batch_size"] == 0
    a, b = np.ones((2, 3), np.float32), np.full((2, 3), 5, np.float32)
    answer = infer(server, "fixed", {"a": a, "b": b}, outputs=["difference"])
    np.testing.assert_array_equal(answer.as_numpy("difference"), a - b)
    assert answer.as_numpy("sum") is None
    both = infer(server, "fixed", {"b": b, "a": a})
    np.testing.assert_array_equal(both.as_numpy("sum"), a + b)


@pytest.mark.parametrize(("model", "instances"), [("linear", 2), ("one_thread", 2), ("lookup", 1), ("nonzero", 1)])
def test_the_simulator_reads_a_file_as_triton_completes_it(server, repository, model, instances):
    of_file = Batching.of(read_config(repository / model))
    assert of_file.instances == Batching.of(server.config(model)).instances == instances


def test_a_faulty_request_is_answered_alone(server):
    def ask(row: int):
        try:
            return infer(server, "lookup", {"row": np.array([[row]], np.int64)}).as_numpy("found").ravel().tolist()
        except http.InferenceServerException as error:
            return str(error)

    for answers in rounds_until_together(server, "lookup", [0, 1, 99, 2, 3], ask):
        assert [answers[0], answers[1], answers[3], answers[4]] == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert "onnx runtime error 2" in answers[2] and "indices" in answers[2]


@pytest.mark.parametrize(
    "lines", [([1, 0, 0], [0, 5, 7], [0, 0, 0], [1, 2, 3]), ([5, 5, 0], [0, 0, 0])], ids=["wrong sum", "right sum"]
)
def test_clients_never_get_each_others_rows(server, lines):
    """Where the output's first axis is not the batch, a shared run cannot be split, even if the number of rows is by
    chance that of the samples; each is run alone."""
    asked = [np.array([line], np.float32) for line in lines]
    for answers in rounds_until_together(
        server, "nonzero", asked, lambda x: infer(server, "nonzero", {"x": x}).as_numpy("y").tolist()
    ):
        assert answers == [np.transpose(np.nonzero(x)).tolist() for x in asked]
    (said,) = [line for line in server.process.log_text().splitlines() if "outputs do not follow the batch" in line]
    assert "model 'nonzero'" in said and "y ((0,) rows for 2 samples of 0)" in said


def test_axes_of_two_names_are_still_one_batch(server):
    """Shown by the log, which would name the model, and by the answers to a batch."""
    asked = [np.full((1, 3), number, np.float32) for number in range(4)]
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = list(pool.map(lambda x: infer(server, "other_name", {"x": x}).as_numpy("y").tolist(), asked))
    assert answers == [(2 * x).tolist() for x in asked]
    assert "model 'other_name': outputs" not in server.process.log_text()


def test_thread_parameters_reach_the_session(server):
    one, five = (max(each.num_threads() for each in instances(server, name)) for name in ("one_thread", "five_threads"))
    assert five - one == 4


def test_cores_are_shared_out_among_the_instances(tmp_path, monkeypatch):
    """As many as the container may use, which the process's affinity does not tell."""
    monkeypatch.setattr(launch, "cpu_count", lambda: 6)
    for name, count in (("lone", 1), ("pair", 2)):
        save_double(tmp_path / name / "1" / "model.onnx")
        (tmp_path / name / "config.pbtxt").write_text(
            f'backend: "onnxruntime" instance_group [ {{ count: {count} kind: KIND_CPU }} ]'
        )
    with serve(tmp_path) as server:
        threads = {name: [each.num_threads() for each in instances(server, name)] for name in ("lone", "pair")}
    assert len(threads["pair"]) == 2
    assert max(threads["lone"]) - max(threads["pair"]) == 3


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ('default_model_filename: "../config.pbtxt"', "outside the version folder"),
        ('parameters { key: "intra_op_thread_count" value { string_value: "many" } }', "convert 'many' to integral"),
        ('parameters { key: "execution_mode" value { string_value: "2" } }', "execution_mode are 0 or 1 but got 2 ."),
        ("input [ { name: 'x' data_type: TYPE_FP32 dims: [ 3 ] }, { name: 'z' data_type: TYPE_FP32 dims: [ 3 ] } ] "
         "output [ { name: 'y' data_type: TYPE_FP32 dims: [ 3 ] } ] max_batch_size: 2",
         "expects 2 inputs, model provides 1"),
    ],
)  # fmt: skip
def test_refusals(tmp_path, config, reason):
    save_double(tmp_path / "double" / "1" / "model.onnx")
    (tmp_path / "double" / "config.pbtxt").write_text(f'backend: "onnxruntime" {config}')
    with pytest.warns(UserWarning, match=reason), serve(tmp_path) as server:
        assert not server.ready("double")
