"""Paired measuring: within a round every contestant has its turn, so that a slow minute hits all of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict

from tutorial_lib.bench.contestants import Contestant, DrivenByPerfAnalyzer, Sample

Cell = tuple[str, int]  # contestant's name, concurrency


class Rounds:
    """Samples by contestant and concurrency, one a round.

    Attributes:
        samples: (name, concurrency) → one Sample a round.
    """

    def __init__(self) -> None:
        self.samples: dict[Cell, list[Sample]] = {}

    def run(
        self,
        cells: Sequence[tuple[Contestant | DrivenByPerfAnalyzer, int]],
        *,
        repeats: int,
        seconds: float,
        say: Callable[[str], None],
        title: str,
    ) -> None:
        """Measure every cell once a round; every other round goes backwards, so that no cell always follows another."""
        for number in range(repeats):
            for contestant, concurrency in cells if number % 2 == 0 else reversed(cells):
                sample = contestant.measure(concurrency, seconds=seconds)
                self.samples.setdefault((contestant.name, concurrency), []).append(sample)
            say(f"{title}: round {number + 1} of {repeats}")

    def ratios(self, name: str, other: str, concurrency: int, field: str = "rps") -> list[float]:
        """`name`'s value over `other`'s, round by round; [] when one of them was not measured."""
        ours, theirs = (self.samples.get((who, concurrency), []) for who in (name, other))
        return [getattr(a, field) / getattr(b, field) for a, b in zip(ours, theirs, strict=False)]

    def median(self, name: str, concurrency: int, field: str = "rps") -> float:
        """The median over the rounds."""
        return statistics.median(getattr(sample, field) for sample in self.samples[name, concurrency])

    def raw(self) -> list[dict]:
        """Every sample, for JSON."""
        return [
            {"name": name, "concurrency": concurrency, "rounds": [asdict(sample) for sample in samples]}
            for (name, concurrency), samples in self.samples.items()
        ]

    def lines(self) -> list[str]:
        """A row for each contestant: requests/s (p50 / p95 ms), medians of the rounds."""
        levels = sorted({concurrency for _, concurrency in self.samples})
        names = list(dict.fromkeys(name for name, _ in self.samples))
        rows = [["requests/s (p50 / p95 ms)", *(f"c={level}" for level in levels)]]
        for name in names:
            row = [name]
            for level in levels:
                if (name, level) not in self.samples:
                    row.append("")
                    continue
                rps, p50, p95 = (self.median(name, level, field) for field in ("rps", "p50_ms", "p95_ms"))
                errors = sum(sample.errors for sample in self.samples[name, level])
                row.append(f"{rps:,.0f} ({p50:.1f} / {p95:.1f})" + (f" {errors} errors" if errors else ""))
            rows.append(row)
        widths = [max(len(row[column]) for row in rows) for column in range(len(levels) + 1)]
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
