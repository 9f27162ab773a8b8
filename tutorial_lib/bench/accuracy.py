"""How often two ONNX files are right, on the digits and on distorted ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tutorial_lib.bench.digits import digits_set, distorted_set
from tutorial_lib.export import open_session

BATCH = 64


def accuracies(paths: dict[str, Path]) -> dict[str, dict[str, float]]:
    """Set → file's name → share of right answers."""
    sets = {"digits": digits_set(), "distorted": distorted_set()}
    found: dict[str, dict[str, float]] = {}
    for name, (images, labels) in sets.items():
        found[name] = {file: float((answers(path, images) == labels).mean()) for file, path in paths.items()}
    return found


def answers(path: Path, images: np.ndarray) -> np.ndarray:
    """The class of each picture, int64 (n,)."""
    session = open_session(path)
    name = session.get_inputs()[0].name
    parts = [images[start : start + BATCH] for start in range(0, len(images), BATCH)]
    return np.concatenate([session.run(None, {name: part})[0].argmax(axis=1) for part in parts])
