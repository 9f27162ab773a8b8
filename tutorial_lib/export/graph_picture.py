"""A still picture of an ONNX graph, for where no browser can open Netron.

Straight runs of operators become one box. A box that other tensors bypass is lifted above them, so the
shortcuts of a residual or dense network stay visible as the straight line below.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from tutorial_lib.errors import ExportError
from tutorial_lib.export.onnx_file import OnnxTensor, inputs_of, outputs_of, read_onnx, shape_text

MAX_BOXES = 80

_SHORT = {"BatchNormalization": "BatchNorm", "Relu": "ReLU", "AveragePool": "AvgPool", "ReduceMean": "mean"}
_FILL = {"in": "#e8e8e8", "join": "#fde7c7", "pool": "#d5e8fa", "work": "#dff0d2"}
_LINE = "#555555"
_ROW_OPERATORS = ("MaxPool", "AveragePool")
_ROW_HEIGHT = 2.6


@dataclass
class Box:
    """A straight run of nodes.

    Attributes:
        nodes: in order; each is the only user of the one before.
        sources: numbers of the boxes whose tensors it reads; -1 stands for the graph's inputs.
        row, column, lane: place in the picture, in boxes.
    """

    nodes: list[onnx.NodeProto]
    sources: list[int] = field(default_factory=list)
    row: int = 0
    column: int = 0
    lane: int = 0


def draw_graph(path: Path) -> Figure:
    """Draw an ONNX file, a new row after every pooling, with the shapes that shape inference finds.

    Raises:
        ExportError: the file is not ONNX, or has too many branches for a picture that one can read.
    """
    model = onnx.shape_inference.infer_shapes(read_onnx(path))
    boxes = _boxes(model.graph)
    if len(boxes) > MAX_BOXES:
        raise ExportError(
            f"ONNX file {Path(path).name!r}: found {len(boxes)} branches, expected at most {MAX_BOXES} for a picture.",
            action="Open it in Netron: show_netron(path, browser=True).",
        )
    _place(boxes)
    rows, columns = boxes[-1].row + 1, max(box.column for box in boxes) + 1
    figure = Figure(figsize=(1.75 * (columns + 1), 2.9 * rows), dpi=110, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    values = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}
    _draw(axes, boxes, model, values)
    inputs, outputs = inputs_of(model), outputs_of(model)
    axes.set_title(
        f"{Path(path).name}: {_named(inputs)}  →  {len(model.graph.node)} nodes  →  {_named(outputs)}", fontsize=12
    )
    return figure


def _boxes(graph: onnx.GraphProto) -> list[Box]:
    """Join every node to the run before it when nobody else reads what that run made."""
    weights = {tensor.name for tensor in graph.initializer}
    readers: dict[str, int] = defaultdict(int)
    for node in graph.node:
        for name in node.input:
            readers[name] += 1
    for value in graph.output:
        readers[value.name] += 1
    boxes: list[Box] = []
    made_by: dict[str, int] = {}
    for node in graph.node:
        given = [name for name in node.input if name and name not in weights]
        sources = [made_by.get(name, -1) for name in given]
        number = sources[0] if len(sources) == 1 and sources[0] >= 0 and readers[given[0]] == 1 else len(boxes)
        if number < len(boxes) and given[0] in boxes[number].nodes[-1].output:
            boxes[number].nodes.append(node)
        else:
            number = len(boxes)
            boxes.append(Box([node], list(dict.fromkeys(sources)) or [-1]))
        made_by.update(dict.fromkeys(node.output, number))
    return boxes


def _place(boxes: list[Box]) -> None:
    row, first = 0, 0
    for number, box in enumerate(boxes):
        pooled = number > 0 and boxes[number - 1].nodes[-1].op_type in _ROW_OPERATORS
        if pooled and number - first > 1 and number - 1 in box.sources:  # a lone first box needs no row
            row, first = row + 1, number
        box.row, box.column = row, number - first
    for number, box in enumerate(boxes):
        bypasses = {source for later in boxes[number + 1 :] for source in later.sources if 0 <= source < number}
        skipping = any(
            source < number and later_number > number
            for later_number, later in enumerate(boxes)
            for source in later.sources
            if source >= 0
        )
        box.lane = 1 if skipping and bypasses else 0


def _draw(axes: Axes, boxes: list[Box], model: onnx.ModelProto, values: dict[str, onnx.ValueInfoProto]) -> None:
    weights = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    places = [(box.column + 1.0, -box.row * _ROW_HEIGHT + box.lane * 1.05) for box in boxes]
    for number, box in enumerate(boxes):
        x, y = places[number]
        lines = _text(box.nodes, weights)
        height = 0.17 * len(lines) + 0.16
        operators = {node.op_type for node in box.nodes}
        kind = "pool" if operators & set(_ROW_OPERATORS) else "join" if "Concat" in operators else "work"
        axes.add_patch(
            FancyBboxPatch(
                (x - 0.4, y - height / 2), 0.8, height, boxstyle="round,pad=0,rounding_size=0.06",
                facecolor=_FILL[kind], edgecolor=_LINE, linewidth=0.8, zorder=2,
            )
        )  # fmt: skip
        axes.text(x, y, "\n".join(lines), ha="center", va="center", fontsize=7.6, linespacing=1.25, zorder=3)
        shape = values.get(box.nodes[-1].output[0])
        if shape is not None and box.lane == 0:
            sizes = [axis.dim_param or str(axis.dim_value) for axis in shape.type.tensor_type.shape.dim]
            axes.text(x, y - height / 2 - 0.05, " × ".join(sizes), ha="center", va="top", fontsize=7, color="#1f5f99")
        for source in box.sources:
            start = places[source] if source >= 0 else (x - 1.0, y)
            if source >= 0 and boxes[source].row != box.row:
                start = _carry_over(axes, start, -box.row * _ROW_HEIGHT)
            _arrow(axes, start, (x, y))
    first_input = inputs_of(model)[0].name if inputs_of(model) else ""
    axes.text(0.32, places[0][1], first_input, ha="right", va="center", fontsize=9, weight="bold")
    last_x, last_y = places[-1]
    axes.text(last_x + 0.62, last_y, outputs_of(model)[0].name, ha="left", va="center", fontsize=9, weight="bold")
    _arrow(axes, (last_x, last_y), (last_x + 1.0, last_y))
    axes.set_xlim(-0.1, max(x for x, _ in places) + 1.1)
    axes.set_ylim(min(y for _, y in places) - 0.95, max(y for _, y in places) + 0.75)
    axes.axis("off")


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    bend = 0.0 if abs(start[1] - end[1]) < 0.01 else 0.12 if end[1] > start[1] else -0.12
    axes.add_patch(
        FancyArrowPatch(
            (start[0] + 0.4, start[1]), (end[0] - 0.4, end[1]), shrinkA=0, shrinkB=1, zorder=1, color=_LINE,
            arrowstyle="-|>", mutation_scale=9, linewidth=1.0, connectionstyle=f"arc3,rad={bend}",
        )
    )  # fmt: skip


def _carry_over(axes: Axes, start: tuple[float, float], y: float) -> tuple[float, float]:
    """Lead a tensor from the end of a row to a dot at the start of the row at height `y`; where arrows begin."""
    x, middle = 0.3, y + 0.62 * _ROW_HEIGHT
    right = start[0] + 0.55
    across, down = (start[0] + 0.4, right, right, x, x), (start[1], start[1], middle, middle, y)
    axes.plot(across, down, color=_LINE, linewidth=1.0, zorder=1)
    axes.plot(x, y, "o", color=_LINE, markersize=4, zorder=2)
    return x - 0.4, y


def _text(nodes: list[onnx.NodeProto], weights: dict[str, tuple[int, ...]]) -> list[str]:
    """One line per operator; a ReLU joins the line before it."""
    lines: list[str] = []
    for node in nodes:
        name = _SHORT.get(node.op_type, node.op_type)
        sizes = weights.get(node.input[1], ()) if len(node.input) > 1 else ()
        if node.op_type == "Conv" and len(sizes) == 4:
            name = f"Conv {sizes[2]}×{sizes[3]} → {sizes[0]}"
        elif node.op_type == "Gemm" and len(sizes) == 2:
            name = f"Gemm {max(sizes)} → {min(sizes)}"
        elif node.op_type in _ROW_OPERATORS:
            kernel = next((list(item.ints) for item in node.attribute if item.name == "kernel_shape"), [])
            name = f"{name} {'×'.join(map(str, kernel))}"
        if node.op_type == "Relu" and lines and lines[-1].startswith("BatchNorm"):
            lines[-1] = "BatchNorm, ReLU"
        else:
            lines.append(name)
    return lines


def _named(tensors: list[OnnxTensor]) -> str:
    return ", ".join(f"{tensor.name} {tensor.datatype} {shape_text(tensor.shape)}" for tensor in tensors)
