"""A row: one model folder, what Triton has to say of it, and requests with their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

Make = Callable[[Path], object]
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Ask:
    """One request.

    Attributes:
        feeds: what a client sends.
        outputs: those it asks for; none asks for all.
        direct: what ONNX Runtime itself is run with to get the answer, if that is not `feeds`.
        shapes: output → its shape on the wire, where ONNX Runtime's own differs.
        answers: the answer, where ONNX Runtime cannot be asked; used instead of it.
        error: words of the error that must come back instead.
        version: the model version asked; "" is the server's choice.
        json: whether JSON can carry the values; it has no NaN and only Unicode text.
    """

    feeds: Arrays
    outputs: tuple[str, ...] = ()
    direct: Arrays | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    answers: Arrays | None = None
    error: str = ""
    version: str = ""
    json: bool = True


@dataclass(frozen=True)
class Row:
    """One model and everything known about it.

    Attributes:
        name: the model's folder; the backend's README names rows by it.
        make: writes what belongs into the folder besides config.pbtxt.
        config: config.pbtxt without its `backend`; None writes no file at all.
        asks: requests.
        completed: fields of the configuration in force that must read so.
        refused: words with which the model must be refused; "" means it loads.
        logged: words the server's log must have.
        operators: a library with custom operators, for ONNX Runtime run directly.
    """

    name: str
    make: Make
    config: str | None = ""
    asks: tuple[Ask, ...] = ()
    completed: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""
    logged: str = ""
    operators: str = ""

    def write(self, repository: Path) -> None:
        """Lay the model out in a repository."""
        folder = repository / self.name
        (folder / "1").mkdir(parents=True)
        self.make(folder)
        if self.config is not None:
            (folder / "config.pbtxt").write_text(f'backend: "onnxruntime"\n{self.config}\n')

    def answers(self, ask: Ask, repository: Path) -> dict[str, np.ndarray]:
        """What has to come back, from ONNX Runtime run directly on the file served."""
        if ask.answers is not None:
            return dict(ask.answers)
        folder = repository / self.name / (ask.version or "1")
        path = next(path for path in (*folder.glob("*.onnx"), *folder.glob("*.onnx/model.onnx")) if path.is_file())
        options = ort.SessionOptions()
        options.log_severity_level = 3
        if self.operators:
            options.register_custom_ops_library(self.operators)
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feeds = {name: unicode(array) for name, array in (ask.direct or ask.feeds).items()}
        names = list(ask.outputs) or [tensor.name for tensor in session.get_outputs()]
        results = zip(names, session.run(names, feeds), strict=True)
        return {name: np.reshape(result, ask.shapes.get(name, np.shape(result))) for name, result in results}


def unicode(array: np.ndarray) -> np.ndarray:
    """BYTES as ONNX Runtime's Python binding takes them."""
    return np.vectorize(bytes.decode, otypes=[object])(array) if array.dtype == object and array.size else array


def graph(
    nodes: list[onnx.NodeProto],
    inputs: list,
    outputs: list,
    weights: Arrays | None = None,
    *,
    path: str = "1/model.onnx",
    ir: int = 9,
    opsets: Mapping[str, int] | None = None,
    external: bool = False,
) -> Make:
    """Something that writes a small ONNX graph into a model's folder.

    Args:
        inputs: (name, TensorProto type, shape) or a value info each; likewise outputs.
        weights: initializers.
        external: keep them in a file beside the graph.
    """

    def make(folder: Path) -> None:
        def entries(given: list) -> list[onnx.ValueInfoProto]:
            return [helper.make_tensor_value_info(*entry) if isinstance(entry, tuple) else entry for entry in given]

        tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
        whole = helper.make_graph(nodes, "graph", entries(inputs), entries(outputs), tensors)
        imports = [helper.make_opsetid(domain, version) for domain, version in ({"": 17} | dict(opsets or {})).items()]
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        model = helper.make_model(whole, opset_imports=imports, ir_version=ir)
        onnx.save(model, folder / path, save_as_external_data=external, location="weights.bin", size_threshold=0)

    return make


def each(*makes: Make) -> Make:
    """Several files of one model."""
    return lambda folder: [make(folder) for make in makes]


def raw(path: str, content: bytes) -> Make:
    """A file with these bytes."""

    def make(folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)

    return make


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """An operator; names separated by spaces."""
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def double(
    shape: list, *, output: list | None = None, kind: int = TensorProto.FLOAT, path: str = "1/model.onnx", **more: Any
) -> Make:
    """x of a shape → y = x + x."""
    return graph([node("Add", "x x", "y")], [("x", kind, shape)], [("y", kind, output or shape)], path=path, **more)


def same(shape: list, kind: int) -> Make:
    """x → y = x, of one type."""
    return graph([node("Identity", "x", "y")], [("x", kind, shape)], [("y", kind, shape)])


def entry(name: str, data_type: str, dims: list[int], more: str = "") -> str:
    """One entry of `input` or `output` in config.pbtxt."""
    return f'{{ name: "{name}" data_type: TYPE_{data_type} dims: [ {", ".join(map(str, dims))} ] {more} }}'


def io(inputs: list[str], outputs: list[str]) -> str:
    """`input` and `output` of config.pbtxt from their entries."""
    return f"input [ {', '.join(inputs)} ]\noutput [ {', '.join(outputs)} ]\n"


def xy(
    dims: list[int], output: list[int] | None = None, *, kind: str = "FP32", more: str = "", more_y: str = ""
) -> str:
    """`input` x and `output` y of config.pbtxt."""
    return io([entry("x", kind, dims, more)], [entry("y", kind, dims if output is None else output, more_y)])


def numbers(*shape: int, kind: type = np.float32, seed: int = 0) -> np.ndarray:
    """Whole numbers from 0 to 5, so that every type holds them and their doubles."""
    return np.random.default_rng(seed).integers(0, 6, shape).astype(kind)


def text(*values: str | bytes, shape: tuple[int, ...] = (-1,)) -> np.ndarray:
    """A BYTES tensor."""
    return np.array([v.encode() if isinstance(v, str) else v for v in values], dtype=object).reshape(shape)
