"""The sequence batcher's controls and states."""

from __future__ import annotations

from collections.abc import Iterator

from tritonclient.grpc import model_config_pb2
from tritonclient.grpc.model_config_pb2 import ModelSequenceBatching

from tutorial_lib.repository.config_text import shape_text
from tutorial_lib.repository.proto_fields import name_of
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import ModelView, inside, is_file

CORRID = ModelSequenceBatching.Control.CONTROL_SEQUENCE_CORRID
CORRID_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")


@rule(
    "sequence-control",
    severity="error",
    lesson="04#fields-question",
    why="Triton itself fills control tensors in; clients send sequence id, start and end instead.",
)
def sequence_control(model: ModelView) -> Iterator[Problem]:
    batching = model.config.sequence_batching
    inputs = {entry.name: number for number, entry in enumerate(model.config.input)}
    kinds: dict[int, str] = {}
    for number, control in enumerate(batching.control_input):
        at = f"sequence_batching.control_input[{number}]"
        subject = f"control input '{control.name}'"
        if not control.name:
            yield Problem("a control input", "no name", 'name: "START"', "Add the tensor's name.", at=at)
        if control.name in inputs:
            fix = "Delete the entry under input: clients would have to send it."
            yield Problem(
                subject,
                "the same name under input",
                "it as a control only",
                fix,
                at=f"input[{inputs[control.name]}]",
                severity="warning",
            )
        for one in control.control:
            name = name_of(ModelSequenceBatching.Control.Kind, one.kind)
            if one.kind in kinds:
                yield Problem(
                    subject,
                    f"{name}, which {kinds[one.kind]} has already",
                    "each kind once",
                    "Delete one of them.",
                    at=at,
                )
            kinds.setdefault(one.kind, f"'{control.name}'")
            yield from _values(one, name, subject, f"{at}.control")
    slots = batching.direct.minimum_slot_utilization
    if slots < 0 or slots > 1:  # Triton takes nan
        at = "sequence_batching.direct.minimum_slot_utilization"
        yield Problem(
            "", f"minimum_slot_utilization: {slots:g}", "a share from 0 to 1", "Write a share, such as 0.5.", at=at
        )


def _values(one, name: str, subject: str, at: str) -> Iterator[Problem]:
    lists = {kind: list(getattr(one, kind)) for kind in ("int32_false_true", "fp32_false_true", "bool_false_true")}
    given = {kind: values for kind, values in lists.items() if values}
    if one.kind == CORRID:
        found = name_of(model_config_pb2.DataType, one.data_type)
        if given:
            yield Problem(
                subject, f"{next(iter(given))} for {name}", "data_type", "Write data_type: TYPE_UINT64.", at=at
            )
        elif found not in CORRID_TYPES:
            yield Problem(
                subject,
                f"data_type: {found} for {name}",
                f"one of {', '.join(CORRID_TYPES)}",
                "Write data_type: TYPE_UINT64.",
                at=at,
            )
    elif len(given) != 1:
        found = f"{' and '.join(given) or 'no values'} for {name}"
        yield Problem(
            subject,
            found,
            "one of int32_false_true, fp32_false_true, bool_false_true",
            "Write fp32_false_true: [ 0, 1 ].",
            at=at,
        )
    else:
        kind, values = next(iter(given.items()))
        if len(values) != 2:
            right = "[ false, true ]" if kind.startswith("bool") else "[ 0, 1 ]"
            yield Problem(
                subject,
                f"{len(values)} value{'s' * (len(values) != 1)} in {kind}",
                "2: for false and for true",
                f"Write {kind}: {right}.",
                at=at,
            )


@rule(
    "sequence-state",
    severity="error",
    lesson="04#fields-question",
    why="A sequence begins with its initial state; at one that does not fit, Triton 2.51 may end altogether.",
)
def sequence_state(model: ModelView) -> Iterator[Problem]:
    for number, state in enumerate(model.config.sequence_batching.state):
        at = f"sequence_batching.state[{number}]"
        for first in state.initial_state:
            subject = f"initial state '{first.name}' of '{state.input_name}'"
            if first.data_type != state.data_type:
                found, right = (name_of(model_config_pb2.DataType, one.data_type) for one in (first, state))
                fix = f"Write data_type: {right}."
                yield Problem(
                    subject, f"data_type: {found}", f"{right}, as the state has", fix, at=f"{at}.initial_state"
                )
            if len(first.dims) != len(state.dims) or any(
                size != wanted and wanted != -1 for size, wanted in zip(first.dims, state.dims, strict=False)
            ):
                expected = f"{shape_text(state.dims)}, as the state has"
                fix = f"Write dims: {shape_text(state.dims)}."
                yield Problem(subject, f"dims: {shape_text(first.dims)}", expected, fix, at=f"{at}.initial_state")
            kind = first.WhichOneof("state_data")
            name = first.data_file
            if kind is None:
                fix = "Write zero_data: true."
                yield Problem(subject, "no data", "zero_data or data_file", fix, at=f"{at}.initial_state")
            elif kind == "data_file" and not (inside(name) and is_file(model.path / "initial_state" / name)):
                fix = f"Put the file at {model.name}/initial_state/{name}, or write zero_data: true."
                found = f"data_file {name!r}, and no such file"
                yield Problem(subject, found, "raw bytes in initial_state/", fix, at=f"{at}.initial_state")
