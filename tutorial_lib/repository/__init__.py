"""Model repositories: their layout and their configurations, in Triton's own protobuf."""

from tutorial_lib.repository.config import check_against_onnx, format_config, parse_config, read_config
from tutorial_lib.repository.layout import Model, find_repository, models_of

__all__ = [
    "Model",
    "check_against_onnx",
    "find_repository",
    "format_config",
    "models_of",
    "parse_config",
    "read_config",
]
