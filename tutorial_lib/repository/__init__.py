"""Model repositories: their layout and their configurations, in Triton's own protobuf."""

from tutorial_lib.repository.add_model import add_model
from tutorial_lib.repository.config import check_against_onnx, format_config, parse_config, read_config
from tutorial_lib.repository.ensemble import Step, add_ensemble, ensemble_config
from tutorial_lib.repository.generate import generate_config
from tutorial_lib.repository.layout import Model, find_repository, models_of
from tutorial_lib.repository.python_model import python_model_config

__all__ = [
    "Model",
    "Step",
    "add_ensemble",
    "add_model",
    "check_against_onnx",
    "ensemble_config",
    "find_repository",
    "format_config",
    "generate_config",
    "models_of",
    "parse_config",
    "python_model_config",
    "read_config",
]
