"""Instance groups against the hardware."""

from __future__ import annotations

from collections.abc import Iterator

from tritonclient.grpc.model_config_pb2 import ModelInstanceGroup

from tutorial_lib.repository.proto_fields import name_of
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.rules.layout import PLAIN, runs_in_stub
from tutorial_lib.repository.view import ModelView

LESSON = "04#fields-question"


@rule(
    "instance-group",
    severity="error",
    lesson=LESSON,
    why="Triton makes the instances before it loads the model, on the devices that are really there.",
)
def instance_group(model: ModelView) -> Iterator[Problem]:
    gpus = 0 if model.repository.tier == "embedded" else model.repository.gpus
    for number, group in enumerate(model.config.instance_group):
        at, kind = f"instance_group[{number}]", name_of(ModelInstanceGroup.Kind, group.kind)
        ids = list(group.gpus)
        if model.ensemble:
            return  # has a rule of its own
        if group.kind == ModelInstanceGroup.KIND_GPU and not gpus and not ids:
            yield Problem(
                "",
                f"kind: {kind} and no GPU",
                "KIND_AUTO or KIND_CPU",
                "Write kind: KIND_AUTO, which takes what is there.",
                at=f"{at}.kind",
                note="If the server has some, lint with --gpus." if model.repository.tier == "container" else "",
            )
        elif ids and (
            group.kind in (ModelInstanceGroup.KIND_CPU, ModelInstanceGroup.KIND_MODEL)
            or (group.kind == ModelInstanceGroup.KIND_AUTO and not gpus)
        ):
            on = "" if gpus else ", which is the CPU where there is no GPU" if kind == "KIND_AUTO" else ""
            yield Problem(
                "", f"kind: {kind}{on}, with gpus: {ids}", "no gpus on a CPU", "Delete gpus.", at=f"{at}.gpus"
            )
        elif any(one >= gpus or one < 0 for one in ids):
            there = f"0 to {gpus - 1}" if gpus else "no gpus: this server has none"
            yield Problem("", f"gpus: {ids}", there, "Delete gpus to use all that are there.", at=f"{at}.gpus")
        if group.name and not PLAIN.fullmatch(group.name) and runs_in_stub(model):
            found, fix = f"name: {group.name!r}", "Write a name of letters, digits, _ and -, or delete it."
            note = "It is one word of the shell command that starts the Python stub."
            yield Problem("", found, "a name without spaces and signs", fix, at=f"{at}.name", note=note)
        if group.profile and model.backend != "tensorrt":
            yield Problem(
                "", f"profile: {list(group.profile)}", "it for TensorRT only", "Delete profile.", at=f"{at}.profile"
            )
        if group.count < 0 or (group.count == 0 and model.source.place(f"{at}.count")):
            yield Problem(
                "",
                f"count: {group.count}",
                "1 or more",
                "Write count: 1.",
                at=f"{at}.count",
                severity="warning",
                note="Triton takes it for 1.",
            )


@rule(
    "instance-count",
    severity="info",
    lesson=LESSON,
    why="Instances beyond the cores take turns on them and only add memory.",
)
def instance_count(model: ModelView) -> Iterator[Problem]:
    if model.repository.tier != "embedded":
        return
    cores = model.repository.cores
    count = sum(max(1, group.count) for group in model.config.instance_group)
    if count > max(cores, 2) and model.backend == "onnxruntime":
        fix = f"Write count: {cores}, and measure."
        yield Problem("", f"{count} instances on {cores} cores", f"at most {cores}", fix, at="instance_group")
