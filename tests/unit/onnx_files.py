"""Small ONNX files for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def save(path: Path, nodes, inputs, outputs, weights=(), *, ir=9, opset=17, domains=(), **options) -> Path:
    """Write a graph.

    Args:
        inputs: (name, TensorProto type, shape) each, or a ValueInfoProto; likewise outputs.
        weights: name → array.
        domains: further operator sets, by name.
        **options: as `onnx.save`.
    """

    def infos(entries):
        return [
            entry if isinstance(entry, onnx.ValueInfoProto) else helper.make_tensor_value_info(*entry)
            for entry in entries
        ]

    arrays = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "graph", infos(inputs), infos(outputs), arrays)
    sets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=ir), path, **options)
    return path


def relu(path: Path, shape=("batch", 3), *, x="x", y="y", **options) -> Path:
    return save(path, [helper.make_node("Relu", [x], [y])], [(x, FLOAT, shape)], [(y, FLOAT, shape)], **options)


def matmul(path: Path, rows=64, columns=64, **options) -> Path:
    """x [batch, rows] → y [batch, columns]."""
    weights = {"w": np.linspace(-1, 1, rows * columns, dtype=np.float32).reshape(rows, columns)}
    return save(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [("x", FLOAT, ["batch", rows])],
        [("y", FLOAT, ["batch", columns])],
        weights,
        **options,
    )
