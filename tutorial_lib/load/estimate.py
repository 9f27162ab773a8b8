"""Intervals for what a run measured, and where its steady part begins.

Latencies that follow each other are alike: a request that waits makes the next one wait. Formulas for
independent numbers would give intervals that are far too narrow, so everything here rests on the means of
contiguous batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

BATCHES = 20
FEWEST = 2 * BATCHES
MOST_CUT = 0.5  # of a run; a run whose start-up takes longer is not steady


def student_t(level: float, freedom: int) -> float:
    """The two-sided quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def batch_means(values: np.ndarray, count: int = BATCHES) -> np.ndarray:
    """Means of `count` contiguous, nearly equal parts: float64 (count,)."""
    edges = np.linspace(0, len(values), count + 1).astype(int)
    return np.add.reduceat(values.astype(np.float64), edges[:-1]) / np.diff(edges)


def mean_interval(values: np.ndarray, level: float) -> tuple[float, float]:
    """Where the true mean is, by batch means; (nan, nan) for fewer than 40 values.

    Source: Law, Simulation Modeling and Analysis, on batch means for one long run.
    """
    if len(values) < FEWEST:
        return math.nan, math.nan
    means = batch_means(values)
    half = student_t(level, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means))
    return float(values.mean() - half), float(values.mean() + half)


def quantile_interval(values: np.ndarray, quantile: float, level: float) -> tuple[float, float]:
    """Where the true quantile is: two order statistics.

    Their ranks come from the error of the share of values below the measured quantile, which batch means
    give for dependent values too; it is never taken smaller than the binomial one. An end that would lie
    beyond the data is nan.

    Args:
        values: in the order of time.
        quantile: between 0 and 1.
    """
    if len(values) < FEWEST:
        return math.nan, math.nan
    below = (values <= np.quantile(values, quantile)).astype(np.float64)
    by_batches = batch_means(below).std(ddof=1) / math.sqrt(BATCHES)
    binomial = math.sqrt(quantile * (1 - quantile) / len(values))
    half = student_t(level, BATCHES - 1) * max(by_batches, binomial)
    ordered = np.sort(values)

    def at(share: float) -> float:
        return float(np.quantile(ordered, share)) if 0 <= share <= 1 else math.nan

    return at(quantile - half), at(quantile + half)


def rate_interval(times_s: np.ndarray, begin_s: float, end_s: float, level: float) -> tuple[float, float]:
    """Where the true rate of events per second is, from counts in equal slices of time."""
    if len(times_s) < FEWEST or end_s <= begin_s:
        return math.nan, math.nan
    counts, _ = np.histogram(times_s, bins=BATCHES, range=(begin_s, end_s))
    rates = counts / ((end_s - begin_s) / BATCHES)
    half = student_t(level, BATCHES - 1) * rates.std(ddof=1) / math.sqrt(BATCHES)
    mean = len(times_s) / (end_s - begin_s)
    return float(mean - half), float(mean + half)


@dataclass(frozen=True)
class Steady:
    """Where a run is steady.

    Attributes:
        begin: index of the first request of the steady part.
        steady: whether there is such a part.
        note: why not.
    """

    begin: int
    steady: bool
    note: str = ""


def find_steady(latencies_ms: np.ndarray) -> Steady:
    """Cut the warm-up, and judge the rest.

    The cut minimizes the standard error of the mean of what is left (MSER-5). The rest is steady if its
    latency does not rise or fall: a line through the batch means has a slope that is neither clear (99 %) nor
    large (a fifth of the mean over the run).

    Args:
        latencies_ms: of answered requests, in the order of their intended times.

    Source: White, An effective truncation heuristic for bias reduction in simulation output, 1997.
    """
    if len(latencies_ms) < FEWEST:
        return Steady(0, False, f"too few answers to judge: {len(latencies_ms)}")
    begin = _mser(latencies_ms)
    settled = begin < int(MOST_CUT * len(latencies_ms)) - 5  # at the end of what is allowed, it has not
    begin = begin if settled else 0
    means = batch_means(latencies_ms[begin:])
    change, clear = _trend(means)
    if clear and abs(change) > 0.2 * means.mean():
        how = "rises: requests come faster than they are answered" if change > 0 else "still falls"
        return Steady(begin, False, f"latency {how}")
    return Steady(begin, settled, "" if settled else "latency does not settle in the first half of the run")


def _mser(values: np.ndarray, width: int = 5) -> int:
    """The index before which to cut, in steps of `width`, at most half the run."""
    groups = values[: len(values) // width * width].reshape(-1, width).mean(axis=1)
    # extreme single latencies must not decide the cut: one stall late in the run is not a warm-up
    groups = np.minimum(groups, np.quantile(groups, 0.99))
    left = np.arange(len(groups), 0, -1)
    sums = np.cumsum(groups[::-1])[::-1]
    squares = np.cumsum((groups**2)[::-1])[::-1]
    error = np.maximum(squares - sums**2 / left, 0) / left**2
    allowed = max(1, int(len(groups) * MOST_CUT))
    return int(np.argmin(error[:allowed])) * width


def _trend(means: np.ndarray) -> tuple[float, bool]:
    """The change of a fitted line over all batches, and whether it is clearly not zero."""
    x = np.arange(len(means)) - (len(means) - 1) / 2
    slope = float(x @ means / (x @ x))
    residuals = means - means.mean() - slope * x
    error = math.sqrt(residuals @ residuals / (len(means) - 2) / (x @ x))
    return slope * (len(means) - 1), abs(slope) > student_t(0.99, len(means) - 2) * error
