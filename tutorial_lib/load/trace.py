"""Trace files: recorded arrival times to replay."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tutorial_lib.errors import LoadError

COLUMNS = ("arrival_s", "intended_s")  # the second: the CSV of a load result replays as it is
MOST_LINES = 5_000_000


def read_trace(source: Path | str | Sequence[float]) -> np.ndarray:
    """Arrival times in seconds, moved so that the first is 0: float64 (n,), sorted.

    Args:
        source: the times themselves, or a CSV file with a column `arrival_s` (or `intended_s`); a file of one
            number a line needs no heading. Lines that start with "#" are skipped.

    Raises:
        LoadError: the file cannot be read, a line has no number, or a time is earlier than the one before.
    """
    if isinstance(source, str | Path):
        times, lines, what = *_read_file(Path(source)), f"trace {source}"
    else:
        what = "arrival times"
        try:
            times = np.asarray(source, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise LoadError(f"{what}: {error}.", action="Give a list of seconds.") from error
        lines = np.arange(times.size)
    if times.ndim != 1 or not times.size:
        raise LoadError(f"{what}: found no arrival times, expected at least one.", action="Give seconds, one a line.")
    bad = np.flatnonzero(~np.isfinite(times) | np.r_[False, np.diff(times) < 0])
    if bad.size:
        first = int(bad[0])
        raise LoadError(
            f"{what}, line {int(lines[first])}: found {times[first]:g}, expected a time in seconds that is not before "
            "the one above it.",
            action="Sort the trace by time.",
        )
    return times - times[0]


def _read_file(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The times of a file, and the number of the line each stands on."""
    times: list[float] = []
    lines: list[int] = []
    column: int | None = None
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row or not "".join(row).strip() or row[0].startswith("#"):
                    continue
                if column is None:
                    column, is_heading = _column(row, path, number)
                    if is_heading:
                        continue
                times.append(_seconds(row, column, path, number))
                lines.append(number)
                if len(times) > MOST_LINES:
                    raise LoadError(f"trace {path}: more than {MOST_LINES:,} arrivals.", action="Cut the trace.")
    except OSError as error:
        raise LoadError(f"trace {path}: {error.strerror}.", action="Name a CSV file that can be read.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise LoadError(f"trace {path}: it is not a CSV text: {error}.", action="Write it as CSV in UTF-8.") from error
    return np.array(times), np.array(lines)


def _column(row: list[str], path: Path, number: int) -> tuple[int, bool]:
    """Which column holds the times, and whether this row is the heading that says so."""
    names = [cell.strip() for cell in row]
    for name in COLUMNS:
        if name in names:
            return names.index(name), True
    if len(names) == 1 and _is_number(names[0]):
        return 0, False
    raise LoadError(
        f"trace {path}, line {number}: found the columns {', '.join(names)[:200]}, expected one named {COLUMNS[0]}.",
        action="Name the column of the arrival times so, or write one number a line.",
    )


def _seconds(row: list[str], column: int, path: Path, number: int) -> float:
    cell = row[column].strip() if column < len(row) else ""
    if not _is_number(cell):
        raise LoadError(
            f"trace {path}, line {number}: found {cell[:60]!r}, expected a time in seconds.", action="Mend that line."
        )
    return float(cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
