"""Warm-up samples against the model's inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tritonclient.grpc import model_config_pb2

from tutorial_lib.repository.config_text import shape_text
from tutorial_lib.repository.proto_fields import name_of
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import ModelView, inside, is_file

SIZES = {"BOOL": 1, "UINT8": 1, "INT8": 1, "UINT16": 2, "INT16": 2, "FP16": 2, "BF16": 2, "UINT32": 4, "INT32": 4,
         "FP32": 4, "UINT64": 8, "INT64": 8, "FP64": 8}  # fmt: skip


@rule(
    "warmup",
    severity="error",
    lesson="04#fields-question",
    why="A warm-up sample is a request: Triton sends it before the model counts as ready.",
)
def warmup(model: ModelView) -> Iterator[Problem]:
    if model.ensemble:
        return  # has a rule of its own
    config = model.config
    known = {entry.name: entry for entry in config.input}
    for number, sample in enumerate(config.model_warmup):
        at = f"model_warmup[{number}]"
        subject = f"warm-up '{sample.name}'"
        if known:
            yield from _names(sample, known, subject, at)
        if sample.batch_size == 0:
            fix = (
                "Write batch_size: 1."
                if model.batching
                else "Write batch_size: 1; without batching it is not used further."
            )
            yield Problem(
                subject,
                "batch_size: 0",
                "1 or more",
                fix,
                at=at,
                severity="warning",
                note="Triton runs no sample and does not say so.",
            )
        elif sample.batch_size > max(1, config.max_batch_size):
            fix = f"Write batch_size: {max(1, config.max_batch_size)}."
            yield Problem(
                subject,
                f"batch_size: {sample.batch_size}",
                f"at most max_batch_size ({config.max_batch_size})",
                fix,
                at=f"{at}.batch_size",
            )
        for name, value in sample.inputs.items():
            yield from _input(model, name, value, known.get(name), subject, at)


def _names(sample, known: dict, subject: str, at: str) -> Iterator[Problem]:
    missing = [name for name, entry in known.items() if name not in sample.inputs and not entry.optional]
    extra = [name for name in sample.inputs if name not in known]
    if extra:
        right = f'Write key: "{missing[0]}".' if len(missing) == 1 else f"Use {', '.join(known)}."
        yield Problem(
            subject,
            f"inputs {', '.join(sorted(extra))}, which the model does not have",
            ", ".join(known),
            right,
            at=f"{at}.inputs",
            severity="" if missing else "warning",
            note="" if missing else "Triton leaves it out.",
        )
    elif missing:
        yield Problem(
            subject,
            f"no inputs for {', '.join(missing)}",
            "every input of the model",
            f'Add inputs {{ key: "{missing[0]}" … }}.',
            at=at,
        )


def _input(model: ModelView, name: str, value, entry, subject: str, at: str) -> Iterator[Problem]:
    subject = f"{subject}, input '{name}'"
    kind = value.WhichOneof("input_data_type")
    found_type = name_of(model_config_pb2.DataType, value.data_type)
    if entry is not None and value.data_type != entry.data_type and entry.data_type:
        right = name_of(model_config_pb2.DataType, entry.data_type)
        yield Problem(
            subject,
            f"data_type: {found_type}",
            f"{right}, as the input has",
            f"Write data_type: {right}.",
            at=f"{at}.inputs",
        )
    dims = list(value.dims)
    if any(size < 1 for size in dims):
        yield Problem(
            subject,
            f"dims: {shape_text(dims)}",
            "a size for every axis",
            "Write the sizes that real requests have.",
            at=f"{at}.inputs",
        )
    elif entry is not None and entry.dims and not _fits(dims, list(entry.dims)):
        batch = " The batch comes from batch_size." if len(dims) == len(entry.dims) + 1 else ""
        fix = (
            f"Write dims: {shape_text(entry.dims)}.{batch}"
            if -1 not in entry.dims
            else f"Write dims that fit {shape_text(entry.dims)}.{batch}"
        )
        yield Problem(
            subject, f"dims: {shape_text(dims)}", f"{shape_text(entry.dims)}, as the input has", fix, at=f"{at}.inputs"
        )
    if kind is None or (kind != "input_data_file" and not getattr(value, kind)):
        fix = "Write zero_data: true, random_data: true or input_data_file."
        yield Problem(
            subject, "no data", "zero_data, random_data or a file", fix, at=f"{at}.inputs", severity="warning"
        )
    elif kind == "input_data_file":
        yield from _file(model, value, found_type, dims, subject, at)


def _file(model: ModelView, value, found_type: str, dims: list[int], subject: str, at: str) -> Iterator[Problem]:
    name = value.input_data_file
    path = model.path / "warmup" / name
    if not inside(name):
        yield Problem(
            subject,
            f"input_data_file {name!r}",
            f"a file in {model.name}/warmup/",
            "Put the file there.",
            at=f"{at}.inputs",
        )
        return
    try:
        have = path.stat().st_size if is_file(path) else -1
    except OSError:
        have = -1
    if have < 0:
        fix = f"Put the file at {model.name}/warmup/{name}, or write zero_data: true."
        yield Problem(
            subject, f"input_data_file {name!r}, and no such file", "raw bytes in warmup/", fix, at=f"{at}.inputs"
        )
        return
    size = SIZES.get(found_type.removeprefix("TYPE_"))
    wanted = math.prod(dims) * size if size and all(one > 0 for one in dims) else 0
    if have < wanted:
        note = "The file holds raw numbers, not a picture or an array file." if path.suffix else ""
        yield Problem(
            subject,
            f"{have} bytes in {name}",
            f"{wanted}, from type and dims",
            "Write the array's own bytes: array.tofile(path).",
            at=f"{at}.inputs",
            note=note,
        )


def _fits(dims: list[int], expected: list[int]) -> bool:
    return len(dims) == len(expected) and all(want in (-1, have) for have, want in zip(dims, expected, strict=True))
