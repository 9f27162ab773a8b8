"""An ONNX file's tensors as Triton's backend compares them with a configuration, without loading weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx
from onnx import TensorProto

from tutorial_lib.errors import ExportError
from tutorial_lib.export.onnx_file import OnnxTensor, inputs_of, opset_of, outputs_of
from tutorial_lib.export.onnx_header import read_header

# the serialized graph, weights stripped, that ONNX Runtime is asked about
LARGEST_GRAPH = 8 * 2**20
_NUMBERS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
# Triton 24.10's ONNX Runtime backend has no BF16
_NOT_SERVED = ("BF16",)


@dataclass(frozen=True)
class Tensor:
    """An input or output.

    Attributes:
        data_type: config.pbtxt's word, such as "TYPE_FP32"; "" for a type that the backend cannot serve.
        kind: the type in words when it cannot.
        dims: sizes, -1 for an open axis; None when nobody knows how many axes there are.
    """

    name: str
    data_type: str
    kind: str
    dims: tuple[int, ...] | None


class GraphView:
    """One ONNX file.

    Args:
        version: the version folder it lies in.
    """

    def __init__(self, path: Path, version: int) -> None:
        self.path = path
        self.version = version

    @cached_property
    def _read(self) -> tuple[onnx.ModelProto | None, ExportError | None]:
        try:
            header = read_header(self.path)
            if all(isinstance(text, str) for text in _texts(header)):
                return header, None
            raise ValueError(self.path)
        except ExportError as error:
            return None, error
        except ValueError:  # bytes that protobuf takes and nobody can read
            problem = f"ONNX file {self.path.name!r}: found names or types that make no sense."
            return None, ExportError(problem, action="Export or download it again.")

    @property
    def header(self) -> onnx.ModelProto | None:
        """The graph without large weights; None when the file is no ONNX."""
        return self._read[0]

    @property
    def problem(self) -> ExportError | None:
        return self._read[1]

    @property
    def ir(self) -> int:
        return self.header.ir_version if self.header else 0

    @property
    def opset(self) -> int:
        return opset_of(self.header) if self.header else 0

    @cached_property
    def initializers(self) -> set[str]:
        """Weights by name, also those that old exporters list as inputs."""
        return {tensor.name for tensor in self.header.graph.initializer} if self.header else set()

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        found = [_tensor(tensor) for tensor in inputs_of(self.header)] if self.header else []
        return {tensor.name: tensor for tensor in found}

    @cached_property
    def outputs(self) -> dict[str, Tensor]:
        """The outputs; open axes as ONNX Runtime fills them in, which knows more than the file says."""
        found = {tensor.name: _tensor(tensor) for tensor in outputs_of(self.header)} if self.header else {}
        if any(tensor.dims is None or -1 in tensor.dims for tensor in found.values() if tensor.data_type):
            for name, dims in self._session_dims().items():
                if name in found and found[name].data_type:
                    found[name] = Tensor(name, found[name].data_type, "", dims)
        return found

    def _session_dims(self) -> dict[str, tuple[int, ...]]:
        """The outputs' dims in a session without optimisation; none where it cannot be opened."""
        skeleton = _skeleton(self.header)
        if skeleton is None:
            return {}
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            session = ort.InferenceSession(skeleton, options, providers=["CPUExecutionProvider"], enable_fallback=0)
            shapes = {one.name: one.shape for one in session.get_outputs()}
        except Exception:  # custom operators, a newer opset, broken names: the file's own shapes have to do
            return {}
        return {
            name: tuple(axis if isinstance(axis, int) and axis >= 0 else -1 for axis in shape)
            for name, shape in shapes.items()
        }


def _skeleton(header: onnx.ModelProto) -> bytes | None:
    """The graph with each weight that was left out as an input of its shape; None when that is too large.

    ONNX Runtime infers the same shapes: what decides a shape (a list of axes, a pad) is short and kept.
    """
    model = onnx.ModelProto()
    model.CopyFrom(header)
    graph = model.graph
    listed = {value.name for value in graph.input}
    kept = [tensor for tensor in graph.initializer if not _hollow(tensor)]
    for tensor in graph.initializer:
        if _hollow(tensor) and tensor.name not in listed:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return model.SerializeToString() if model.ByteSize() <= LARGEST_GRAPH else None


def _texts(header: onnx.ModelProto) -> Iterator[str | bytes]:
    """What is read of a graph as text; protobuf gives bytes for what is not UTF-8."""
    yield from (tensor.name for tensor in (*inputs_of(header), *outputs_of(header)))
    for tensor in header.graph.initializer:
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


def _hollow(tensor: TensorProto) -> bool:
    """Its numbers are elsewhere, or were stepped over."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return True
    return (
        not tensor.HasField("raw_data") and not any(getattr(tensor, name) for name in _NUMBERS) and 0 not in tensor.dims
    )


def _tensor(tensor: OnnxTensor) -> Tensor:
    dims = None if tensor.shape is None else tuple(axis if isinstance(axis, int) else -1 for axis in tensor.shape)
    if " " in tensor.datatype or tensor.datatype in _NOT_SERVED:
        return Tensor(tensor.name, "", tensor.datatype, dims)
    return Tensor(tensor.name, f"TYPE_{'STRING' if tensor.datatype == 'BYTES' else tensor.datatype}", "", dims)
