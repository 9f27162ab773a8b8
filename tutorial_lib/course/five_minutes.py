"""The report of the five-minute test with 300 users: kept by a full run of notebook 10, read by every run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tutorial_lib.errors import NotebookError
from tutorial_lib.load import LoadResult
from tutorial_lib.load.samples import ERROR, TIMEOUT
from tutorial_lib.paths import NOTEBOOKS, Workspace, atomic_write

NAME = "300_users.json"
FULL_S = 295.0  # a shorter run is no five-minute test
_NUMBERS = ("throughput_rps", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")


def summary_of(result: LoadResult, *, load_average: float) -> dict[str, Any]:
    """What is kept of a run: its numbers, counts and resources, without the single requests.

    Args:
        result: of the run.
        load_average: the machine's during the run: what else wanted its cores.
    """
    used = result.resources()
    return {
        "started_at": result.started_at,
        "label": result.label,
        "target": result.target,
        "plan": result.plan,
        "duration_s": round(result.duration_s, 1),
        "sent": int(len(result.samples) - result.unsent),
        **{name: round(float(getattr(result, name)), 2) for name in _NUMBERS},
        "p95_interval_ms": [round(float(value), 2) for value in result.interval("p95_ms")],
        "errors": result.samples.count(ERROR),
        "timeouts": result.samples.count(TIMEOUT),
        "lost": result.lost,
        "unsent": result.unsent,
        "steady": result.steady,
        "notes": result.notes,
        "load_average": load_average,
        "resources": {
            name: {
                "cpu_percent_mean": round(float(rows["cpu_percent"].mean()), 1),
                "rss_mib_first": round(float(rows["rss_mib"].iloc[0]), 1),
                "rss_mib_last": round(float(rows["rss_mib"].iloc[-1]), 1),
                "rss_mib_max": round(float(rows["rss_mib"].max()), 1),
            }
            for name, rows in used.groupby("name")
        },
    }


def keep_five_minutes(result: LoadResult, space: Workspace) -> Path:
    """Write the report of a run into the workspace.

    Raises:
        NotebookError: it is no test of five minutes, or nothing was answered.
    """
    if result.duration_s < FULL_S:
        raise NotebookError(
            f"300 users: found a run of {result.duration_s:.0f} s, expected five minutes.",
            action='Set MODE = "full" and run it to its end.',
        )
    if not result.answered:
        raise NotebookError(
            "300 users: found no answer in five minutes, expected some.",
            action="Ask the gateway's /health/ready what is wrong, and run it again.",
        )
    path = space.root / NAME
    kept = summary_of(result, load_average=round(os.getloadavg()[1], 1))  # of the last five minutes
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read_five_minutes(space: Workspace) -> str:
    """The report in words: the one of this workspace, else the one that came with the course."""
    own, ours = space.root / NAME, NOTEBOOKS / NAME
    path = own if own.is_file() else ours
    if not path.is_file():
        return "○ Nobody has run the five-minute test here yet."
    found = json.loads(path.read_text(encoding="utf-8"))
    whose = "your own run" if path == own else "a run that came with the course, from the machine it was built on"
    low, high = found["p95_interval_ms"]
    lines = [
        f"Five minutes, {whose}: {found['started_at']}, {found['label']}",
        f"{found['plan']}, {found['target']}, {found['duration_s']:.0f} s: {found['sent']:,} requests sent, "
        f"{found['lost']} lost, {found['errors']} errors, {found['timeouts']} time-outs",
        f"{found['throughput_rps']:.1f} answers/s · p50 {found['p50_ms']:.1f} · p95 {found['p95_ms']:.1f} "
        f"({low:.1f}–{high:.1f}) · p99 {found['p99_ms']:.1f} · longest {found['max_ms']:.0f} ms",
    ]
    for name, used in found["resources"].items():
        lines.append(
            f"{name}: {used['cpu_percent_mean']:.0f} % CPU (100 is one core), memory {used['rss_mib_first']:.0f} MiB "
            f"at the start, {used['rss_mib_last']:.0f} MiB at the end"
        )
    lines.append(f"the machine's load average meanwhile: {found['load_average']:.1f}")
    return "\n".join(lines + [f"! {note}" for note in found["notes"]])
