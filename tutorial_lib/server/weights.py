"""Whether a model's weights are there; git holds configurations, the course makes the weights."""

from __future__ import annotations

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
