"""Dims of a configuration against a graph's shapes: which axis is wrong, and in which of the known ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tutorial_lib.repository.config_text import shape_text as text
from tutorial_lib.repository.findings import Edit
from tutorial_lib.repository.graph_view import GraphView, Tensor
from tutorial_lib.repository.registry import Problem
from tutorial_lib.repository.view import ModelView

__all__ = ["of_model", "pairs", "text", "verdicts"]


def of_model(shape: Sequence[int], batching: bool) -> list[int]:
    """The dims that a configuration writes for a graph's shape."""
    return list(shape[1:] if batching else shape)


def pairs(model: ModelView) -> Iterator[tuple[str, int, Any, Tensor]]:
    """(role, number, entry, the graph's tensor of that name) for every tensor both sides have."""
    for graph in model.graphs:
        for role, tensors in (("input", graph.inputs), ("output", graph.outputs)):
            for number, entry in enumerate(getattr(model.config, role)):
                if entry.name in tensors:
                    yield role, number, entry, tensors[entry.name]


def verdicts(model: ModelView) -> list[tuple[str, Problem]]:
    """(rule, problem) for each tensor whose dims do not fit."""
    if "_verdicts" not in model.__dict__:
        found: list[tuple[str, Problem]] = []
        for graph in model.graphs:
            found += _unbatchable(model, graph)
        for role, number, entry, tensor in pairs(model):
            verdict = _verdict(model, role, number, entry, tensor)
            found += [verdict] if verdict else []
        model.__dict__["_verdicts"] = found
    return model.__dict__["_verdicts"]


def _unbatchable(model: ModelView, graph: GraphView) -> Iterator[tuple[str, Problem]]:
    """Tensors without an open first axis in a model that is to be batched."""
    if not model.batching:
        return
    listed = {entry.name for entry in (*model.config.input, *model.config.output)}
    roles = (("input", graph.inputs, model.config.input), ("output", graph.outputs, model.config.output))
    tensors = [
        (role, tensor, entries)
        for role, group, entries in roles
        for tensor in group.values()
        if tensor.dims is not None
    ]
    open_first = any(tensor.dims[:1] == (-1,) for _, tensor, _ in tensors)
    for role, tensor, entries in tensors:
        # an output that the configuration leaves out is not compared; without entries all are completed
        if tensor.dims[:1] == (-1,) or (role == "output" and entries and tensor.name not in listed):
            continue
        number = next((number for number, entry in enumerate(entries) if entry.name == tensor.name), None)
        at = "max_batch_size" if number is None else f"{role}[{number}]"
        shape, here = text(tensor.dims), text(tensor.dims or [1])
        whole = f"write max_batch_size: 0 and all axes into the dims of every tensor, here {here}"
        if open_first:
            fix, name = f"{whole[0].upper()}{whole[1:]}.", "unbatched-side-input"
            found = f"{shape} in the graph, with no batch axis, and max_batch_size: {model.config.max_batch_size}"
        else:
            name = "fixed-batch"
            found = f"{shape} in the graph, its first axis fixed, and max_batch_size: {model.config.max_batch_size}"
            fix = f"Export with a dynamic batch axis, or {whole}."
        yield name, Problem(f"{role} '{tensor.name}'", found, "an open first axis (-1)", fix, at=at)


def _verdict(model: ModelView, role: str, number: int, entry: Any, tensor: Tensor) -> tuple[str, Problem] | None:
    if tensor.dims is None or not entry.dims:
        return None
    shape, dims = list(tensor.dims), list(entry.reshape.shape if entry.HasField("reshape") else entry.dims)
    if model.batching and shape[:1] != [-1]:
        return None  # _unbatchable has said so
    if not model.batching and not shape and dims in ([1], []):
        return None  # one number travels as an array of one; an empty reshape has a rule of its own
    want = of_model(shape, model.batching)
    if len(dims) == len(want) and all(_fits(have, axis, role) for have, axis in zip(dims, want, strict=True)):
        return None
    field = "reshape.shape" if entry.HasField("reshape") else "dims"
    subject, at, found = f"{role} '{entry.name}'", f"{role}[{number}].{field}", f"{field.split('.')[0]}: {text(dims)}"
    expected = f"{text(want)}, from {text(shape)} in the graph"
    fix = f"Write dims: {text(want)}."
    if model.batching and not want and dims == [1]:
        fix = "Write dims: [ 1 ] reshape { shape: [ ] }."
        return "rank-needs-reshape", Problem(
            subject, found, f"a reshape to [ ], from {text(shape)} in the graph", fix, at=at
        )
    if model.batching and _batch_first(dims, want, role, model.config.max_batch_size):
        note = f"max_batch_size is {model.config.max_batch_size}: the batch axis is there already."
        edits = _without_first(model, f"{role}[{number}].dims") if field == "dims" and want else ()
        return "batch-in-dims", Problem(subject, found, expected, fix, at=at, note=note, edits=edits)
    if (
        role == "output"
        and len(dims) == len(want)
        and all(axis in (-1, have) for have, axis in zip(dims, want, strict=True))
    ):
        return "output-narrower", Problem(subject, found, expected, fix, at=at)
    note = ""
    if not model.batching and len(dims) == len(want) - 1 and want[0] == -1:
        note = "max_batch_size is 0, so dims are the whole shape; or set max_batch_size to batch."
    if not want:
        fix = "Write dims: [ 1 ]." if not model.batching else "Write dims: [ 1 ] reshape { shape: [ ] }."
    return "tensor-shape", Problem(subject, found, expected, fix, at=at, note=note)


def _fits(have: int, want: int, role: str) -> bool:
    return have == want or (want == -1 and role == "input")


def _batch_first(dims: list[int], want: list[int], role: str, most: int) -> bool:
    """Without its first number, a batch, the list would be right."""
    if len(dims) != len(want) + 1 or dims[0] not in (-1, 1, most):
        return False
    return all(_fits(have, axis, role) for have, axis in zip(dims[1:], want, strict=True))


def _without_first(model: ModelView, path: str) -> tuple[Edit, ...]:
    """The edit that takes the first number of a bracketed list out."""
    first, second = model.source.place(f"{path}[0]"), model.source.place(f"{path}[1]")
    if first is None or second is None or not first.listed or not second.listed:
        return ()
    return (Edit(first.value_start, second.value_start, ""),)
