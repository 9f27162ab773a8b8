"""Examples for the rules about ensembles; their steps are models that load."""

from __future__ import annotations

from pathlib import Path

from tests.server.rule_examples import Example, echo

STEPS = {  # name → (max_batch_size, type in, type out, dims)
    "step": (8, "FP32", "FP32", "[ 4 ]"),
    "step_int": (8, "INT64", "INT64", "[ 4 ]"),
    "step_wide": (8, "FP32", "FP32", "[ 5 ]"),
    "step_small": (2, "FP32", "FP32", "[ 4 ]"),
    "step_broken": (8, "FP32", "FP32", "[ 4 ]"),
}
TENSORS = 'input [ { name: "RAW" data_type: TYPE_FP32 dims: [ 4 ] } ]\noutput [ { name: "END" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'  # noqa: E501


def write_steps(repository: Path) -> None:
    for name, (batch, kind_in, kind_out, dims) in STEPS.items():
        echo(repository / name)
        (repository / name / "config.pbtxt").write_text(
            f'backend: "python"\nmax_batch_size: {batch}\n'
            f'input [ {{ name: "IN" data_type: TYPE_{kind_in} dims: {dims} }} ]\n'
            f'output [ {{ name: "OUT" data_type: TYPE_{kind_out} dims: {dims} }} ]\n'
        )
    (repository / "step_broken" / "1" / "model.py").write_text("class TritonPythonModel\n")


def step(model: str, given: str, made: str, *, more: str = "", version: int = -1) -> str:
    """A step from tensor `given` to tensor `made`."""
    maps = f'input_map {{ key: "IN" value: "{given}" }} output_map {{ key: "OUT" value: "{made}" }}'
    return f'{{ model_name: "{model}" model_version: {version} {maps} {more} }}'


def ensemble(*steps: str, batch: int = 8, more: str = "") -> str:
    return (
        f'platform: "ensemble"\nmax_batch_size: {batch}\n{TENSORS}{more}'
        f"ensemble_scheduling {{\n  step [ {', '.join(steps)} ]\n}}\n"
    )


def nothing(folder: Path) -> None:
    """An ensemble has no file, but needs a version folder."""
    (folder / "1").mkdir(parents=True)


FIRST, SECOND = step("step", "RAW", "mid"), step("step", "mid", "END")
GOOD = ensemble(FIRST, SECOND)


def broken(rule: str, name: str, config: str, says: str, *, mended: str = GOOD) -> Example:
    return Example(rule, f"ensemble_{name}", config, mended, make=nothing, says=says)


ENSEMBLES = (
    broken(
        "ensemble-map",
        "swapped",
        ensemble(FIRST.replace('key: "IN" value: "RAW"', 'key: "RAW" value: "IN"'), SECOND),
        "is not used",
    ),
    broken("ensemble-map", "spelling", ensemble(FIRST, step("step", "middle", "END")), "is not written"),
    broken(
        "ensemble-map",
        "unmapped",
        ensemble(FIRST, SECOND.replace('input_map { key: "IN" value: "mid" } ', "")),
        "must specify 'input_map'",
    ),
    broken(
        "ensemble-map",
        "unknown",
        ensemble(FIRST, SECOND.replace('key: "IN"', 'key: "PIXELS"')),
        "is mapping to non-existing input",
    ),
    broken("ensemble-map", "written_twice", ensemble(FIRST, step("step", "RAW", "mid"), SECOND), "only once"),
    broken("ensemble-map", "dead", ensemble(FIRST, SECOND, step("step", "mid", "unused")), "is unused in ensemble"),
    broken("ensemble-type", "type", ensemble(FIRST, step("step_int", "mid", "END")), "inconsistent data type"),
    broken("ensemble-shape", "shape", ensemble(FIRST, step("step_wide", "mid", "END")), "inconsistent shape"),
    broken(
        "ensemble-batch",
        "batch",
        ensemble(FIRST, step("step_small", "mid", "END")),
        "which only allows maximum batch size",
        mended=ensemble(FIRST, step("step_small", "mid", "END"), batch=2),
    ),
    broken(
        "ensemble-model-missing", "gone", ensemble(FIRST, step("stepp", "mid", "END")), "not available or ambiguous"
    ),
    broken(
        "ensemble-model-missing",
        "version",
        ensemble(FIRST, step("step", "mid", "END", version=7)),
        "whose required version",
    ),
    broken("ensemble-cycle", "itself", ensemble(FIRST, step("NAME", "mid", "END")), "circular dependency"),
    broken("ensemble-scheduling", "dynamic", ensemble(FIRST, SECOND, more="dynamic_batching { }\n"), "text proto"),
    broken(
        "ensemble-scheduling",
        "instances",
        ensemble(FIRST, SECOND, more="instance_group [ { count: 2 } ]\n"),
        "instance group should not be specified",
    ),
    broken("ensemble-scheduling", "backend", ensemble(FIRST, SECOND, more='backend: "python"\n'), "empty backend type"),
    broken(
        "ensemble-scheduling",
        "optimization",
        ensemble(FIRST, SECOND, more="optimization { priority: PRIORITY_MAX }\n"),
        "optimization should not be specified",
    ),
    broken("ensemble-scheduling", "no_steps", ensemble(), "must specify 'step'"),
    broken(
        "ensemble-step-broken",
        "step",
        ensemble(FIRST, step("step_broken", "mid", "END")),
        "depends on 'step_broken' which has no loaded version",
    ),
)
