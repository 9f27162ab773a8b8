"""Rows: inputs of several lengths end to end, and what tells the model where each one begins."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.server.conformance.row import Ask, Make, Row, entry, graph, node, numbers

FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
X = f"input [ {entry('x', 'FP32', [-1], 'allow_ragged_batch: true')} ]"


def batch_input(kind: str, target: str, data_type: str = "FP32") -> str:
    return f'batch_input [ {{ kind: {kind} target_name: "{target}" data_type: TYPE_{data_type} source_input: "x" }} ]'


def sums() -> Make:
    """x, lengths end to end → its sum plus the batch input `info`, so that a wrong one shows."""
    nodes = [node("ReduceSum", "x", "all", keepdims=1), node("Add", "all info", "y")]
    return graph(nodes, [("x", FLOAT, ["k"]), ("info", FLOAT, ["m"])], [("y", FLOAT, ["m"])])


def alone(kind: str, values: list[int]) -> Row:
    """One request of shape [1, 4] through a model with one batch input."""
    x = numbers(1, 4)
    y = x.sum() + np.array(values, np.float32)
    return Row(
        f"ragged_{kind.lower()}",
        sums(),
        f"{X} {batch_input(kind, 'info')} max_batch_size: 4 "
        'output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]',
        asks=(Ask({"x": x}, answers={"y": y.reshape(-1, 1)}),),
    )


def lengths() -> Make:
    """The sum of x, once for each element of `longest`, of which only the length says something."""
    nodes = [
        node("ReduceSum", "x", "all", keepdims=1),
        node("Shape", "longest", "length"),
        node("ConstantOfShape", "length", "zeros"),
        node("Add", "all zeros", "y"),
    ]
    return graph(nodes, [("x", FLOAT, ["k"]), ("longest", FLOAT, ["m"])], [("y", FLOAT, ["m"])])


ROWS = (
    alone("BATCH_ELEMENT_COUNT", [4]),
    alone("BATCH_ACCUMULATED_ELEMENT_COUNT", [4]),
    alone("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 4]),
    alone("BATCH_ITEM_SHAPE_FLATTEN", [4]),
    Row(
        "ragged_batch_max_element_count_as_shape",
        lengths(),
        f"{X} {batch_input('BATCH_MAX_ELEMENT_COUNT_AS_SHAPE', 'longest')} max_batch_size: 4 "
        'output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]',
        asks=(Ask({"x": numbers(1, 5)}, answers={"y": np.full((5, 1), numbers(1, 5).sum(), np.float32)}),),
    ),
    Row(
        "ragged_scatter",
        graph(
            [node("Add", "x x", "y"), node("Identity", "shapes", "seen")],
            [("x", FLOAT, ["k"]), ("shapes", INT32, ["m", 1])],
            [("y", FLOAT, ["k"]), ("seen", INT32, ["m", 1])],
        ),
        f"{X} {batch_input('BATCH_ITEM_SHAPE', 'shapes', 'INT32')} max_batch_size: 4 "
        'batch_output [ { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "y" source_input: "x" } ] '
        f"output [ {entry('y', 'FP32', [-1])}, {entry('seen', 'INT32', [1])} ] "
        "dynamic_batching { max_queue_delay_microseconds: 300000 } instance_group [ { count: 1 kind: KIND_CPU } ]",
        asks=(
            Ask({"x": numbers(2, 3)}, answers={"y": 2 * numbers(2, 3), "seen": np.array([[3], [3]], np.int32)}),
            Ask({"x": numbers(1, 5)}, answers={"y": 2 * numbers(1, 5), "seen": np.array([[5]], np.int32)}),
        ),
    ),
)
