"""Tensors of a configuration against the ONNX graph, judged as the C++ backend of ONNX Runtime does."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from tritonclient.grpc import model_config_pb2

from tutorial_lib.repository import dims
from tutorial_lib.repository.proto_fields import name_of
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import ModelView

NAMES, DIMS = "04#tensors-question", "04#dims-question"


@rule(
    "unknown-tensor",
    severity="error",
    lesson=NAMES,
    why="A tensor's name is the one that the graph has; nothing translates it.",
)
def unknown_tensor(model: ModelView) -> Iterator[Problem]:
    for graph in model.graphs:
        for role, tensors in (("input", graph.inputs), ("output", graph.outputs)):
            if not tensors:
                continue
            for number, entry in enumerate(getattr(model.config, role)):
                if entry.name in tensors or (role == "input" and entry.name in graph.initializers) or not entry.name:
                    continue
                other = graph.outputs if role == "input" else graph.inputs
                names = ", ".join(tensors)
                near = difflib.get_close_matches(entry.name, list(tensors), n=1, cutoff=0.3) or list(tensors)
                note = (
                    f"It is an {'output' if role == 'input' else 'input'} of the graph." if entry.name in other else ""
                )
                yield Problem(
                    f"{role} '{entry.name}'",
                    "a name that the graph does not have",
                    f"one of its {role}s: {names}",
                    f'Write name: "{near[0]}".' if len(tensors) == 1 or near else f"Write one of {names}.",
                    at=f"{role}[{number}].name",
                    note=note,
                )


@rule(
    "missing-input",
    severity="error",
    lesson=NAMES,
    why="The backend loads a model only when the configuration lists every input of the graph.",
)
def missing_input(model: ModelView) -> Iterator[Problem]:
    listed = {entry.name for entry in model.config.input}
    for graph in model.graphs:
        missing = [tensor for name, tensor in graph.inputs.items() if name not in listed | _controls(model)]
        if listed and missing:
            first = missing[0]
            shape = dims.of_model(first.dims or (), model.batching)
            new = f'{{ name: "{first.name}" data_type: {first.data_type} dims: {dims.text(shape or [1])} }}'
            yield Problem(
                "",
                f"no entry for {', '.join(one.name for one in missing)}",
                "an entry for each input of the graph",
                f"Add to input: {new}",
                at="input[0]",
            )


def _controls(model: ModelView) -> set[str]:
    """Inputs that Triton itself fills in: controls and states of a sequence, batch inputs."""
    batching = model.config.sequence_batching
    names = {control.name for control in batching.control_input} | {state.input_name for state in batching.state}
    return names | {name for one in model.config.batch_input for name in one.target_name}


@rule(
    "initializer-as-input",
    severity="error",
    lesson=NAMES,
    why="Old exporters list weights among the inputs; ONNX Runtime does not count them.",
)
def initializer_as_input(model: ModelView) -> Iterator[Problem]:
    for graph in model.graphs:
        for number, entry in enumerate(model.config.input):
            if entry.name in graph.initializers and entry.name not in graph.inputs:
                yield Problem(
                    f"input '{entry.name}'",
                    "a weight of the graph",
                    f"its inputs only: {', '.join(graph.inputs)}",
                    "Delete the entry.",
                    at=f"input[{number}]",
                )


@rule(
    "wrong-data-type",
    severity="error",
    lesson=NAMES,
    why="The backend compares types before it loads, and clients would send the wrong bytes.",
)
def wrong_data_type(model: ModelView) -> Iterator[Problem]:
    for role, number, entry, tensor in dims.pairs(model):
        found = name_of(model_config_pb2.DataType, entry.data_type)
        if tensor.data_type and entry.data_type and found != tensor.data_type:
            yield Problem(
                f"{role} '{entry.name}'",
                f"data_type: {found}",
                f"{tensor.data_type}, as the ONNX graph has it",
                f"Write data_type: {tensor.data_type}.",
                at=f"{role}[{number}].data_type",
            )


@rule(
    "unsupported-type",
    severity="error",
    lesson=NAMES,
    why="Triton's ONNX Runtime backend serves plain tensors of the types that Triton knows.",
)
def unsupported_type(model: ModelView) -> Iterator[Problem]:
    for graph in model.graphs:
        for role, tensors in (("input", graph.inputs), ("output", graph.outputs)):
            listed = {entry.name for entry in getattr(model.config, role)}
            for name, tensor in tensors.items():
                # an output that no configuration lists does no harm
                if tensor.data_type or (role == "output" and listed and name not in listed):
                    continue
                sequence = "not a tensor" in tensor.kind
                fix = "Export without it" + (
                    ", such as with zipmap=False in skl2onnx." if sequence else ", or cast it in the graph."
                )
                yield Problem(
                    f"{role} '{name}'",
                    f"the type {tensor.kind}",
                    "a tensor type of Triton",
                    fix,
                    file=model.relative(graph.path),
                )


def _shape_rule(name: str, why: str) -> None:
    @rule(name, severity="error", why=why, lesson=DIMS)
    def check(model: ModelView) -> Iterator[Problem]:
        for found, problem in dims.verdicts(model):
            if found == name:
                yield problem


_shape_rule("batch-in-dims", "With max_batch_size above 0 Triton adds the batch axis itself, so dims begin behind it.")
_shape_rule("fixed-batch", "With max_batch_size above 0 the first axis of every tensor has to be open in the graph.")
_shape_rule("unbatched-side-input", "One tensor without a batch axis rules batching out for the whole model.")
_shape_rule(
    "output-narrower",
    "An input may be narrower than the graph, an output may not: it repeats -1 wherever the graph is open.",
)
_shape_rule(
    "rank-needs-reshape", "One number per item has no axis behind the batch; Triton shows it as [1] by a reshape."
)
_shape_rule("tensor-shape", "The backend compares every axis before it loads the model.")


@rule(
    "config-missing",
    severity="info",
    lesson="04#bare-question",
    why="Triton completes what a graph tells; batching and scheduling it has to guess.",
)
def config_missing(model: ModelView) -> Iterator[Problem]:
    if model.text.strip() or not model.graphs or model.graphs[0].header is None:
        return
    tensors = [*model.graphs[0].inputs.values(), *model.graphs[0].outputs.values()]
    batched = all(tensor.dims and tensor.dims[0] == -1 for tensor in tensors)
    guess = "max_batch_size: 4" if batched else "max_batch_size: 0"
    file = model.relative(model.graphs[0].path)
    fix = f"Write one: ./workshop config {model.name}/{file}"
    yield Problem("", "no config.pbtxt", f"that Triton completes it, with {guess}", fix, file="")
