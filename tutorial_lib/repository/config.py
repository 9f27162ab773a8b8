"""config.pbtxt through Triton's own protobuf: read, write, compare with an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.errors import ExportError, RepositoryError
from tutorial_lib.export.onnx_file import OnnxTensor, inputs_of, outputs_of, read_onnx


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
    try:
        path = path / "config.pbtxt" if path.is_dir() else path
        if path.exists() and not path.is_file():
            raise RepositoryError(f"{path}: found a pipe or a device, expected a file.", action="Put a file there.")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # not text, or no path at all
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
        model = read_onnx(Path(onnx_path))
    except ExportError as error:
        raise RepositoryError(error.problem, action=error.action) from error
    roles = {"input": (config.input, inputs_of(model)), "output": (config.output, outputs_of(model))}
    for role, (entries, tensors) in roles.items():
        provided = {tensor.name: tensor for tensor in tensors}
        missing = provided.keys() - {entry.name for entry in entries} if role == "input" else set()
        if missing:
            raise RepositoryError(
                f"model '{config.name}': config.pbtxt has no {role} '{min(missing)}', which the ONNX graph needs.",
                action=f"Add {role} entries for: {', '.join(sorted(missing))}.",
            )
        for entry in entries:
            _check_entry(config, role, entry, provided)


def _check_entry(config: ModelConfig, role: str, entry: Any, provided: dict[str, OnnxTensor]) -> None:
    subject = f"model '{config.name}', {role} '{entry.name}'"
    if entry.name not in provided:
        raise RepositoryError(
            f"{subject}: the ONNX graph has no such {role}; it has: {', '.join(provided)}.",
            action=f"Use the graph's own name, or export again with {role}_names.",
        )
    tensor = provided[entry.name]
    found = model_config_pb2.DataType.Name(entry.data_type)
    # config.pbtxt calls BYTES a string; all other types have one name
    expected = f"TYPE_{'STRING' if tensor.datatype == 'BYTES' else tensor.datatype}"
    if found != expected:
        raise RepositoryError(
            f"{subject}: config.pbtxt says {found}, the ONNX graph says {expected}.",
            action=f"Write data_type: {expected}.",
        )
    if tensor.shape is None:
        return  # the file does not say how many axes there are
    shape = [axis if isinstance(axis, int) else -1 for axis in tensor.shape]
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
    elif shape == [] and dims == [1] and not entry.HasField("reshape"):
        return  # Triton has no scalars: a model's scalar is one element on the wire
    fits = len(dims) == len(shape) and all(
        have == want or (want == -1 and role == "input") for have, want in zip(dims, shape, strict=True)
    )
    if not fits:
        raise RepositoryError(
            f"{subject}: config.pbtxt dims are {dims}, the ONNX graph has {shape}.", action=f"Write dims: {shape}."
        )
