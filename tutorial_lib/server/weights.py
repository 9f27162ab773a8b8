"""Whether a model's files are there; git holds configurations, the course makes the weights."""

from __future__ import annotations

import os

from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.errors import RepositoryError
from tutorial_lib.paths import REFERENCE_REPOSITORY
from tutorial_lib.repository.config import read_config
from tutorial_lib.repository.layout import Model

# backend or platform in config.pbtxt -> the file Triton looks for in a version folder
# Source: "Model Files" in Triton's model repository documentation.
MODEL_FILES = {
    "onnxruntime": "model.onnx",
    "onnxruntime_onnx": "model.onnx",
    "pytorch": "model.pt",
    "pytorch_libtorch": "model.pt",
    "tensorrt": "model.plan",
    "tensorrt_plan": "model.plan",
}
# the notebook that comes after the one which makes a model's weights
MADE_BEFORE = {"densenet_onnx": "05"}


def require_weights(model: Model) -> None:
    """Refuse a model of the course whose weights have not been made yet.

    Other models are left to Triton's own judgement: an unusual layout is its business.

    Raises:
        RepositoryError: with the `catch_up` call that makes the weights.
    """
    if not (REFERENCE_REPOSITORY / model.name).is_dir() or not model.config.is_file():
        return
    config = read_config(model.config)
    expected = config.default_model_filename or MODEL_FILES.get(config.backend or config.platform, "")
    if expected and not any((model.path / str(version) / expected).exists() for version in model.versions):
        step = MADE_BEFORE.get(model.name)
        made = f'Run: from tutorial_lib import catch_up; catch_up("{step}").' if step else "Make its weights first."
        raise RepositoryError(
            f"model '{model.name}': its weights are not made yet; {model.path} has no version with a {expected}.",
            action=made,
        )


def require_python_file(model: Model) -> None:
    """Refuse a Python model without its file: Triton 2.51 would wait for its stub for ever.

    Raises:
        RepositoryError: with the file that is missing.
    """
    try:
        config = read_config(model.config)
    except RepositoryError:
        return  # none, or one that Triton refuses at once
    if config.backend != "python" or config.platform:
        return
    expected = config.default_model_filename or "model.py"
    for version in served_versions(config, model.versions):
        folder = model.path / str(version)
        if not os.path.isfile(folder / expected):
            there = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
            raise RepositoryError(
                f"model '{model.name}': {folder} has no {expected}, it holds: {there}; Triton would load for ever.",
                action=f"Call the file {expected}, or name it in default_model_filename.",
            )


def served_versions(config: ModelConfig, versions: tuple[int, ...]) -> tuple[int, ...]:
    """The version folders that version_policy serves; the newest one by default."""
    if config.version_policy.HasField("all"):
        return versions
    if config.version_policy.HasField("specific"):
        return tuple(version for version in versions if version in config.version_policy.specific.versions)
    return versions[-(config.version_policy.latest.num_versions or 1) :]
