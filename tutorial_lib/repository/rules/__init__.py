"""The rules, by subject; importing this package fills `RULES`."""

from tutorial_lib.repository.rules import (
    backend,
    batching,
    ensembles,
    graph,
    instances,
    layout,
    model_file,
    parsing,
    python_model,
    sequence,
    tensors,
    torchscript,
    warmup,
)

__all__ = [
    "backend",
    "batching",
    "ensembles",
    "graph",
    "instances",
    "layout",
    "model_file",
    "parsing",
    "python_model",
    "sequence",
    "tensors",
    "torchscript",
    "warmup",
]
