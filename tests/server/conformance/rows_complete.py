"""Rows: what the backend fills in when config.pbtxt leaves it out."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.server.conformance.row import Ask, Row, double, entry, graph, node, numbers, same, xy

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
SUM = [node("ReduceSum", "x axes", "y", keepdims=0)]
LAST = {"axes": np.array([1], np.int64)}


def two(a: list, b: list) -> object:
    return graph([node("Add", "a b", "y")], [("a", FLOAT, a), ("b", FLOAT, b)], [("y", FLOAT, a)])


ROWS = (
    Row(
        "complete_batched",
        double(["n", 3]),
        asks=(
            Ask({"x": numbers(1, 3)}),
            Ask({"x": numbers(4, 3)}),
            Ask({"x": numbers(5, 3)}, error="batch-size must be <= 4 for 'complete_batched'"),
        ),
        completed={
            "max_batch_size": 4,
            "dynamic_batching": ...,
            "input": [("x", "TYPE_FP32", [3])],
            "output": [("y", "TYPE_FP32", [3])],
        },
        logged="autofilled max_batch_size to 4 for model 'complete_batched' since batching is supporrted",
    ),
    Row(
        "complete_without_config",
        double(["n", 3]),
        config=None,
        asks=(Ask({"x": numbers(2, 3)}),),
        completed={"max_batch_size": 4, "backend": "onnxruntime", "dynamic_batching": ...},
    ),
    Row(
        "complete_fixed",
        double([2, 3]),
        asks=(Ask({"x": numbers(2, 3)}), Ask({"x": numbers(1, 3)}, error="Expected [2,3], got [1,3]")),
        completed={"max_batch_size": 0, "dynamic_batching": None, "input": [("x", "TYPE_FP32", [2, 3])]},
    ),
    Row(
        "complete_free_axes",
        double(["n", "t", 8]),
        asks=(Ask({"x": numbers(2, 5, 8)}), Ask({"x": numbers(1, 1, 8)})),
        completed={"max_batch_size": 4, "input": [("x", "TYPE_FP32", [-1, 8])]},
    ),
    Row(
        "complete_rank_one",
        double(["n"]),
        asks=(Ask({"x": numbers(3, 1)}, direct={"x": numbers(3, 1).ravel()}, shapes={"y": (3, 1)}),),
        completed={
            "max_batch_size": 4,
            "input": [("x", "TYPE_FP32", [1], [])],
            "output": [("y", "TYPE_FP32", [1], [])],
        },
    ),
    Row(
        "complete_scalar",
        double([]),
        asks=(Ask({"x": numbers(1)}, direct={"x": np.array(numbers(1)[0])}, shapes={"y": (1,)}),),
        completed={"max_batch_size": 0, "input": [("x", "TYPE_FP32", [1])], "output": [("y", "TYPE_FP32", [1])]},
    ),
    Row(
        "complete_side_input_without_batch",
        two(["n", 3], [3]),
        asks=(Ask({"a": numbers(2, 3), "b": numbers(3, seed=1)}),),
        completed={"max_batch_size": 0, "dynamic_batching": None},
    ),
    Row(
        "complete_outputs_only",
        double(["n", "t"]),
        f"input [ {entry('x', 'FP32', [4])} ] max_batch_size: 8",
        asks=(Ask({"x": numbers(2, 4)}), Ask({"x": numbers(2, 5)}, error="Expected [-1,4], got [2,5]")),
        completed={
            "max_batch_size": 8,
            "dynamic_batching": ...,
            "input": [("x", "TYPE_FP32", [4])],
            "output": [("y", "TYPE_FP32", [-1])],
        },
    ),
    Row(
        "complete_inputs_only",
        graph(
            [node("Add", "x x", "y"), node("Sub", "x x", "z")],
            [("x", FLOAT, ["n", 3])],
            [("y", FLOAT, ["n", 3]), ("z", FLOAT, ["n", 3])],
        ),
        f"output [ {entry('z', 'FP32', [3])} ] max_batch_size: 2",
        asks=(
            Ask({"x": numbers(2, 3)}, outputs=("z",)),
            Ask({"x": numbers(2, 3)}, outputs=("y",), error="unexpected inference output 'y'"),
        ),
        completed={"input": [("x", "TYPE_FP32", [3])], "output": [("z", "TYPE_FP32", [3])]},
    ),
    Row(
        "complete_keeps_batch_size",
        double(["n", 3]),
        "max_batch_size: 16",
        asks=(Ask({"x": numbers(16, 3)}),),
        completed={"max_batch_size": 16, "dynamic_batching": ...},
    ),
    Row(
        "complete_one",
        double(["n", 3]),
        "max_batch_size: 1",
        asks=(Ask({"x": numbers(1, 3)}),),
        completed={"max_batch_size": 1, "dynamic_batching": None},
    ),
    Row(
        "complete_keeps_dynamic_batching",
        double(["n", 3]),
        "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 7 preferred_batch_size: [ 2 ] }",
        asks=(Ask({"x": numbers(2, 3)}),),
        completed={"dynamic_batching": {"max_queue_delay_microseconds": 7, "preferred_batch_size": [2]}},
    ),
    Row(
        "complete_cannot_batch",
        double([2, 3]),
        "max_batch_size: 8",
        refused="autofill failed for model 'complete_cannot_batch': model does not support batching while non-zero "
        "max_batch_size is specified",
    ),
    Row(
        "complete_skipped",
        double(["n", 3]),
        xy([3]) + "max_batch_size: 8",
        asks=(Ask({"x": numbers(3, 3)}),),
        completed={"max_batch_size": 8, "dynamic_batching": None},
        logged="skipping model configuration auto-complete for 'complete_skipped': inputs and outputs already",
    ),
    Row(
        "complete_skipped_unbatched",  # with its tensors stated, a model that could be batched is not
        double(["n", 3]),
        xy([-1, 3]),
        asks=(Ask({"x": numbers(7, 3)}),),
        completed={"max_batch_size": 0, "dynamic_batching": None},
    ),
    Row(
        "complete_bf16",
        same(["n", 3], TensorProto.BFLOAT16),
        refused="model input 'x' must specify 'data_type'",
    ),
    Row(
        "complete_reduced",  # rank differs between input and output
        graph(SUM, [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n"])], LAST),
        asks=(Ask({"x": numbers(3, 3)}, shapes={"y": (3, 1)}),),
        completed={"output": [("y", "TYPE_FP32", [1], [])]},
    ),
)
