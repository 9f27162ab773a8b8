"""Small random ONNX graphs, with every kind of axis, type and rank that decides a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64, "int32": TensorProto.INT32, "uint8": TensorProto.UINT8, "bool": TensorProto.BOOL,
    "object": TensorProto.STRING,
}  # fmt: skip
FLOATS = ("float32", "float64")
NUMBERS = (*FLOATS, "int64", "int32")
# what an output does with the input → the types it can do it to, and the rank it needs
OUTPUTS = {
    "identity": (tuple(TYPES), 0),
    "negative": (NUMBERS, 0),
    "to float": (("int64", "int32", "uint8", "bool", "float64", "float16"), 0),
    "to int": (("float32", "float64", "bool"), 0),
    "sum of the last axis": (NUMBERS, 1),
    "sum of the last axis, kept": (NUMBERS, 1),
    "sum of all": (NUMBERS, 0),
    "softmax of the last axis": (FLOATS, 2),
    "softmax of the first axis": (FLOATS, 1),
    "running sum of the first axis": (NUMBERS, 1),
    "last axis first": (NUMBERS, 2),
    "one axis more": (tuple(TYPES), 0),
    "flat": (NUMBERS, 2),
    "its shape": (tuple(TYPES), 1),
    "plus the scalar": (NUMBERS, 0),
    "best of the last axis": (FLOATS, 2),
    "is zero": (NUMBERS, 0),
}
AXES = ("n", "batch", "k", None)


@dataclass(frozen=True)
class Recipe:
    """A graph in words.

    Attributes:
        shape: of the input x; a number, a name or None for each axis.
        outputs: words of `OUTPUTS`.
        side: the shape of a second input of x's type, or None for no such input.
        weight_as_input: whether a stored weight is listed among the inputs too, as old exporters do.
    """

    kind: str
    shape: tuple[int | str | None, ...]
    outputs: tuple[str, ...]
    side: tuple[int | str | None, ...] | None
    weight_as_input: bool

    @property
    def has_scalar(self) -> bool:
        return "plus the scalar" in self.outputs


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    kind = draw(st.sampled_from(list(TYPES)))
    # an open first axis is the interesting case, so it comes more often
    first = st.sampled_from([*AXES, *AXES, 1, 2])
    rest = st.lists(st.sampled_from([2, 3, 1, "k", "m"]), max_size=2)
    shape = draw(st.one_of(st.just(()), st.tuples(first, rest).map(lambda t: (t[0], *t[1])),
                           st.tuples(first, rest).map(lambda t: (t[0], *t[1]))))  # fmt: skip
    possible = [word for word, (kinds, rank) in OUTPUTS.items() if kind in kinds and len(shape) >= rank]
    outputs = draw(st.lists(st.sampled_from(possible), min_size=1, max_size=3, unique=True))
    side = draw(st.sampled_from([None, None, None, (2,), ("n", 2), ("n",)]))
    return Recipe(kind, shape, tuple(outputs), side, draw(st.booleans()))


def some_recipes(count: int) -> list[Recipe]:
    """The same recipes every time, no two alike."""
    found: dict[Recipe, None] = {}

    @settings(max_examples=10 * count, derandomize=True, database=None, phases=[Phase.generate], deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(recipes())
    def collect(recipe: Recipe) -> None:
        found[recipe] = None

    collect()
    # Hypothesis varies one example several times, so neighbours are alike
    return list(found)[:: len(found) // count][:count]


def write_graph(recipe: Recipe, path: Path) -> Path:
    """The ONNX file of a recipe."""
    kind = TYPES[recipe.kind]
    inputs = [helper.make_tensor_value_info("x", kind, recipe.shape)]
    if recipe.has_scalar:
        inputs.append(helper.make_tensor_value_info("scalar", kind, []))
    nodes, weights = [], {"last": np.array([-1]), "first": np.array(0)}
    for number, word in enumerate(recipe.outputs):
        nodes += _nodes(word, f"y{number}", len(recipe.shape))
    names = [f"y{number}" for number in range(len(recipe.outputs))]
    if recipe.side is not None:
        inputs.append(helper.make_tensor_value_info("side", kind, recipe.side))
        nodes.append(helper.make_node("Identity", ["side"], ["y_side"]))
        names.append("y_side")
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    if recipe.weight_as_input:
        inputs.append(helper.make_tensor_value_info("last", TensorProto.INT64, [1]))
    unknown = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph(nodes, "random", inputs, unknown, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    # exporters leave the shape of an output as far as it can be inferred
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


def _nodes(word: str, y: str, rank: int) -> list[onnx.NodeProto]:
    node = helper.make_node
    return {
        "identity": lambda: [node("Identity", ["x"], [y])],
        "negative": lambda: [node("Neg", ["x"], [y])],
        "to float": lambda: [node("Cast", ["x"], [y], to=TensorProto.FLOAT)],
        "to int": lambda: [node("Cast", ["x"], [y], to=TensorProto.INT32)],
        "sum of the last axis": lambda: [node("ReduceSum", ["x", "last"], [y], keepdims=0)],
        "sum of the last axis, kept": lambda: [node("ReduceSum", ["x", "last"], [y], keepdims=1)],
        "sum of all": lambda: [node("ReduceSum", ["x"], [y], keepdims=0)],
        "softmax of the last axis": lambda: [node("Softmax", ["x"], [y], axis=-1)],
        "softmax of the first axis": lambda: [node("Softmax", ["x"], [y], axis=0)],
        "running sum of the first axis": lambda: [node("CumSum", ["x", "first"], [y])],
        "last axis first": lambda: [node("Transpose", ["x"], [y], perm=[rank - 1, *range(rank - 1)])],
        "one axis more": lambda: [node("Unsqueeze", ["x", "last"], [y])],
        "flat": lambda: [node("Flatten", ["x"], [y], axis=1)],
        "its shape": lambda: [node("Shape", ["x"], [y])],
        "plus the scalar": lambda: [node("Add", ["x", "scalar"], [y])],
        "best of the last axis": lambda: [node("ArgMax", ["x"], [y], axis=-1, keepdims=0)],
        "is zero": lambda: [node("Cast", ["x"], [f"{y}_b"], to=TensorProto.BOOL), node("Not", [f"{y}_b"], [y])],
    }[word]()


def random_array(kind: str, shape: Sequence[int], generator: np.random.Generator) -> np.ndarray:
    """Numbers or texts of a type, as ONNX Runtime takes them."""
    if kind == "object":
        words = np.array(["", "grün", "a b", "0"], object)
        return words[generator.integers(0, 4, shape)].reshape(shape) if len(shape) else np.array("grün", object)
    if kind == "bool":
        return np.asarray(generator.integers(0, 2, shape) == 1)
    if kind.startswith("float"):
        return np.asarray(generator.standard_normal(shape)).astype(kind)
    return np.asarray(generator.integers(0, 9, shape)).astype(kind)
