"""config.pbtxt through Triton's own protobuf: read, write, compare with an ONNX file."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf import text_format
from onnx import TensorProto
from tritonclient.grpc import model_config_pb2
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.errors import RepositoryError

# ONNX element type -> Triton's type in config.pbtxt.
# Source: "Datatypes" in Triton's model configuration documentation.
TRITON_TYPES = {
    TensorProto.BOOL: "TYPE_BOOL",
    TensorProto.UINT8: "TYPE_UINT8",
    TensorProto.UINT16: "TYPE_UINT16",
    TensorProto.UINT32: "TYPE_UINT32",
    TensorProto.UINT64: "TYPE_UINT64",
    TensorProto.INT8: "TYPE_INT8",
    TensorProto.INT16: "TYPE_INT16",
    TensorProto.INT32: "TYPE_INT32",
    TensorProto.INT64: "TYPE_INT64",
    TensorProto.FLOAT16: "TYPE_FP16",
    TensorProto.FLOAT: "TYPE_FP32",
    TensorProto.DOUBLE: "TYPE_FP64",
    TensorProto.STRING: "TYPE_STRING",
    TensorProto.BFLOAT16: "TYPE_BF16",
}


def parse_config(text: str, *, source: str = "config.pbtxt") -> ModelConfig:
    """Read the text of a config.pbtxt into Triton's protobuf message.

    Args:
        text: protobuf text format.
        source: what to call it in an error.

    Raises:
        RepositoryError: with line and column of the first thing protobuf could not read.
    """
    try:
        return text_format.Parse(text, ModelConfig())
    except text_format.ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        where = f"{source}:{line}:{column}" if line else source
        lines = text.splitlines()
        shown = f"{lines[line - 1]}\n{' ' * (column - 1)}^" if line and line <= len(lines) and column else ""
        raise RepositoryError(
            f"{where}: not a model configuration: {(str(error).partition(' : ')[2] or str(error)).rstrip('.')}.",
            action="Look for a missing bracket or comma, or a misspelt field, at or before this place.",
            details=shown,
        ) from error


def read_config(path: Path | str) -> ModelConfig:
    """Read a config.pbtxt, or the one of a model folder.

    Raises:
        RepositoryError: it is missing or cannot be parsed.
    """
    path = Path(path)
    path = path / "config.pbtxt" if path.is_dir() else path
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RepositoryError(
            f"{path}: cannot be read as text: {error}.", action="Expected a config.pbtxt in UTF-8."
        ) from error
    return parse_config(text, source=str(path))


def format_config(config: ModelConfig) -> str:
    """The protobuf text of a configuration."""
    return text_format.MessageToString(config)


def check_against_onnx(config: ModelConfig, onnx_path: Path | str) -> None:
    """Compare a configuration's tensors with an ONNX file: names, types, batch axis and dims.

    Only the graph's header is needed; weights in external files are not read.

    Raises:
        RepositoryError: the first tensor that does not agree, with found and expected.
    """
    try:
        graph = onnx.load(str(onnx_path), load_external_data=False).graph
    except Exception as error:
        raise RepositoryError(f"{onnx_path}: not a readable ONNX file: {error}.", action="Export it again.") from error
    weights = {tensor.name for tensor in graph.initializer}
    roles = {
        "input": (config.input, [value for value in graph.input if value.name not in weights]),
        "output": (config.output, list(graph.output)),
    }
    for role, (entries, values) in roles.items():
        provided = {value.name: value.type.tensor_type for value in values}
        missing = provided.keys() - {entry.name for entry in entries} if role == "input" else set()
        if missing:
            raise RepositoryError(
                f"model '{config.name}': config.pbtxt has no {role} '{min(missing)}', which the ONNX graph needs.",
                action=f"Add {role} entries for: {', '.join(sorted(missing))}.",
            )
        for entry in entries:
            _check_entry(config, role, entry, provided)


def _check_entry(config: ModelConfig, role: str, entry, provided: dict) -> None:
    subject = f"model '{config.name}', {role} '{entry.name}'"
    if entry.name not in provided:
        raise RepositoryError(
            f"{subject}: the ONNX graph has no such {role}; it has: {', '.join(provided)}.",
            action=f"Use the graph's own name, or export again with {role}_names.",
        )
    tensor = provided[entry.name]
    found = model_config_pb2.DataType.Name(entry.data_type)
    expected = TRITON_TYPES.get(tensor.elem_type, f"(no Triton type for ONNX type {tensor.elem_type})")
    if found != expected:
        raise RepositoryError(
            f"{subject}: config.pbtxt says {found}, the ONNX graph says {expected}.",
            action=f"Write data_type: {expected}.",
        )
    shape = [axis.dim_value if axis.HasField("dim_value") else -1 for axis in tensor.shape.dim]
    dims = list(entry.reshape.shape if entry.HasField("reshape") else entry.dims)
    if config.max_batch_size > 0:
        if shape[:1] != [-1]:
            raise RepositoryError(
                f"{subject}: max_batch_size is {config.max_batch_size}, but the first axis is not free: {shape}.",
                action="Export with a dynamic batch axis, or set max_batch_size: 0 and write all axes into dims.",
            )
        if len(dims) == len(shape):
            raise RepositoryError(
                f"{subject}: config.pbtxt dims {dims} start with the batch although max_batch_size is "
                f"{config.max_batch_size}.",
                action=f"Write dims: {shape[1:]}.",
            )
        shape = shape[1:]
    fits = len(dims) == len(shape) and all(
        have == want or (want == -1 and role == "input") for have, want in zip(dims, shape, strict=True)
    )
    if not fits:
        raise RepositoryError(
            f"{subject}: config.pbtxt dims are {dims}, the ONNX graph has {shape}.", action=f"Write dims: {shape}."
        )
