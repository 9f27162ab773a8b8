"""Rows: types, shapes, scalars, strings, optional inputs and ragged batches, as requests see them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto
from tritonclient.utils import triton_to_np_dtype

from tests.server.conformance.row import Ask, Row, double, entry, graph, io, node, numbers, text, xy

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
ONNX = {"BOOL": "BOOL", "FP16": "FLOAT16", "FP32": "FLOAT", "FP64": "DOUBLE"} | {
    f"{sign}INT{bits}": f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)
}
EXTREMES = {
    "FP16": [65504, -0.0, 1e-7],
    "FP32": [3.4e38, -0.0, 1e-45],
    "FP64": [1e308, -0.0, 5e-324],
    "BOOL": [1, 0, 1],
}


def typed(name: str) -> Row:
    """Identity of one type, with the ends of its range, completed and batched."""
    kind = triton_to_np_dtype(name)
    ends = EXTREMES.get(name) or [np.iinfo(kind).min, np.iinfo(kind).max, 1]
    values = np.array([ends, ends[::-1]], kind)
    onnx_type = getattr(TensorProto, ONNX[name])
    return Row(
        f"type_{name.lower()}",
        graph([node("Identity", "x", "y")], [("x", onnx_type, ["n", 3])], [("y", onnx_type, ["n", 3])]),
        asks=(Ask({"x": values}), Ask({"x": values[:1]})),
        completed={"input": [("x", f"TYPE_{name}", [3])], "output": [("y", f"TYPE_{name}", [3])]},
    )


def strings(shape: list) -> object:
    return graph([node("Identity", "x", "y")], [("x", STRING, shape)], [("y", STRING, shape)])


ROWS = (
    *map(typed, ONNX),
    Row(
        "batch_zero",
        double(["n", 3]),
        xy([3]) + "max_batch_size: 2",
        asks=(
            Ask({"x": numbers(0, 3)}, error="input byte size mismatch for input 'x' for model 'batch_zero'"),
            Ask({"x": numbers(2, 3)}),
        ),
    ),
    Row(
        "batch_over_maximum",
        double(["n", 3]),
        xy([3]) + "max_batch_size: 2",
        asks=(
            Ask({"x": numbers(3, 3)}, error="inference request batch-size must be <= 2 for 'batch_over_maximum'"),
            Ask({"x": numbers(2, 3)}),
        ),
    ),
    Row(
        "batch_off",
        double(["n", 3]),
        xy([-1, 3]) + "max_batch_size: 0",
        asks=(Ask({"x": numbers(9, 3)}),),
        completed={"max_batch_size": 0},
    ),
    Row(
        "batch_off_fixed",
        double([1, 3]),
        xy([1, 3]) + "max_batch_size: 0 dynamic_batching { }",
        asks=(Ask({"x": numbers(1, 3)}),),
    ),
    Row(
        "shape_variable",
        double(["n", "t", "u"]),
        xy([-1, -1]) + "max_batch_size: 4",
        asks=tuple(Ask({"x": numbers(*shape)}) for shape in ((1, 1, 1), (4, 3, 2), (2, 7, 5))),
    ),
    Row("shape_zero_axis", double(["n", "t"]), xy([-1]) + "max_batch_size: 4", asks=(Ask({"x": numbers(2, 0)}),)),
    Row(
        "shape_bound_pair",  # two inputs that share a symbol: the session itself refuses a mismatch
        graph(
            [node("Add", "a b", "y")], [("a", FLOAT, ["n", "t"]), ("b", FLOAT, ["n", "t"])], [("y", FLOAT, ["n", "t"])]
        ),
        asks=(
            Ask({"a": numbers(2, 3), "b": numbers(2, 3)}),
            Ask({"a": numbers(2, 3), "b": numbers(2, 4)}, error="onnx runtime error"),
        ),
    ),
    Row(
        "reshape_input",
        double(["n", 2, 3]),
        xy([6], [2, 3], more="reshape { shape: [ 2, 3 ] }") + "max_batch_size: 2",
        asks=(Ask({"x": numbers(2, 6)}, direct={"x": numbers(2, 6).reshape(2, 2, 3)}),),
    ),
    Row(
        "reshape_output",
        double(["n", 2, 3]),
        xy([2, 3], [6], more_y="reshape { shape: [ 2, 3 ] }") + "max_batch_size: 2",
        asks=(Ask({"x": numbers(2, 2, 3)}, shapes={"y": (2, 6)}),),
    ),
    Row(
        "reshape_free_axes",
        double(["n", "t", 1, "u"]),
        xy([-1, -1], more="reshape { shape: [ -1, 1, -1 ] }", more_y="reshape { shape: [ -1, 1, -1 ] }")
        + "max_batch_size: 2",
        asks=(
            Ask({"x": numbers(2, 3, 4)}, direct={"x": numbers(2, 3, 4).reshape(2, 3, 1, 4)}, shapes={"y": (2, 3, 4)}),
        ),
    ),
    Row(
        "reshape_unbatched",
        double([1, 3]),
        xy([3], more="reshape { shape: [ 1, 3 ] }", more_y="reshape { shape: [ 1, 3 ] }"),
        asks=(Ask({"x": numbers(3)}, direct={"x": numbers(1, 3)}, shapes={"y": (3,)}),),
    ),
    Row(
        "reshape_to_rank_one",
        double(["n"]),
        xy([1], more="reshape { shape: [ ] }", more_y="reshape { shape: [ ] }") + "max_batch_size: 4",
        asks=(Ask({"x": numbers(4, 1)}, direct={"x": numbers(4, 1).ravel()}, shapes={"y": (4, 1)}),),
    ),
    Row(
        "scalar_pair",
        graph(
            [node("Mul", "x k", "m"), node("ReduceSum", "m", "y", keepdims=0)],
            [("x", FLOAT, [3]), ("k", FLOAT, [])],
            [("y", FLOAT, [])],
        ),
        asks=(
            Ask(
                {"x": numbers(3), "k": np.array([2], np.float32)},
                direct={"x": numbers(3), "k": np.array(2, np.float32)},
                shapes={"y": (1,)},
            ),
        ),
    ),
    Row(
        "scalar_beside_a_batch",
        graph([node("Mul", "x k", "y")], [("x", FLOAT, ["n", 3]), ("k", FLOAT, [])], [("y", FLOAT, ["n", 3])]),
        io([entry("x", "FP32", [3]), entry("k", "FP32", [1])], [entry("y", "FP32", [3])]) + "max_batch_size: 4",
        asks=(
            Ask(
                {"x": numbers(2, 3), "k": np.array([[5], [5]], np.float32)},
                direct={"x": numbers(2, 3), "k": np.array(5, np.float32)},
            ),
        ),
    ),
    Row(
        "scalar_out_of_a_batch",
        graph([node("ReduceSum", "x", "y", keepdims=0)], [("x", FLOAT, ["n", 3])], [("y", FLOAT, [])]),
        xy([3], [1]) + "max_batch_size: 4",
        asks=(Ask({"x": numbers(1, 3)}, shapes={"y": (1,)}), Ask({"x": numbers(4, 3)}, shapes={"y": (1,)})),
    ),
    Row(
        "bytes_batched",
        strings(["n", 2]),
        asks=(
            Ask({"x": text("größe", "", "x" * 5000, "日本語", shape=(2, 2))}),
            Ask({"x": text("a", "b", shape=(1, 2))}),
        ),
        completed={"input": [("x", "TYPE_STRING", [2])]},
    ),
    Row(
        "bytes_unbatched",
        strings(["k"]),
        xy([-1], kind="STRING"),
        asks=(Ask({"x": text("a", "bc", "")}), Ask({"x": text("z")})),
    ),
    Row(
        "bytes_to_the_first_nul",
        strings(["k"]),
        xy([-1], kind="STRING"),
        asks=(Ask({"x": text("ab\0cd", "e\0")}, answers={"y": text("ab", "e")}),),
    ),
    Row(
        "bytes_not_utf8",
        graph(
            [
                node(
                    "LabelEncoder",
                    "x",
                    "y",
                    domain="ai.onnx.ml",
                    keys_strings=["a"],
                    values_int64s=[7],
                    default_int64=-1,
                )
            ],
            [("x", STRING, ["k"])],
            [("y", INT64, ["k"])],
            opsets={"ai.onnx.ml": 2},
        ),
        io([entry("x", "STRING", [-1])], [entry("y", "INT64", [-1])]),
        asks=(Ask({"x": text(b"\xff\xfe", "a")}, answers={"y": np.array([-1, 7])}, json=False),),
    ),
    Row(
        "bytes_out",
        graph(
            [
                node(
                    "LabelEncoder",
                    "x",
                    "y",
                    domain="ai.onnx.ml",
                    keys_int64s=[0, 1],
                    values_strings=["nein", "größe"],
                    default_string="?",
                )
            ],
            [("x", INT64, ["n", 2])],
            [("y", STRING, ["n", 2])],
            opsets={"ai.onnx.ml": 2},
        ),
        asks=(Ask({"x": np.array([[0, 1], [9, 0]])}),),
    ),
    Row(
        "optional_input",
        graph(
            [node("Mul", "x k", "y")],
            [("x", FLOAT, [3]), ("k", FLOAT, [1])],
            [("y", FLOAT, [3])],
            {"k": np.array([2], np.float32)},
        ),
        io([entry("x", "FP32", [3]), entry("k", "FP32", [1], "optional: true")], [entry("y", "FP32", [3])]),
        asks=(Ask({"x": numbers(3)}), Ask({"x": numbers(3), "k": np.array([7], np.float32)})),
    ),
    Row(
        "optional_with_batching",
        graph(
            [node("Mul", "x k", "y")],
            [("x", FLOAT, ["n", 3]), ("k", FLOAT, ["n", 1])],
            [("y", FLOAT, ["n", 3])],
            {"k": np.array([[2]], np.float32)},
        ),
        io([entry("x", "FP32", [3]), entry("k", "FP32", [1], "optional: true")], [entry("y", "FP32", [3])])
        + "max_batch_size: 2",
        refused="optional input 'k' is not supported for models that support batching",
    ),
    Row(
        "optional_but_needed",
        graph([node("Add", "a b", "y")], [("a", FLOAT, [3]), ("b", FLOAT, [3])], [("y", FLOAT, [3])]),
        io([entry("a", "FP32", [3]), entry("b", "FP32", [3], "optional: true")], [entry("y", "FP32", [3])]),
        refused="configuration expects 1 inputs, model provides 2",
    ),
    Row(
        "values_nan",
        double(["n", 3]),
        asks=(Ask({"x": np.array([[np.nan, np.inf, -np.inf]], np.float32)}, json=False),),
    ),
    Row(
        "outputs_by_name",  # ONNX Runtime computes the whole graph, also for one output: the other one's fault shows
        graph(
            [node("Gather", "table x", "found"), node("Add", "x x", "y")],
            [("x", INT64, ["n", 1])],
            [("found", FLOAT, ["n", 1, 2]), ("y", INT64, ["n", 1])],
            {"table": np.zeros((4, 2), np.float32)},
        ),
        asks=(
            Ask({"x": np.array([[3]])}, outputs=("y",)),
            Ask({"x": np.array([[99]])}, outputs=("y",), error="onnx runtime error 2"),
            Ask({"x": np.array([[3]])}),
        ),
    ),
)
