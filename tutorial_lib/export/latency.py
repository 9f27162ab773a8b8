"""Timing several engines on the same inputs, fairly: interleaved, warmed up, medians."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

BATCHES = (1, 2, 4, 8, 16, 32)


def latency_table(
    engines: Mapping[str, Callable[[np.ndarray], Any]],
    inputs: np.ndarray,
    *,
    batches: Sequence[int] = BATCHES,
    rounds: int = 30,
    progress: bool = True,
) -> pd.DataFrame:
    """How long one call takes, by engine and batch size.

    The engines take turns within every round, so that a slow second of the machine hits all of them.

    Args:
        engines: name → function of one input array.
        inputs: (n, …), n at least the largest batch; the first images of it make each batch.
        rounds: calls per engine and batch size; two more come before them and are not counted.

    Returns:
        Columns engine, batch, median_ms, p95_ms, images_per_s.

    Raises:
        ValueError: `inputs` has fewer images than the largest batch.
    """
    if len(inputs) < max(batches):
        raise ValueError(f"inputs: found {len(inputs)} images, expected at least {max(batches)}.")
    times: dict[tuple[str, int], list[float]] = {(name, batch): [] for name in engines for batch in batches}
    warm_up = 2
    total = (rounds + warm_up) * len(batches)
    with tqdm(total=total, desc="timing", unit="turn", mininterval=0.5, disable=not progress) as bar:
        for number in range(rounds + warm_up):
            for batch in batches:
                part = inputs[:batch]
                for name, engine in engines.items():
                    started = time.perf_counter()
                    engine(part)
                    if number >= warm_up:
                        times[name, batch].append((time.perf_counter() - started) * 1000)
                bar.update()
    rows = []
    for (name, batch), values in times.items():
        median = float(np.median(values))
        rows.append((name, batch, median, float(np.percentile(values, 95)), batch / median * 1000))
    return pd.DataFrame(rows, columns=["engine", "batch", "median_ms", "p95_ms", "images_per_s"])


def latency_under_callers(call: Callable[[], Any], *, callers: int, calls: int = 200) -> np.ndarray:
    """Latencies that `callers` see who call one after another, all at the same time, each in a thread.

    Args:
        call: what a caller does; must be safe to run in several threads.
        calls: how many calls all callers together make.

    Returns:
        float64 (callers * (calls // callers),): milliseconds from calling to having the answer.
    """

    def caller(_: int) -> list[float]:
        seen = []
        for _ in range(calls // callers):
            started = time.perf_counter()
            call()
            seen.append((time.perf_counter() - started) * 1000)
        return seen

    with ThreadPoolExecutor(max_workers=callers) as pool:
        return np.array([value for part in pool.map(caller, range(callers)) for value in part])
