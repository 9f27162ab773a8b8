"""Ensembles: the ensemble itself, and the models its steps name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from tutorial_lib.repository import chain, syntax
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import ModelView

LESSON = "04#labs-question"
# faults of a step that show only when it is asked: the ensemble loads
AT_REQUEST = {"no-return", "python-input", "python-output"}


@rule(
    "ensemble-scheduling",
    severity="error",
    lesson=LESSON,
    why="An ensemble runs nothing itself: instances, batching and warm-up belong to its steps.",
)
def ensemble_scheduling(model: ModelView) -> Iterator[Problem]:
    found = syntax.diagnose(model)
    if found is not None and found.rule == "ensemble-scheduling":
        yield found.problem
    config = model.config
    if model.parse_error or not model.ensemble:
        return
    steps = config.ensemble_scheduling.step
    names = ", ".join(dict.fromkeys(step.model_name for step in steps)) or "its steps"
    if not config.HasField("ensemble_scheduling"):
        scheduler = config.WhichOneof("scheduling_choice")
        found_words = f'platform: "ensemble" and {scheduler or "no ensemble_scheduling"}'
        yield Problem(
            "",
            found_words,
            "ensemble_scheduling { step [ … ] }",
            "Add ensemble_scheduling with its steps.",
            at=scheduler or "platform",
        )
    elif not steps:
        yield Problem("", "no step", "one step at least", "Add step [ { model_name: … } ].", at="ensemble_scheduling")
    if config.platform != "ensemble":
        found_words = f'platform: "{config.platform}"' if config.platform else "ensemble_scheduling and no platform"
        yield Problem(
            "",
            found_words,
            'platform: "ensemble"',
            'Write platform: "ensemble".',
            at="platform" if config.platform else "ensemble_scheduling",
        )
    if config.backend:
        yield Problem("", f'backend: "{config.backend}"', "no backend", "Delete the backend line.", at="backend")
    fields = (("instance_group", config.instance_group), ("model_warmup", config.model_warmup))
    for name, value in fields:
        if value:
            yield Problem(
                "", name, f"it on a step: {names}", f"Move {name} into the configuration of {names}.", at=name
            )
    if config.HasField("optimization"):
        yield Problem("", "optimization", f"it on a step: {names}", "Delete optimization here.", at="optimization")


@rule(
    "ensemble-model-missing",
    severity="error",
    lesson=LESSON,
    why="Triton loads an ensemble after its steps, and not at all when one is missing.",
)
def ensemble_model_missing(model: ModelView) -> Iterator[Problem]:
    models = model.repository.models
    for number, step in enumerate(model.config.ensemble_scheduling.step):
        at = f"ensemble_scheduling.step[{number}]"
        subject = f"step {number + 1}"
        if not step.model_name:
            yield Problem(subject, "no model_name", 'model_name: "…"', "Add the model's name.", at=at)
        elif step.model_name not in models:
            close = difflib.get_close_matches(step.model_name, [name for name in models if name != model.name], n=1)
            fix = (
                f'Write model_name: "{close[0]}".'
                if close
                else f"Add the model {step.model_name}, or correct the name."
            )
            expected = (
                close[0]
                if close
                else f"one of {', '.join(name for name in models if name != model.name) or 'the models here'}"
            )
            yield Problem(
                subject, f'model_name: "{step.model_name}", and no such folder', expected, fix, at=f"{at}.model_name"
            )
        elif step.model_version != -1 and step.model_version not in (served := models[step.model_name].served):
            there = ", ".join(map(str, served)) or "none"
            missing = "no model_version, which is 0," if step.model_version == 0 else ""
            fix = "Write model_version: -1, which takes the newest."
            yield Problem(
                subject,
                f"{missing or f'model_version: {step.model_version}'} of {step.model_name}",
                f"a served version: {there}",
                fix,
                at=f"{at}.model_version",
            )


@rule("ensemble-cycle", severity="error", lesson=LESSON, why="Triton cannot load a model that waits for itself.")
def ensemble_cycle(model: ModelView) -> Iterator[Problem]:
    loop = chain.model_cycle(model)
    if loop:
        yield Problem(
            "",
            f"steps that lead back: {' → '.join(loop)}",
            "steps without a loop",
            "Take the ensemble itself out of its steps.",
            at="ensemble_scheduling",
        )
    tensors = chain.tensor_cycle(model)
    if tensors:
        found = f"tensors that wait for each other: {' → '.join(tensors)}"
        yield Problem(
            "",
            found,
            "an order in which the steps can run",
            "Feed one of these steps from an input or an earlier step.",
            at="ensemble_scheduling",
        )


@rule(
    "ensemble-map",
    severity="error",
    lesson=LESSON,
    why="In both maps the key is the step's own tensor, the value the ensemble's tensor that joins the steps.",
)
def ensemble_map(model: ModelView) -> Iterator[Problem]:
    yield from chain.map_problems(model)


@rule("ensemble-type", severity="error", lesson=LESSON, why="Triton converts nothing between steps.")
def ensemble_type(model: ModelView) -> Iterator[Problem]:
    yield from chain.type_problems(model)


@rule(
    "ensemble-shape",
    severity="error",
    lesson="04#dims-question",
    why="Triton reshapes nothing between steps; whole shapes are compared, with the batch axis.",
)
def ensemble_shape(model: ModelView) -> Iterator[Problem]:
    yield from chain.shape_problems(model)


@rule(
    "ensemble-batch",
    severity="error",
    lesson=LESSON,
    why="A batch goes through all the steps at once, so each has to take it.",
)
def ensemble_batch(model: ModelView) -> Iterator[Problem]:
    most = model.config.max_batch_size
    steps = list(model.config.ensemble_scheduling.step)
    for number, step in enumerate(steps):
        inner = model.repository.models.get(step.model_name)
        if inner is None or inner.parse_error or not inner.text:
            continue
        limit = inner.config.max_batch_size
        if 0 < limit < most:
            lowest = min(limit, *(chain.limit_of(model, one.model_name) or limit for one in steps))
            found, expected = (
                f"max_batch_size: {most}",
                f"at most {limit}, which step {number + 1} ({inner.name}) takes",
            )
            yield Problem(
                "",
                found,
                expected,
                f"Write max_batch_size: {lowest}, or raise it in {inner.name}.",
                at="max_batch_size",
            )


@rule(
    "ensemble-step-broken",
    severity="error",
    lesson=LESSON,
    why="The ensemble is only the consequence: mend the step, and it loads.",
)
def ensemble_step_broken(model: ModelView) -> Iterator[Problem]:
    for number, name in enumerate(step.model_name for step in model.config.ensemble_scheduling.step):
        inner = model.repository.models.get(name)
        broken = model.repository.errors_of(name) if inner is not None and inner is not model else ()
        if broken:
            found = f"a step that has errors of its own: {', '.join(broken)}"
            severity = "warning" if set(broken) <= AT_REQUEST else "error"
            yield Problem(
                f"step {number + 1} ({name})",
                found,
                "a model that loads and answers",
                f"Mend {name} first.",
                at=f"ensemble_scheduling.step[{number}]",
                severity=severity,
            )
