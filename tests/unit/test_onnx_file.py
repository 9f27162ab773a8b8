from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from tutorial_lib.errors import ExportError
from tutorial_lib.export.onnx_file import describe_onnx, inputs_of, outputs_of, read_onnx, summary


def write(path, *, elem=TensorProto.FLOAT, shape=("batch", 2), old_style=False):
    x = helper.make_tensor_value_info("x", elem, shape)
    y = helper.make_tensor_value_info("y", elem, shape)
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2, 3], [0.0] * 6)
    inputs = [x, helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3])] if old_style else [x]
    nodes = [helper.make_node("Identity", ["x"], ["t"]), helper.make_node("Identity", ["t"], ["y"])]
    graph = helper.make_graph(nodes, "g", inputs, [y], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.parametrize(
    ("elem", "word"),
    [
        (TensorProto.FLOAT, "FP32"), (TensorProto.INT64, "INT64"), (TensorProto.STRING, "BYTES"),
        (TensorProto.FLOAT16, "FP16"), (TensorProto.BOOL, "BOOL"),
        (TensorProto.COMPLEX64, "COMPLEX64 (none in Triton)"),
    ],
)  # fmt: skip
def test_types_in_tritons_words(tmp_path, elem, word):
    assert describe_onnx(write(tmp_path / "m.onnx", elem=elem))["datatype"].tolist() == [word, word]


@pytest.mark.parametrize(
    ("shape", "text"),
    [(("batch", 2), "[batch, 2]"), ((None, 2), "[?, 2]"), ((), "[]"), ((0, 3), "[0, 3]"), (None, "unknown rank")],
)
def test_shapes(tmp_path, shape, text):
    assert describe_onnx(write(tmp_path / "m.onnx", shape=shape))["shape"].tolist() == [text, text]


def test_weights_listed_as_inputs_are_no_inputs(tmp_path):
    model = read_onnx(write(tmp_path / "m.onnx", old_style=True))
    assert [tensor.name for tensor in inputs_of(model)] == ["x"]
    assert [tensor.name for tensor in outputs_of(model)] == ["y"]


def test_summary_counts(tmp_path):
    path = write(tmp_path / "m.onnx")
    facts = summary(path)
    assert (facts.ir_version, facts.opset, facts.nodes, facts.weights) == (9, 17, {"Identity": 2}, 6)
    assert facts.size_bytes == path.stat().st_size
    assert facts.table().loc["nodes", "value"] == "2"


def test_missing_cut_empty_and_foreign_files(tmp_path):
    with pytest.raises(ExportError, match="No such file"):
        read_onnx(tmp_path / "none.onnx")
    path = write(tmp_path / "m.onnx")
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not an onnx file at all", b"{}"):
        path.write_bytes(content)
        with pytest.raises(ExportError):
            read_onnx(path)
