"""Inputs that Triton makes out of others, and outputs that it cuts apart, for batches of unequal shapes."""

from __future__ import annotations

from collections.abc import Iterator

from tritonclient.grpc import model_config_pb2
from tritonclient.grpc.model_config_pb2 import BatchInput, BatchOutput

from tutorial_lib.repository.proto_fields import name_of
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import ModelView

TYPES = ("TYPE_INT32", "TYPE_FP32")


@rule(
    "batch-input",
    severity="error",
    lesson="04#fields-question",
    why="A batch input is made out of one other input, a batch output follows one; both have to exist.",
)
def batch_input(model: ModelView) -> Iterator[Problem]:
    inputs = [entry.name for entry in model.config.input]
    outputs = [entry.name for entry in model.config.output]
    for number, entry in enumerate(model.config.batch_input):
        at = f"batch_input[{number}]"
        yield from _source("batch_input", name_of(BatchInput.Kind, entry.kind), entry, inputs, at)
        found = name_of(model_config_pb2.DataType, entry.data_type)
        if found not in TYPES:
            words = f"data_type: {found}" if entry.data_type else "no data_type"
            yield Problem("batch_input", words, " or ".join(TYPES), "Write data_type: TYPE_FP32.", at=at)
    for number, entry in enumerate(model.config.batch_output):
        at = f"batch_output[{number}]"
        yield from _source("batch_output", name_of(BatchOutput.Kind, entry.kind), entry, inputs, at)
        for target in entry.target_name:
            if target not in outputs:
                expected = f"one of {', '.join(outputs)}"
                yield Problem("batch_output", f'target_name: "{target}"', expected, "Correct the name.", at=at)


def _source(subject: str, kind: str, entry, inputs: list[str], at: str) -> Iterator[Problem]:
    if len(entry.source_input) != 1:
        found = f"{len(entry.source_input)} source_input for {kind}"
        yield Problem(subject, found, "one", "Name one input as source_input.", at=at)
    for source in entry.source_input:
        if source not in inputs:
            expected = f"one of {', '.join(sorted(inputs))}"
            found, place = f'source_input: "{source}"', f"{at}.source_input"
            yield Problem(subject, found, expected, "Correct the name.", at=place)
