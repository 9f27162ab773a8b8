"""The graph of an ONNX file without its weights, however large the file is.

protobuf reads a message whole, so that asking a 2 GB file for its inputs takes 4 GB of memory. Here the file
is walked field by field and the numbers of large tensors are stepped over.

Source: the field numbers of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

import mmap
from pathlib import Path

import onnx

from tutorial_lib.errors import ExportError

# message → field → the message in that field; what is not listed is copied as it stands
_CHILDREN = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_NUMBERS = {4, 5, 6, 7, 9, 10, 11}  # of a tensor: float_data … raw_data … uint64_data
_LISTS = {7, 8, 9}  # of an attribute: floats, ints, strings
_SMALL = 4096  # bytes of a message that is copied whole
_DEPTH = 64  # graphs inside graphs
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# how files begin that people mistake for ONNX
_LOOKALIKES = (
    (b"version https://git-lfs", "a Git LFS pointer, not the model itself", "Fetch the model: git lfs pull."),
    (b"PK\x03\x04", "a zip archive, such as a PyTorch checkpoint", "Export the model to ONNX first (notebook 02)."),
    (b"\x89HDF", "an HDF5 file, such as a Keras model", "Convert it, for example with tf2onnx."),
    (b"<", "a page of HTML or XML, perhaps from a failed download", "Download the model again."),
)


class _Broken(Exception):
    """The bytes are no protobuf message."""


def read_header(path: Path | str) -> onnx.ModelProto:
    """The graph of an ONNX file; tensors above 4 KiB come without their numbers.

    Args:
        path: the file. Weights in files of their own are not touched.

    Raises:
        ExportError: there is no such file, it is empty, or it is not a whole ONNX file.
    """
    path = Path(path)
    subject = f"ONNX file {str(path)!r}"
    try:
        if path.exists() and not path.is_file():
            raise ExportError(f"{subject}: found a folder or a device, expected a file.", action="Give the .onnx file.")
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size == 0:
                raise ExportError(f"{subject}: found 0 bytes.", action="Export or download it again.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse(data, size, subject)
    except (OSError, ValueError) as error:  # ValueError: no path at all
        why = getattr(error, "strerror", None) or error
        raise ExportError(f"{subject}: {why}.", action="Export it first (notebook 02).") from error


def _parse(data: mmap.mmap, size: int, subject: str) -> onnx.ModelProto:
    from google.protobuf.message import DecodeError

    for start, what, action in _LOOKALIKES:
        if data[: len(start)] == start:
            raise ExportError(f"{subject}: found {what}.", action=action)
    try:
        model = onnx.ModelProto.FromString(_copy(data, 0, size, "model", 0))
    except (_Broken, DecodeError) as error:
        raise ExportError(
            f"{subject}: found {size} bytes that are not a whole ONNX graph.",
            action="Is it complete, and is it ONNX? Export or download it again.",
        ) from error
    if not model.graph.output:
        raise ExportError(f"{subject}: found no graph in it.", action="Export or download it again.")
    return model


def _copy(data: mmap.mmap, start: int, end: int, kind: str, depth: int) -> bytes:
    """The message between two places, without the numbers of large tensors."""
    if depth > _DEPTH:
        raise _Broken
    children, out, here = _CHILDREN[kind], [], start
    while here < end:
        tag, body = _varint(data, here, end)
        field, wire = tag >> 3, tag & 7
        if field == 0:
            raise _Broken
        if kind == "attribute" and field in _LISTS:  # a forest has millions of entries, and no tensor among them
            out.append(data[here:end])
            break
        if wire == _BYTES:
            length, body = _varint(data, body, end)
        elif wire == _VARINT:
            length = _varint(data, body, end)[1] - body
        else:
            length = {_FIXED64: 8, _FIXED32: 4}.get(wire, -1)
        after = body + length
        if length < 0 or after > end:
            raise _Broken
        if wire == _BYTES and length > _SMALL and field in children:
            child = _copy(data, body, after, children[field], depth + 1)
            out += [_encoded(tag), _encoded(len(child)), child]
        elif not (kind == "tensor" and field in _NUMBERS):
            out.append(data[here:after])
        here = after
    return b"".join(out)


def _varint(data: mmap.mmap, start: int, end: int) -> tuple[int, int]:
    """A number in protobuf's variable length, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if start >= end:
            break
        byte = data[start]
        start += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, start
    raise _Broken


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
