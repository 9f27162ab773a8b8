"""Which backend runs a model, and whether the server has it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from tutorial_lib.paths import CHECKOUT
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import PLATFORMS, ModelView

LESSON = "04#fields-question"
OWN = CHECKOUT / "tutorial_lib" / "backends"
# what people write → backend
ALIASES = {
    "onnx": "onnxruntime", "ort": "onnxruntime", "onnxruntime_onnx": "onnxruntime", "onnx_runtime": "onnxruntime",
    "trt": "tensorrt", "tensorrt_plan": "tensorrt", "plan": "tensorrt", "torch": "pytorch", "libtorch": "pytorch",
    "pytorch_libtorch": "pytorch", "torchscript": "pytorch", "tf": "tensorflow", "py": "python", "python3": "python",
    "tensorflow_savedmodel": "tensorflow", "tensorflow_graphdef": "tensorflow", "onnxruntime-gpu": "onnxruntime",
}  # fmt: skip
# Source: the backends folder of the tritonserver:24.10-py3 image, as its release notes list them
IMAGE = (
    "onnxruntime",
    "tensorrt",
    "pytorch",
    "tensorflow",
    "openvino",
    "python",
    "dali",
    "fil",
    "identity",
    "repeat",
    "square",
)

AGENTS = ("checksum",)


@lru_cache
def _embedded() -> tuple[str, ...]:
    return ("python", *sorted(path.name for path in OWN.iterdir() if (path / "model.py").is_file()))


@rule(
    "unknown-backend",
    severity="error",
    lesson=LESSON,
    why="`backend` names the library that runs the model; the server has to have it.",
)
def unknown_backend(model: ModelView) -> Iterator[Problem]:
    config = model.config
    if model.parse_error or model.ensemble:
        return
    here = _embedded() if model.repository.tier == "embedded" else IMAGE
    if config.platform and config.platform not in PLATFORMS:
        right = _right(config.platform, IMAGE)
        fix = f'Write backend: "{right}" in place of platform.' if right else "Write backend: in place of platform."
        yield Problem("", f'platform: "{config.platform}"', _listed(PLATFORMS), fix, at="platform")
    elif config.platform and config.backend and PLATFORMS[config.platform] != config.backend:
        pair = f'platform: "{config.platform}" with backend: "{config.backend}"'
        yield Problem("", pair, "a pair that goes together", "Delete the platform line.", at="platform")
    elif not model.backend:
        named = _named_by_file(model)
        fix = f'Write backend: "{named}".' if named else 'Write backend: "…".'
        yield Problem(
            "",
            "nothing that names a backend",
            "backend, or a file such as 1/model.onnx",
            fix,
            at=1 if model.text else 0,
        )
    elif model.backend not in here and not _brings_its_own(model):
        at = "backend" if config.backend else "platform"
        right = _right(model.backend, (*here, *IMAGE))
        tier = model.repository.tier
        elsewhere = model.backend in IMAGE
        note = "The NGC container has it: lint with --tier container." if elsewhere else ""
        fix = (
            f'Write backend: "{right}".' if right and not elsewhere else f"Serve it on a tier that has {model.backend}."
        )
        # somebody may have added a backend to the container
        severity = "" if tier == "embedded" or right else "warning"
        found = f'{at}: "{config.backend or config.platform}"' if config.backend or config.platform else model.backend
        yield Problem(
            "", found, f"a backend of the {tier} tier: {', '.join(here)}", fix, at=at, severity=severity, note=note
        )


@rule(
    "extra-library",
    severity="error",
    lesson=LESSON,
    why="Libraries that a configuration names are loaded with the model; the server has to have them.",
)
def extra_library(model: ModelView) -> Iterator[Problem]:
    config, tier = model.config, model.repository.tier
    agents = AGENTS if tier == "container" else ()
    for number, agent in enumerate(config.model_repository_agents.agents):
        if agent.name not in agents:
            at, found = f"model_repository_agents.agents[{number}]", f'repository agent "{agent.name}"'
            severity = "" if tier == "embedded" else "warning"
            expected = f"an agent of the {tier} tier: {', '.join(agents) or 'it has none'}"
            yield Problem("", found, expected, "Delete it, or serve where it is.", at=at, severity=severity)
    if config.runtime and tier == "embedded" and not model.ensemble:
        usual = "libtriton_python.so" if model.backend == "python" else "model.py"
        there = {name for version in model.read_versions for name in model.files_of(version)} | {*model.listing.files}
        if config.runtime not in (usual, *there):
            found = f'runtime: "{config.runtime}"'
            yield Problem("", found, f"{usual}, or nothing", "Delete the runtime line.", at="runtime")


def _right(word: str, known: tuple[str, ...]) -> str:
    lower = word.lower().strip()
    if lower in known:
        return lower
    close = difflib.get_close_matches(lower, known, n=1, cutoff=0.75)
    return ALIASES.get(lower, close[0] if close else "")


def _named_by_file(model: ModelView) -> str:
    endings = {".onnx": "onnxruntime", ".plan": "tensorrt", ".engine": "tensorrt", ".pt": "pytorch", ".py": "python"}
    for version in model.read_versions:
        for name in model.files_of(version):
            if Path(name).suffix in endings:
                return endings[Path(name).suffix]
    return ""


def _brings_its_own(model: ModelView) -> bool:
    library = f"libtriton_{model.backend}.so"
    there = [model.listing.files, *(model.files_of(version) for version in model.read_versions)]
    return any(library in names for names in there)


def _listed(names: dict[str, str]) -> str:
    return f"one of {', '.join(names)}"
