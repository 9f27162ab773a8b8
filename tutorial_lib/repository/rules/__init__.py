"""The rules, by subject; importing this package fills `RULES`."""

from tutorial_lib.repository.rules import (
    backend,
    batch_tensors,
    batching,
    ensembles,
    graph,
    instances,
    layout,
    model_file,
    parsing,
    python_model,
    python_package,
    sequence,
    tensors,
    torchscript,
    warmup,
)

__all__ = [
    "backend",
    "batch_tensors",
    "batching",
    "ensembles",
    "graph",
    "instances",
    "layout",
    "model_file",
    "parsing",
    "python_model",
    "python_package",
    "sequence",
    "tensors",
    "torchscript",
    "warmup",
]
