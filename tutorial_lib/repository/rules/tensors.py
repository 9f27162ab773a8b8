"""What a configuration says of its tensors, whatever backend runs the model."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from tritonclient.grpc import model_config_pb2
from tritonclient.grpc.model_config_pb2 import ModelInput

from tutorial_lib.repository.config_text import shape_text
from tutorial_lib.repository.proto_fields import name_of
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import LARGEST_TEXT, ModelView, inside, is_file

LESSON = "04#dims-question"


def entries(model: ModelView) -> Iterator[tuple[str, str, object]]:
    """(subject, path, entry) of every input and output."""
    for role in ("input", "output"):
        for number, entry in enumerate(getattr(model.config, role)):
            yield f"{role} '{entry.name}'", f"{role}[{number}]", entry


@rule(
    "tensor-incomplete",
    severity="error",
    lesson="04#tensors-question",
    why="Triton checks every request against name, type and dims.",
)
def tensor_incomplete(model: ModelView) -> Iterator[Problem]:
    for subject, path, entry in entries(model):
        if not entry.name:
            yield Problem(path, "no name", 'name: "…"', "Add the tensor's name.", at=path)
        if entry.data_type == model_config_pb2.TYPE_INVALID:
            yield Problem(subject, "no data_type", "data_type, such as TYPE_FP32", "Add data_type: TYPE_FP32.", at=path)


@rule(
    "empty-dims",
    severity="error",
    lesson=LESSON,
    why="An empty list is for protobuf the same as no dims at all, and Triton asks for dims.",
)
def empty_dims(model: ModelView) -> Iterator[Problem]:
    for subject, path, entry in entries(model):
        if not entry.dims:
            new, known = _dims_for(model, path.partition("[")[0], entry.name)
            found = "dims: [ ]" if model.source.place(f"{path}.dims") else "no dims"
            yield Problem(
                subject,
                found,
                new,
                f"Write {new}.",
                at=f"{path}.dims",
                note="" if known else "That is for one number per item.",
            )


def _dims_for(model: ModelView, role: str, name: str) -> tuple[str, bool]:
    """What to write, and whether the graph says so."""
    for graph in model.graphs:
        tensor = (graph.inputs if role == "input" else graph.outputs).get(name)
        if tensor is not None and tensor.dims is not None:
            shape = tensor.dims[1:] if model.batching else tensor.dims
            if shape:
                return f"dims: {shape_text(shape)}", True
    return ("dims: [ 1 ] reshape { shape: [ ] }" if model.batching else "dims: [ 1 ]"), False


@rule("dims-value", severity="error", lesson=LESSON, why="An axis has a size of 1 or more, or -1 when it varies.")
def dims_value(model: ModelView) -> Iterator[Problem]:
    for subject, path, entry in entries(model):
        wrong = [size for size in entry.dims if size == 0 or size < -1]
        if wrong:
            fix = f"Write -1 in place of {wrong[0]} if the axis varies, else its size."
            yield Problem(subject, f"dims: {shape_text(entry.dims)}", "sizes from 1, or -1", fix, at=f"{path}.dims")
        shape = [size for size in entry.reshape.shape if size == 0 or size < -1]
        if shape:
            found, fix = f"reshape {shape_text(entry.reshape.shape)}", f"Write a size in place of {shape[0]}."
            yield Problem(subject, found, "sizes from 1, or -1", fix, at=f"{path}.reshape")


@rule(
    "scalar-dims",
    severity="error",
    lesson=LESSON,
    why="Triton has no scalars: without batching one number travels as an array of one.",
)
def scalar_dims(model: ModelView) -> Iterator[Problem]:
    for subject, path, entry in entries(model):
        if not model.batching and entry.HasField("reshape") and not entry.reshape.shape:
            yield Problem(
                subject,
                "reshape { shape: [ ] } with max_batch_size 0",
                "dims: [ 1 ] and no reshape",
                "Delete the reshape.",
                at=f"{path}.reshape",
            )


@rule(
    "reshape-size",
    severity="error",
    lesson=LESSON,
    why="reshape shows the same numbers in another shape, so both hold as many.",
)
def reshape_size(model: ModelView) -> Iterator[Problem]:
    for subject, path, entry in entries(model):
        shape = list(entry.reshape.shape)
        if not entry.HasField("reshape") or not entry.dims or (not shape and not model.batching):
            continue
        if not _same_size(list(entry.dims), shape):
            found = f"dims: {shape_text(entry.dims)} and reshape {shape_text(shape)}"
            fix = "Give both the same number of elements, and of -1."
            yield Problem(subject, found, "two shapes of the same size", fix, at=f"{path}.reshape")


def _same_size(dims: list[int], shape: list[int]) -> bool:
    """Whether Triton takes the pair: equal products between the open axes, which keep their order."""
    if dims.count(-1) != shape.count(-1):
        return False
    return _between_open(dims) == _between_open(shape)


def _between_open(shape: list[int]) -> list[int]:
    parts: list[list[int]] = [[]]
    for size in shape:
        if size == -1:
            parts.append([])
        else:
            parts[-1].append(size)
    return [math.prod(part) for part in parts]


@rule(
    "tensor-format",
    severity="error",
    lesson=LESSON,
    why="FORMAT_NCHW and FORMAT_NHWC describe images, which have three axes behind the batch.",
)
def tensor_format(model: ModelView) -> Iterator[Problem]:
    for subject, path, entry in entries(model):
        image = isinstance(entry, ModelInput) and entry.format != ModelInput.FORMAT_NONE
        if image and len(entry.dims) != 3:
            name = name_of(ModelInput.Format, entry.format)
            found = f"format: {name} with dims: {shape_text(entry.dims)}"
            yield Problem(subject, found, "three dims", "Delete the format line.", at=f"{path}.format")


@rule("shape-tensor", severity="error", lesson=LESSON, why="Only TensorRT has tensors whose values are a shape.")
def shape_tensor(model: ModelView) -> Iterator[Problem]:
    for subject, path, entry in entries(model):
        if entry.is_shape_tensor and model.backend != "tensorrt":
            at = f"{path}.is_shape_tensor"
            yield Problem(subject, "is_shape_tensor: true", "it for TensorRT only", "Delete is_shape_tensor.", at=at)


@rule("tensor-twice", severity="warning", lesson="04#tensors-question", why="A name is a tensor's only address.")
def tensor_twice(model: ModelView) -> Iterator[Problem]:
    for role in ("input", "output"):
        names = [entry.name for entry in getattr(model.config, role)]
        for number, name in enumerate(names):
            if name and name in names[:number]:
                fix = "Delete one of the two entries, or correct its name."
                yield Problem(f"{role} '{name}'", "two entries of that name", "one", fix, at=f"{role}[{number}]")


@rule(
    "label-file",
    severity="error",
    lesson="06#topk-question",
    why="The label file gives names to the classes that the classification extension returns.",
)
def label_file(model: ModelView) -> Iterator[Problem]:
    for number, entry in enumerate(model.config.output):
        name = entry.label_filename
        if not name:
            continue
        subject, at = f"output '{entry.name}'", f"output[{number}].label_filename"
        path = model.path / name
        if not inside(name):
            yield Problem(
                subject, f"label_filename {name!r}", "a file in the model's folder", "Put the file there.", at=at
            )
        elif not is_file(path):
            there = [one for one in model.listing.files if one.endswith(".txt")]
            versions = [one for one in model.versions if name in model.files_of(one)]
            hint = f"It lies in {versions[0]}/: move it up." if versions else f"There is {there[0]}." if there else ""
            fix = f"Put the file at {model.name}/{name}, or delete label_filename. {hint}".strip()
            folder = os.path.isdir(path)
            found = f"label_filename {name!r}, {'which is a folder' if folder else 'and no such file'}"
            note = "The whole server ends at it." if folder else ""
            yield Problem(subject, found, "the file in the model's folder", fix, at=at, note=note)
        elif entry.dims:
            yield from _label_count(model, entry, path, subject, at)


def _label_count(model: ModelView, entry, path, subject: str, at: str) -> Iterator[Problem]:
    try:
        data = path.read_bytes() if path.stat().st_size <= LARGEST_TEXT else b""
    except OSError as error:
        yield Problem(
            subject,
            f"a label file that cannot be read: {error.strerror}",
            "a text file",
            "Check its permissions.",
            at=at,
        )
        return
    lines = data.decode("utf-8", errors="replace").rstrip("\n").split("\n") if data.strip() else []
    classes = math.prod(entry.dims) if -1 not in entry.dims else -1
    if classes > 0 and len(lines) != classes:
        yield Problem(
            subject,
            f"{len(lines)} labels in {path.name}",
            f"{classes}, one for each class",
            f"Give {path.name} one line for each class, in order.",
            at=at,
            severity="warning",
        )
