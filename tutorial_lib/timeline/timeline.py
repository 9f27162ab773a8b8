"""What became of requests: when each arrived, in which batch it ran, on which instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from tutorial_lib.errors import LoadError


@dataclass(frozen=True)
class Batch:
    """One run of the model.

    Attributes:
        start_s, end_s: when the instance began and ended it, in seconds from the first arrival.
        size: requests in it.
        instance: the row it is drawn in, from 0.
    """

    start_s: float
    end_s: float
    size: int
    instance: int


@dataclass(frozen=True, eq=False)
class Timeline:
    """Requests and batches of a real or a simulated run.

    Attributes:
        arrival_s: float64 (requests,), when each came into the server; ascending; the first is 0.
        batch: int (requests,), the position in `batches` of the one it ran in.
        batches: by their start.
        label: where it comes from, such as "Triton 2.51.0 embedded · CPU ×2" or "simulated".
        overhead_ms: what a caller waits beside that, on the way there and back.
    """

    arrival_s: np.ndarray
    batch: np.ndarray
    batches: tuple[Batch, ...]
    label: str = ""
    overhead_ms: float = 0.0

    def __post_init__(self) -> None:
        if not (len(self.arrival_s) and len(self.arrival_s) == len(self.batch)):
            raise LoadError(
                f"timeline: found {len(self.arrival_s)} arrivals and {len(self.batch)} places in batches, "
                "expected one or more, and as many of each.",
                action="Send some requests first.",
            )

    @cached_property
    def start_s(self) -> np.ndarray:
        """When each request's batch began, float64 (requests,)."""
        return np.array([batch.start_s for batch in self.batches])[self.batch]

    @cached_property
    def end_s(self) -> np.ndarray:
        """When each request's batch ended, float64 (requests,)."""
        return np.array([batch.end_s for batch in self.batches])[self.batch]

    @property
    def queue_ms(self) -> np.ndarray:
        """What each request waited in the server, float64 (requests,)."""
        return 1000 * (self.start_s - self.arrival_s)

    @property
    def latencies_ms(self) -> np.ndarray:
        """What each caller waits, overhead included, float64 (requests,)."""
        return 1000 * (self.end_s - self.arrival_s) + self.overhead_ms

    @property
    def sizes(self) -> np.ndarray:
        """Requests in each batch, int (batches,)."""
        return np.array([batch.size for batch in self.batches])

    @property
    def mean_batch(self) -> float:
        """Requests per run of the model."""
        return len(self.arrival_s) / len(self.batches)

    @property
    def instances(self) -> int:
        return 1 + max(batch.instance for batch in self.batches)

    @property
    def p50_ms(self) -> float:
        return float(np.percentile(self.latencies_ms, 50))

    @property
    def p95_ms(self) -> float:
        return float(np.percentile(self.latencies_ms, 95))

    @property
    def mean_ms(self) -> float:
        return float(self.latencies_ms.mean())

    @property
    def throughput_rps(self) -> float:
        """Answers per second between the first arrival and the last answer."""
        return len(self.arrival_s) / float(self.end_s.max())

    @property
    def busy(self) -> float:
        """The share of the instances' time in which they ran a batch, 0 to 1."""
        return sum(batch.end_s - batch.start_s for batch in self.batches) / (self.instances * float(self.end_s.max()))

    def queued(self, at_s: Sequence[float] | np.ndarray) -> np.ndarray:
        """How many requests waited at these times, int (n,)."""
        at = np.asarray(at_s, float)
        arrived = np.searchsorted(self.arrival_s, at, side="right")
        return arrived - np.searchsorted(np.sort(self.start_s), at, side="right")

    def between(self, begin_s: float, end_s: float) -> Timeline:
        """The requests that arrived in a stretch of time, with the whole batches they ran in; times stay."""
        inside = (self.arrival_s >= begin_s) & (self.arrival_s < end_s)
        kept = np.unique(self.batch[inside])
        return Timeline(
            self.arrival_s[inside],
            np.searchsorted(kept, self.batch[inside]),
            tuple(self.batches[number] for number in kept),
            self.label,
            self.overhead_ms,
        )

    def frame(self) -> pd.DataFrame:
        """One row per request: arrival_s, start_s, end_s, batch, size, instance, queue_ms, latency_ms."""
        of = [self.batches[number] for number in self.batch]
        return pd.DataFrame(
            {
                "arrival_s": self.arrival_s,
                "start_s": self.start_s,
                "end_s": self.end_s,
                "batch": self.batch,
                "size": [batch.size for batch in of],
                "instance": [batch.instance for batch in of],
                "queue_ms": self.queue_ms,
                "latency_ms": self.latencies_ms,
            }
        )

    def summary(self) -> dict[str, float]:
        """The numbers of a table row: requests, runs, mean batch, queue, p50 and p95."""
        return {
            "requests": len(self.arrival_s),
            "runs": len(self.batches),
            "mean_batch": round(self.mean_batch, 2),
            "mean_queue_ms": round(float(self.queue_ms.mean()), 2),
            "p50_ms": round(self.p50_ms, 2),
            "p95_ms": round(self.p95_ms, 2),
        }


def in_lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """For spans by their start, the lowest row in which each does not touch an earlier one."""
    ends: list[float] = []
    rows = []
    for start, end in spans:
        row = next((row for row, before in enumerate(ends) if before <= start), len(ends))
        ends[row : row + 1] = [end]
        rows.append(row)
    return rows
