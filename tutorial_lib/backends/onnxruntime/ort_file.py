"""The model's file: where it is, which versions it is stamped with, and a session on it."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import BinaryIO, NoReturn

import onnxruntime as ort
import triton_python_backend_utils as pb_utils

GRAPH, IR_VERSION, OPSET_IMPORT = 7, 1, 8  # fields of onnx.proto's ModelProto
DOMAIN, VERSION = 1, 2  # fields of its OperatorSetIdProto
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # protobuf's wire types


def refuse(message: str) -> NoReturn:
    """Refuse to load, in Triton's own kind of error."""
    raise pb_utils.TritonModelException(message)


def in_c_words(error: Exception) -> str:
    """An error of ONNX Runtime's Python binding as its C interface words it, with the error code."""
    match = re.match(r"\[ONNXRuntimeError\] : (\d+) : \w+ : (.*)", str(error), re.DOTALL)
    return f"onnx runtime error {match[1]}: {match[2]}" if match else f"onnx runtime error 1: {error}"


def model_file(config: dict, version_folder: str) -> Path:
    """The model file of this version; `default_model_filename` may name another than model.onnx, or a folder."""
    folder = Path(version_folder).absolute()
    path = folder / (config.get("default_model_filename") or "model.onnx")
    # by the name alone: weights that are a link to elsewhere are the owner's choice, "../" is not
    if folder not in Path(os.path.normpath(path)).parents:
        refuse(f"default_model_filename '{path}' points outside the version folder {folder}")
    if not path.exists():
        refuse(f"failed to stat file {path}")
    if path.is_dir():
        path = path / "model.onnx"
        if not path.exists():
            refuse(f"unable to find '{path}' for model instance '{config['name']}'")
    return path


def open_session(path: Path, options: ort.SessionOptions) -> ort.InferenceSession:
    """Open the model, refusing what the target release's ONNX Runtime would refuse."""
    check_caps(path)
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        refuse(in_c_words(error))


def check_caps(path: Path) -> None:
    """Compare the file's IR version and opset with the caps of the target release, if any are set."""
    max_ir, max_opset = os.environ.get("WORKSHOP_ONNX_MAX_IR"), os.environ.get("WORKSHOP_ONNX_MAX_OPSET")
    if not (max_ir and max_opset):
        return
    ir_version, opsets = stamped_versions(path)
    failure = f"onnx runtime error 1: Load model from {path} failed:"
    if ir_version > int(max_ir):
        refuse(f"{failure} Unsupported model IR version: {ir_version}, max supported IR version: {max_ir}")
    for domain, opset in opsets.items():
        if domain in ("", "ai.onnx") and opset > int(max_opset):
            refuse(
                f"{failure} ONNX Runtime only *guarantees* support for models stamped with official released onnx "
                f"opset versions. Opset {opset} is under development and support for this is limited. "
                f"Current official support for domain ai.onnx is till opset {max_opset}."
            )


def stamped_versions(path: Path) -> tuple[int, dict[str, int]]:
    """IR version, and opset by domain; (0, {}) when this is no whole ONNX file: ONNX Runtime says that best.

    The file is stepped through field by field, past the graph: reading a model with the onnx package would
    cost every instance twice the model's size in memory, and 0.1 s.
    """
    ir_version, opsets, seen = 0, {}, set()
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            while file.tell() < size:
                field, value = next_field(file, size, wanted={IR_VERSION, OPSET_IMPORT})
                seen.add(field)
                if field == IR_VERSION:
                    ir_version = value
                elif field == OPSET_IMPORT:
                    entry, inner = io.BytesIO(value), {}
                    while entry.tell() < len(value):
                        inner.update([next_field(entry, len(value), wanted={DOMAIN, VERSION})])
                    opsets[inner.get(DOMAIN, b"").decode()] = inner.get(VERSION, 0)
        except (ValueError, AttributeError, TypeError):  # a field of another kind than ONNX has there
            return 0, {}
        whole = file.tell() == size and GRAPH in seen
    return (ir_version, opsets) if whole else (0, {})


def next_field(file: BinaryIO, end: int, wanted: set[int]) -> tuple[int, int | bytes | None]:
    """A protobuf field's number and its value; None for a value that is not wanted, which is stepped over.

    Raises:
        ValueError: it is no field, or longer than what is left up to `end`.
    """
    tag = varint(file)
    field, wire = tag >> 3, tag & 7
    if wire == VARINT:
        return field, varint(file)
    length = {FIXED64: 8, FIXED32: 4}.get(wire) or (varint(file) if wire == BYTES else -1)
    if length < 0 or length > end - file.tell():
        raise ValueError(f"wire type {wire}, {length} bytes")
    if field in wanted:
        return field, file.read(length)
    file.seek(length, io.SEEK_CUR)
    return field, None


def varint(file: BinaryIO) -> int:
    """A number in protobuf's variable length."""
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            break
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise ValueError("a number that does not end")
