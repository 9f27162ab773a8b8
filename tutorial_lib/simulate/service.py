"""How long a batch takes: the one thing the simulator has to be told about a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tutorial_lib.errors import LoadError
from tutorial_lib.load.checks import number

MOST_MS = 86_400_000.0  # a day


@dataclass(frozen=True)
class Service:
    """A batch takes a fixed time, and more for each request in it.

    Where the fixed part is large, batching pays; where it is small, a batch of ten takes ten times as long
    as one request, and nothing is gained.

    Attributes:
        fixed_ms: once per run of the model.
        per_request_ms: for each request of the batch.
    """

    fixed_ms: float
    per_request_ms: float = 0.0

    def __post_init__(self) -> None:
        for name in ("fixed_ms", "per_request_ms"):
            number(f"service time: {name}", getattr(self, name), high=MOST_MS, open_low=False)
        if not self.fixed_ms + self.per_request_ms:
            raise LoadError("service time: found 0 ms + 0 ms per request, expected one of them above 0.")

    def ms(self, size: int) -> float:
        """How long a batch of `size` requests takes."""
        return self.fixed_ms + self.per_request_ms * size

    def __str__(self) -> str:
        return f"{self.fixed_ms:.3g} ms + {self.per_request_ms:.3g} ms per request"


def service_of(after: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> Service:
    """Fit a model's service time to Triton's statistics by batch size.

    The least squares line through the mean time of each batch size, weighted by how often it ran; with one
    size only, all of it is the fixed part, since nothing says how it would grow.

    Args:
        after: what `Server.statistics()` returns, after a run.
        before: the same from before it, to leave earlier runs out.

    Raises:
        LoadError: the model has not run in between.
    """
    sizes, counts, means = _by_size(after, before)
    if not sizes.size:
        raise LoadError(
            f"model '{after.get('name', '?')}': its statistics tell of no run.", action="Send it requests first."
        )
    if sizes.size == 1:
        return Service(float(means[0]), 0.0)
    # an estimate may fall below 0 where the true value is about 0
    slope, fixed = np.polyfit(sizes, means, 1, w=np.sqrt(counts))
    if slope < 0:
        return Service(float(np.average(means, weights=counts)), 0.0)
    if fixed < 0:
        return Service(0.0, float(np.average(means / sizes, weights=counts * sizes)))
    return Service(float(fixed), float(slope))


def _by_size(after: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Batch sizes, how often each ran, and its mean time in milliseconds (input, inference and output)."""
    parts = ("compute_input", "compute_infer", "compute_output")
    earlier = {entry["batch_size"]: entry for entry in (before or {}).get("batch_stats", [])}
    rows = []
    for entry in after.get("batch_stats", []):
        known = earlier.get(entry["batch_size"])
        runs = entry["compute_infer"]["count"] - (known["compute_infer"]["count"] if known else 0)
        spent_ns = sum(entry[part]["ns"] - (known[part]["ns"] if known else 0) for part in parts)
        if runs > 0:
            rows.append((entry["batch_size"], runs, spent_ns / runs / 1e6))
    table = np.array(rows, float).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]
