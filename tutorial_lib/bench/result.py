"""What a bench found: targets, met or missed and by how much, and the measurements behind them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

TIE = 0.15  # two runs on a shared machine differ by this much without a reason


@dataclass(frozen=True)
class Target:
    """One claim.

    Attributes:
        value: what was measured; None when it could not be, with the reason in `note`.
        target: what it is held against.
        met: None when nothing was measured.
        interval: the lowest and highest of the repeats; with 5 of them the true median lies inside with 94 %.
        note: where the time goes, or why there is no value.
    """

    name: str
    value: float | None
    target: float
    met: bool | None
    interval: tuple[float, float] | None = None
    at_most: bool = False
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON; "value", "target" and "met" first."""
        shown = {"name": self.name, "value": self.value, "target": self.target, "met": self.met}
        return (
            shown
            | {"interval": self.interval, "direction": "at most" if self.at_most else "at least"}
            | ({"note": self.note} if self.note else {})
        )

    @property
    def missed_by(self) -> float:
        """How far off a missed target is, as a share of the target; 0 when it is met."""
        if self.met is not False or self.value is None or not self.target:
            return 0.0
        return abs(self.value - self.target) / abs(self.target)


@dataclass(frozen=True)
class Result:
    """The outcome of one bench.

    Attributes:
        raw: every measurement, ready for JSON.
        notes: sentences for a reader: what the numbers say beside the targets.
    """

    targets: list[Target]
    raw: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def met(self) -> bool:
        """Whether no target was missed; what could not be measured does not count."""
        return all(target.met is not False for target in self.targets)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which knows no nan: what was not measured is None."""
        targets = [target.as_dict() for target in self.targets]
        return _without_nan({"targets": targets, "raw": self.raw, "notes": self.notes})


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def at_least(name: str, values: Sequence[float], target: float, *, note: str = "") -> Target:
    """A target for the median of repeats; without values it counts as not measured."""
    return _target(name, values, target, at_most=False, note=note)


def at_most(name: str, values: Sequence[float], target: float, *, note: str = "") -> Target:
    """The same, for what must stay small."""
    return _target(name, values, target, at_most=True, note=note)


def _target(name: str, values: Sequence[float], target: float, *, at_most: bool, note: str) -> Target:
    if not values:
        return Target(name, None, target, None, at_most=at_most, note=note or "not measured")
    middle = statistics.median(values)
    met = not math.isnan(middle) and (middle <= target if at_most else middle >= target)
    return Target(name, middle, target, met, (min(values), max(values)), at_most, note)


def table(result: Result) -> str:
    """The targets as text, a missed one with how much is missing and where the time goes."""
    rows = [("", "target", "asked", "found", "lowest … highest")]
    marks = {True: "✓", False: "✗", None: "○"}
    for target in result.targets:
        sign = "≤" if target.at_most else "≥"
        found = "—" if target.value is None else _number(target.value)
        spread = f"{_number(target.interval[0])} … {_number(target.interval[1])}" if target.interval else ""
        rows.append((marks[target.met], target.name, f"{sign} {_number(target.target)}", found, spread))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for target in result.targets:
        if target.met is False:
            lines.append(f"\n✗ {target.name}: misses {_number(target.target)} by {target.missed_by:.0%}. {target.note}")
        elif target.met is None:
            lines.append(f"\n○ {target.name}: {target.note}")
    return "\n".join([*lines, *(f"\n{note}" for note in result.notes)])


def _number(value: float) -> str:
    if value and abs(value) < 0.01:
        return f"{value:.4f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
