"""Reading ONNX files: their tensors in Triton's words, and what they are made of."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import onnx
import pandas as pd
from onnx import TensorProto

from tutorial_lib.export.onnx_header import read_header

# Source: https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md
# (table "Datatypes", columns "Model Config" / "ONNX Runtime")
TRITON_TYPES = {
    TensorProto.BOOL: "BOOL",
    TensorProto.UINT8: "UINT8",
    TensorProto.UINT16: "UINT16",
    TensorProto.UINT32: "UINT32",
    TensorProto.UINT64: "UINT64",
    TensorProto.INT8: "INT8",
    TensorProto.INT16: "INT16",
    TensorProto.INT32: "INT32",
    TensorProto.INT64: "INT64",
    TensorProto.FLOAT16: "FP16",
    TensorProto.FLOAT: "FP32",
    TensorProto.DOUBLE: "FP64",
    TensorProto.STRING: "BYTES",
    TensorProto.BFLOAT16: "BF16",
}


@dataclass(frozen=True)
class OnnxTensor:
    """An input or output of a graph.

    Attributes:
        name: the tensor's name, the one a client and a config.pbtxt must use.
        datatype: Triton's word ("FP32"), or a remark for a type that Triton has no word for.
        shape: sizes; a string for a symbolic axis ("batch"), None for an unnamed open one.
            The whole shape is None when the file does not even say how many axes there are.
    """

    name: str
    datatype: str
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class OnnxSummary:
    """What a file is made of.

    Attributes:
        size_bytes: the file and its external data, if any.
        nodes: how often each operator occurs, most frequent first.
        weights: numbers stored in the graph (initializers).
    """

    path: Path
    size_bytes: int
    ir_version: int
    opset: int
    producer: str
    nodes: dict[str, int]
    weights: int

    def table(self) -> pd.DataFrame:
        """The summary for reading, one property a row."""
        rows = {
            "file": self.path.name,
            "size": f"{self.size_bytes / 1024:,.0f} KiB",
            "IR version": str(self.ir_version),
            "opset": str(self.opset),
            "written by": self.producer,
            "weights": f"{self.weights:,}",
            "nodes": f"{sum(self.nodes.values()):,}",
        }
        return pd.DataFrame({"value": rows.values()}, index=pd.Index(rows, name="property"))


def read_onnx(path: Path) -> onnx.ModelProto:
    """The graph of an ONNX file; weights above 4 KiB come without their numbers, however large the file is.

    Raises:
        ExportError: there is no such file, or it is not ONNX, for example because it was cut.
    """
    return read_header(path)


def inputs_of(model: onnx.ModelProto) -> list[OnnxTensor]:
    """The inputs a caller must give; weights that old exporters list as inputs are left out."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [_tensor(value) for value in model.graph.input if value.name not in weights]


def outputs_of(model: onnx.ModelProto) -> list[OnnxTensor]:
    return [_tensor(value) for value in model.graph.output]


def describe_onnx(path: Path) -> pd.DataFrame:
    """Inputs and outputs of an ONNX file: columns kind, name, datatype (Triton's), shape.

    Raises:
        ExportError: as `read_onnx`.
    """
    model = read_onnx(path)
    tensors = [("input", tensor) for tensor in inputs_of(model)]
    tensors += [("output", tensor) for tensor in outputs_of(model)]
    rows = [(kind, tensor.name, tensor.datatype, shape_text(tensor.shape)) for kind, tensor in tensors]
    return pd.DataFrame(rows, columns=["kind", "name", "datatype", "shape"])


def summary(path: Path) -> OnnxSummary:
    """Size, versions and operators of an ONNX file.

    Raises:
        ExportError: as `read_onnx`.
    """
    path = Path(path)
    model = read_onnx(path)
    side_files = {
        entry.value for tensor in model.graph.initializer for entry in tensor.external_data if entry.key == "location"
    }
    files = [path, *(path.parent / name for name in side_files)]
    return OnnxSummary(
        path=path,
        size_bytes=sum(file.stat().st_size for file in files if file.exists()),
        ir_version=model.ir_version,
        opset=opset_of(model),
        producer=f"{model.producer_name} {model.producer_version}".strip(),
        nodes=dict(Counter(node.op_type for node in model.graph.node).most_common()),
        weights=sum(math.prod(tensor.dims) for tensor in model.graph.initializer),
    )


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operator set; 0 when the graph uses none of it."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def shape_text(shape: tuple[int | str | None, ...] | None) -> str:
    """`[batch, 3, 32, 32]`; a question mark for an open axis without a name."""
    if shape is None:
        return "unknown rank"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def _tensor(value: onnx.ValueInfoProto) -> OnnxTensor:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return OnnxTensor(value.name, f"{kind or 'no type'} (not a tensor)", None)
    tensor = value.type.tensor_type
    number = tensor.elem_type
    name = TRITON_TYPES.get(number) or f"{TensorProto.DataType.Name(number)} (none in Triton)"
    if not tensor.HasField("shape"):
        return OnnxTensor(value.name, name, None)
    sizes = [axis.dim_value if axis.HasField("dim_value") else axis.dim_param or None for axis in tensor.shape.dim]
    return OnnxTensor(value.name, name, tuple(sizes))
