"""Saturation: raise the load step by step until the server gives no more, or answers too late."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from tutorial_lib.errors import LoadError
from tutorial_lib.load.arrivals import Arrivals
from tutorial_lib.load.checks import number, whole
from tutorial_lib.load.result import LoadResult, results_table
from tutorial_lib.load.run import run_load
from tutorial_lib.load.samples import OK
from tutorial_lib.load.target import Target

if TYPE_CHECKING:
    import pandas as pd

GAIN = 0.05  # more answers per second than the best so far; less than this is none
STEPS_WITHOUT = 2  # such steps in a row: one may be bad luck
KEPT_UP = 0.95  # of the requests that should have been answered
FAILED_SHARE = 0.01
REFINEMENTS = 3


@dataclass(frozen=True, eq=False)
class Saturation:
    """What a search found.

    Attributes:
        kind: "concurrency" or "rate_hz".
        levels: the load of each step, in the order they were tried.
        results: the run of each step.
        best: the run with the most answers per second among those that are good; the first one if none is.
        best_level: its load.
        good: for each step, whether it kept within the limits.
        why: what ended the search, as a sentence.
        p95_limit_ms: the limit that was asked for; None without.
        ended_early: why the search broke off, a server that went away or an interrupt; "" if it went to its end. The
            steps until then are there.
    """

    kind: str
    levels: tuple[float, ...]
    results: tuple[LoadResult, ...]
    best: LoadResult
    best_level: float
    good: tuple[bool, ...]
    why: str
    p95_limit_ms: float | None = None
    ended_early: str = ""

    @property
    def max_rps(self) -> float:
        """Answers per second of the best step."""
        return self.best.throughput_rps

    @property
    def knee_level(self) -> float:
        """The smallest good load that already gives 95 % of the best: beyond it, requests only wait longer."""
        enough = (1 - GAIN) * self.max_rps
        steps = zip(self.levels, self.results, self.good, strict=True)
        return min(
            level for level, result, good in steps if (good or result is self.best) and result.throughput_rps >= enough
        )

    @property
    def knee(self) -> LoadResult:
        """The run at `knee_level`."""
        return self.results[self.levels.index(self.knee_level)]

    def frame(self) -> pd.DataFrame:
        """One row per step, sorted by load: the load, whether it was good, and `LoadResult.summary`."""
        table = results_table(self.results)
        table.insert(0, "good", list(self.good))
        table.insert(0, self.kind, list(self.levels))
        return table.sort_values(self.kind, ignore_index=True)

    def __str__(self) -> str:
        level = f"{self.best_level:g} {'users' if self.kind == 'concurrency' else 'requests/s'}"
        return (
            f"{self.max_rps:.1f} answers/s with {level}, p95 {self.best.p95_ms:.1f} ms · {self.best.label}\n{self.why}"
        )


def find_saturation(
    target: Target,
    *,
    arrivals: Callable[[float], Arrivals] | None = None,
    p95_limit_ms: float | None = None,
    start: float | None = None,
    growth: float | None = None,
    most: float | None = None,
    step_s: float = 3.0,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> Saturation:
    """Raise the load until answers per second stop rising, or p95 passes a limit; then look between the last steps.

    A step is not good when nothing was answered in its measured window, when more than 1 % of all its requests
    failed, warm-up included, when p95 passes the limit, or when the generator or the server does not keep up. A step
    that cannot be run, since the server has gone, ends the search with the steps before it.

    Args:
        target: where to.
        arrivals: makes the open-loop pattern of a rate, such as `Poisson` or `Every.hz`; None raises the number of
            closed-loop users instead.
        p95_limit_ms: a step whose p95 is above it is not good.
        start: the first load: 1 user, or 10 requests/s.
        growth: from step to step; 2 for users, 1.5 for rates.
        most: no load above it: 1024 users, or 50,000 requests/s.
        step_s: how long each step sends.
        seed, progress: as in `run_load`.
        options: further arguments of `run_load`.

    Raises:
        LoadError: the arguments are no plan, the first step cannot be run, or it had no answer at all.
    """
    closed = arrivals is None
    search = _Search(target, arrivals, p95_limit_ms, number("step_s", step_s, high=3600), seed, options)
    if p95_limit_ms is not None:
        number("p95_limit_ms", p95_limit_ms)
    level = start if start is not None else (1 if closed else 10.0)
    most = most if most is not None else (1024 if closed else 50_000.0)
    growth = number("growth", growth if growth is not None else (2.0 if closed else 1.5), low=1.0)
    whole("start", level, high=20_000) if closed else number("start", level)
    number("most", most, low=level, open_low=False)
    with tqdm(desc="saturation", bar_format="{desc}: step {n_fmt}{postfix}", disable=not progress) as bar:
        search.bar = bar
        why = ""
        try:
            why = search.raise_load(level, growth, most)
            search.refine()
        except LoadError as error:
            if not search.results or not search.answered:
                raise
            search.ended_early = f"the search broke off after step {len(search.results)}: {error.problem}"
    return search.found("; ".join(part for part in (why, search.ended_early) if part))


class _Search:
    """The steps so far."""

    def __init__(
        self,
        target: Target,
        arrivals: Callable[[float], Arrivals] | None,
        p95_limit_ms: float | None,
        step_s: float,
        seed: int,
        options: dict[str, Any],
    ) -> None:
        self.target, self.arrivals, self.limit_ms, self.step_s = target, arrivals, p95_limit_ms, step_s
        self.seed, self.options = seed, options
        self.levels: list[float] = []
        self.results: list[LoadResult] = []
        self.faults: list[str] = []  # why a step is not good; "" if it is
        self.ended_early = ""
        self.bar: tqdm | None = None

    def step(self, level: float) -> tuple[LoadResult, str]:
        """Run one level."""
        plan = {"concurrency": int(level)} if self.arrivals is None else {"arrivals": self.arrivals(level)}
        options = {"duration_s": self.step_s, "seed": self.seed, "progress": False, **self.options}
        result = run_load(self.target, **plan, **options)
        fault = self._fault(result, level)
        self.levels.append(level)
        self.results.append(result)
        self.faults.append(fault)
        if result.interrupted:
            self.ended_early = f"interrupted at {level:g}"
        elif result.ended_early:
            self.ended_early = f"at {level:g}: {result.ended_early}"
        unit = "users" if self.arrivals is None else "requests/s"
        self.bar.set_postfix_str(
            f"{level:g} {unit}: {result.throughput_rps:.0f} RPS, p95 {result.p95_ms:.1f} ms", refresh=False
        )
        self.bar.update()
        self.bar.refresh()
        return result, fault

    @property
    def answered(self) -> bool:
        """Whether any request of any step was."""
        return any(result.samples.count(OK) for result in self.results)

    def raise_load(self, level: float, growth: float, most: float) -> str:
        """Step up until something ends it; returns what."""
        best, without = 0.0, 0
        while True:
            result, fault = self.step(level)
            if not self.answered:
                reason = next(iter(result.error_messages), "nothing came back")
                raise LoadError(
                    f"{self.target.name}: no answer to {len(result.samples)} requests; {reason}.",
                    action="Send one request by hand first.",
                )
            if self.ended_early:
                return ""
            if fault:
                return f"at {level:g}: {fault}"
            if self.arrivals is None:
                without = without + 1 if result.throughput_rps < best * (1 + GAIN) else 0
                if without >= STEPS_WITHOUT:
                    return f"answers per second stopped rising: {result.throughput_rps:.1f} with {level:g} users"
            best = max(best, result.throughput_rps)
            if level >= most:
                return f"the largest load allowed, {most:g}, was still answered"
            level = min(most, max(level + 1, round(level * growth)) if self.arrivals is None else level * growth)

    def refine(self) -> None:
        """Halve the gap between the largest good load and the smallest one with a fault."""
        if self.ended_early or not self.faults[-1]:
            return
        for _ in range(REFINEMENTS):
            good = [level for level, fault in zip(self.levels, self.faults, strict=True) if not fault]
            bad = min(level for level, fault in zip(self.levels, self.faults, strict=True) if fault)
            low = max((level for level in good if level < bad), default=None)
            if low is None:
                return
            level = math.sqrt(low * bad)
            if self.arrivals is None:
                level = round(level)
            if level in self.levels:
                return
            self.step(level)
            if self.ended_early:
                return

    def found(self, why: str) -> Saturation:
        """The result, best step chosen."""
        good = [not fault for fault in self.faults]
        chosen = [index for index, is_good in enumerate(good) if is_good] or [0]
        best = max(chosen, key=lambda index: self.results[index].throughput_rps)
        kind = "concurrency" if self.arrivals is None else "rate_hz"
        return Saturation(
            *(kind, tuple(self.levels), tuple(self.results), self.results[best], self.levels[best]),
            *(tuple(good), why, self.limit_ms, self.ended_early),
        )

    def _fault(self, result: LoadResult, level: float) -> str:
        """Why this step is not good, or ""."""
        if result.ended_early:
            return result.ended_early
        sent = len(result.samples) - result.unsent
        failed = result.failed + result.cut
        if failed > FAILED_SHARE * sent:
            return f"{failed} of {sent} requests failed"
        if not result.answered:
            return "nothing was answered in the measured window"
        if self.limit_ms is not None and not result.p95_ms <= self.limit_ms:
            return f"p95 of {result.p95_ms:.1f} ms passes the limit of {self.limit_ms:g} ms"
        if result.generator.limited:
            return result.generator.note
        if self.arrivals is not None and result.throughput_rps < KEPT_UP * result.requests / self._window_s(result):
            return f"{result.throughput_rps:.1f} answers/s do not keep up with {level:g} requests/s"
        return ""

    @staticmethod
    def _window_s(result: LoadResult) -> float:
        begin, end = result.window_s
        return max(end - begin, 1e-9)
