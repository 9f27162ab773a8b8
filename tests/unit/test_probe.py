"""A graph is run in a process of its own, and what is a batch is found out, not guessed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.unit.onnx_files import FLOAT, INT64, relu, save
from tutorial_lib.errors import ExportError, RepositoryError
from tutorial_lib.repository import probe_child
from tutorial_lib.repository.probe import probe_onnx, read_example, sample_inputs

node = helper.make_node


def one_to_one(path, *nodes, shape=("n", 3), out=("n", 3), weights=(), kinds=(FLOAT, FLOAT)):
    return save(path, nodes, [("x", kinds[0], shape)], [("y", kinds[1], out)], weights)


def test_the_name_of_an_axis_decides_nothing(tmp_path):
    assert probe_onnx(relu(tmp_path / "a.onnx", ("time", 3))).batched
    assert probe_onnx(relu(tmp_path / "b.onnx", (None, 3))).batched
    path = one_to_one(tmp_path / "c.onnx", node("Softmax", ["x"], ["y"], axis=0), shape=("batch", 3), out=("batch", 3))
    found = probe_onnx(path)
    assert not found.batched
    assert found.culprit == "output 'y'"
    assert "neighbours" in found.reason


@pytest.mark.parametrize(
    ("case", "nodes", "out"),
    [
        ("sum over the batch", [node("ReduceSum", ["x", "zero"], ["m"]), node("Sub", ["x", "m"], ["y"])], ("n", 3)),
        ("running sum, later rows see earlier ones", [node("CumSum", ["x", "zero_d"], ["y"])], ("n", 3)),
        ("rows turned round", [node("ReverseSequence", ["x", "len"], ["y"], time_axis=0, batch_axis=1)], ("n", 3)),
        ("times the batch size", [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero_d"], ["b"]),
                                  node("Cast", ["b"], ["f"], to=FLOAT), node("Mul", ["x", "f"], ["y"])], ("n", 3)),
        ("one row more", [node("Concat", ["x", "row"], ["y"], axis=0)], ("m", 3)),
        ("products between rows", [node("Transpose", ["x"], ["t"]), node("MatMul", ["x", "t"], ["y"])], ("n", "m")),
    ],
)  # fmt: skip
def test_an_open_first_axis_that_is_no_batch(tmp_path, case, nodes, out):
    weights = {
        "zero": np.array([0]), "zero_d": np.array(0), "row": np.ones((1, 3), np.float32), "len": np.array([2, 2, 2]),
    }  # fmt: skip
    path = one_to_one(tmp_path / "m.onnx", *nodes, out=out, weights=weights)
    found = probe_onnx(path)
    assert not found.batched, case
    assert "has an open first axis, but" in found.reason


def test_a_batch_that_moves_to_another_axis_is_none(tmp_path):
    found = probe_onnx(
        one_to_one(tmp_path / "m.onnx", node("Transpose", ["x"], ["y"]), shape=("n", "k"), out=("k", "n"))
    )
    assert not found.batched
    assert "3 samples gave it the shape [32, 3]" in found.reason or "1 sample gave it" in found.reason


def test_a_size_hidden_inside_is_found(tmp_path):
    weights = {"shape": np.array([1, 3, -1])}
    nodes = [node("Reshape", ["x", "shape"], ["r"]), node("ReduceMean", ["r"], ["m"], axes=[2], keepdims=0),
             node("Expand", ["m", "ones"], ["y"])]  # fmt: skip
    weights |= {"ones": np.array([1, 1])}
    path = one_to_one(tmp_path / "m.onnx", *nodes, out=("n", 3), weights=weights)
    assert not probe_onnx(path).batched


def test_free_axes_get_a_size_that_the_graph_takes(tmp_path):
    weights = {"w": np.ones((48, 2), np.float32)}
    path = one_to_one(
        tmp_path / "m.onnx", node("MatMul", ["x", "w"], ["y"]), shape=("n", "k"), out=("n", 2), weights=weights
    )
    assert probe_onnx(path).batched


def test_indices_stay_small(tmp_path):
    weights = {"table": np.arange(8, dtype=np.float32).reshape(2, 4)}
    path = one_to_one(
        tmp_path / "m.onnx", node("Gather", ["table", "x"], ["y"]), shape=("n", "t"), out=("n", "t", 4),
        weights=weights, kinds=(INT64, FLOAT),
    )  # fmt: skip
    assert probe_onnx(path).batched


def test_an_example_helps_where_made_up_inputs_fail(tmp_path):
    weights = {"w": np.ones((49, 2), np.float32)}  # no size that is tried
    path = one_to_one(
        tmp_path / "m.onnx", node("MatMul", ["x", "w"], ["y"]), shape=("n", "k"), out=("n", 2), weights=weights
    )
    found = probe_onnx(path)
    assert (found.batched, found.ran, found.culprit) == (False, False, "the graph")
    assert "could not be run with made-up inputs" in found.reason
    sample = np.random.default_rng(0).standard_normal((1, 49)).astype(np.float32)
    assert probe_onnx(path, example={"x": sample}).batched
    np.savez(tmp_path / "e.npz", x=sample)
    assert probe_onnx(path, example=read_example(tmp_path / "e.npz")).batched


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"z": np.zeros((1, 3), np.float32)}, "array 'z', expected inputs of 'm.onnx': x"),
        ({"x": np.zeros((1, 4), np.float32)}, r"found shape \[1, 4\], expected \[batch, 3\]"),
        ({"x": np.float32(1)}, r"found shape \[\], expected \[batch, 3\]"),
        ({"x": np.zeros((0, 3), np.float32)}, "one sample at least"),
    ],
)
def test_an_example_that_does_not_fit_is_refused(tmp_path, example, message):
    with pytest.raises(RepositoryError, match=message):
        probe_onnx(relu(tmp_path / "m.onnx"), example=example)


def test_a_file_that_is_no_example_is_refused(tmp_path):
    (tmp_path / "e.npz").write_text("no arrays")
    with pytest.raises(RepositoryError, match="no arrays to read"):
        read_example(tmp_path / "e.npz")


def test_random_answers_do_not_rule_a_batch_out(tmp_path):
    path = one_to_one(tmp_path / "m.onnx", node("RandomNormalLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"]))
    found = probe_onnx(path)
    assert found.batched
    assert not found.repeats


def test_a_graph_that_runs_for_ever_is_ended(tmp_path):
    inner = helper.make_graph(
        [node("Identity", ["c"], ["c2"]), node("Identity", ["v"], ["v2"])],
        "body",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in
         [("i", INT64, []), ("c", TensorProto.BOOL, []), ("v", FLOAT, ["n", 3])]],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in
         [("c2", TensorProto.BOOL, []), ("v2", FLOAT, ["n", 3])]],
    )  # fmt: skip
    path = one_to_one(
        tmp_path / "m.onnx", node("Loop", ["", "yes", "x"], ["y"], body=inner), weights={"yes": np.array(True)}
    )
    found = probe_onnx(path, timeout_s=15)
    assert not found.batched
    assert "longer than 15 s" in found.reason


def test_a_graph_that_takes_all_memory_is_ended(tmp_path):
    weights = {"shape": np.array([200_000, 200_000])}
    nodes = [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Expand", ["m", "shape"], ["big"]),
             node("ReduceMean", ["big"], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])]  # fmt: skip
    found = probe_onnx(one_to_one(tmp_path / "m.onnx", *nodes, weights=weights), memory_mib=600)
    assert not found.batched
    assert found.culprit == "the graph"


@pytest.mark.parametrize(("stage", "signal"), [("opening", "SIGSEGV"), ("running", "SIGABRT")])
def test_a_crash_is_survived(tmp_path, monkeypatch, stage, signal):
    """No graph is known that crashes ONNX Runtime, so the child is made to."""
    source = Path(probe_child.__file__).read_text()
    before = {"opening": "        try:\n            session = open_session", "running": "    names = [t.name"}[stage]
    assert before in source
    indent = before[: len(before) - len(before.lstrip())]
    crashing = tmp_path / "child.py"
    crashing.write_text(source.replace(before, f"{indent}os.kill(os.getpid(), signal.{signal})\n{before}", 1))
    monkeypatch.setattr(probe_child, "__file__", str(crashing))
    path = relu(tmp_path / "m.onnx")
    if stage == "opening":
        with pytest.raises(ExportError, match=f"does not survive opening it: its process ended by {signal}"):
            probe_onnx(path)
    else:
        found = probe_onnx(path)
        assert not found.batched
        assert f"ended by {signal}" in found.reason


def test_a_module_of_the_current_folder_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit('wrong one')")
    monkeypatch.chdir(tmp_path)
    assert probe_onnx(relu(tmp_path / "m.onnx")).batched


def test_a_file_onnx_runtime_refuses_says_why(tmp_path):
    path = save(tmp_path / "m.onnx", [node("NoSuchOperator", ["x"], ["y"])], [("x", FLOAT, [1])], [("y", FLOAT, [1])])
    with pytest.raises(ExportError, match="(?s)does not open it.*NoSuchOperator"):
        probe_onnx(path)


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    probe_onnx(relu(tmp_path / "m.onnx"))
    assert os.listdir(tmp_path / "tmp") == []


def test_sample_inputs_are_such_that_the_graph_runs(tmp_path):
    weights = {"w": np.ones((48, 2), np.float32)}
    path = one_to_one(
        tmp_path / "m.onnx", node("MatMul", ["x", "w"], ["y"]), shape=("n", "k"), out=("n", 2), weights=weights
    )
    assert {name: array.shape for name, array in sample_inputs(path, rows=4).items()} == {"x": (4, 48)}


def test_sample_inputs_of_scalars_texts_and_axes_that_belong_together(tmp_path):
    inputs = [("x", FLOAT, ["batch", "time"]), ("state", FLOAT, [2, "batch", 5]), ("rate", INT64, []),
              ("text", TensorProto.STRING, [2])]  # fmt: skip
    nodes = [node("Transpose", ["state"], ["s"], perm=[1, 0, 2]), node("Flatten", ["s"], ["f"]),
             node("Concat", ["x", "f"], ["y"], axis=1), node("Identity", ["rate"], ["r"]),
             node("Identity", ["text"], ["t"])]  # fmt: skip
    outputs = [("y", FLOAT, ["batch", "k"]), ("r", INT64, []), ("t", TensorProto.STRING, [2])]
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs)
    found = sample_inputs(path, rows=2, example={"rate": np.int64(16000)})
    assert {name: array.shape for name, array in found.items()} == {
        "x": (2, 32), "state": (2, 2, 5), "rate": (), "text": (2,),
    }  # fmt: skip
    assert found["rate"] == 16000
    assert all(isinstance(word, str) for word in found["text"])


def test_sample_inputs_that_nobody_can_make_up(tmp_path):
    weights = {"w": np.ones((49, 2), np.float32)}
    path = one_to_one(
        tmp_path / "m.onnx", node("MatMul", ["x", "w"], ["y"]), shape=("n", "k"), out=("n", 2), weights=weights
    )
    with pytest.raises(RepositoryError, match="no made-up inputs suit it.*example="):
        sample_inputs(path)
    x = np.ones((3, 49), np.float32)
    assert np.array_equal(sample_inputs(path, example={"x": x})["x"], x)
