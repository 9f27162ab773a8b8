from __future__ import annotations

import io

import onnx
import pytest
from onnx import TensorProto, helper

from tutorial_lib.errors import ExportError
from tutorial_lib.export.graph_picture import _boxes, _place, draw_graph


def graph(*nodes):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2, 8, 8]) for name in "xy")
    return helper.make_graph([helper.make_node(op, ins.split(), [out]) for op, ins, out in nodes], "g", [x], [y])


RESIDUAL = graph(("Relu", "x", "a"), ("Sigmoid", "a", "b"), ("Tanh", "b", "c"), ("Add", "a c", "y"))


def test_straight_runs_are_one_box_and_a_bypassed_one_is_lifted():
    boxes = _boxes(RESIDUAL)
    _place(boxes)
    assert [[node.op_type for node in box.nodes] for box in boxes] == [["Relu"], ["Sigmoid", "Tanh"], ["Add"]]
    assert [box.lane for box in boxes] == [0, 1, 0]
    assert [box.sources for box in boxes] == [[-1], [0], [0, 1]]


def test_picture_says_names_shapes_and_operators(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(RESIDUAL, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    figure = draw_graph(path)
    texts = " ".join(text.get_text() for text in figure.axes[0].texts) + figure.axes[0].get_title()
    for expected in ("x", "y", "Sigmoid\nTanh", "Add", "batch × 2 × 8 × 8", "4 nodes"):
        assert expected in texts
    buffer = io.BytesIO()
    figure.savefig(buffer)
    assert buffer.getvalue().startswith(b"\x89PNG")


def test_too_many_branches_for_a_picture(tmp_path):
    nodes = [("Relu", "x", "t0")]
    for number in range(100):
        nodes += [("Relu", f"t{number}", f"r{number}"), ("Add", f"t{number} r{number}", f"t{number + 1}")]
    path = tmp_path / "m.onnx"
    nodes.append(("Relu", "t100", "y"))
    onnx.save(helper.make_model(graph(*nodes), opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    with pytest.raises(ExportError, match="Netron"):
        draw_graph(path)
