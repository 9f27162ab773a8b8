"""The report of a run: `report.json`, rewritten after each notebook and valid at any time."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from tutorial_lib.paths import atomic_write
from tutorial_lib.runner.notebook import Outcome

NO_SERVER = "no server"
_PACKAGES = ("torch", "onnx", "onnxruntime", "nvidia-pytriton", "tritonclient", "numpy", "papermill")


@dataclass(frozen=True)
class Entry:
    """One notebook in the report.

    Attributes:
        name: the notebook's file name without suffix.
        status: "passed", "failed" or "skipped".
        reason: why it failed or was skipped.
        seconds: how long it took.
        tier: the server that its numbers come from; "" when it recorded none.
        numbers: what it recorded: name to value, unit and tier.
        skipped_steps: steps it left out, with reasons.
        cell: the failing cell: number, id, source, error, traceback.
        executed: the executed copy, relative to the report.
        html: the same as a page.
        log: what the kernel wrote outside of cells.
        left: processes that outlived the notebook and were killed.
    """

    name: str
    status: str = "skipped"
    reason: str = "not run yet"
    seconds: float = 0.0
    tier: str = ""
    numbers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    skipped_steps: Sequence[Mapping[str, str]] = ()
    cell: Mapping[str, Any] | None = None
    executed: str = ""
    html: str = ""
    log: str = ""
    left: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """A whole run.

    Attributes:
        notebooks: one entry a notebook, in the order they run.
        mode: "quick" or "full".
        seed: the seed passed to every notebook.
        url: the server the notebooks were pointed to; "" means that each started its own.
        started: local time with the offset.
        machine: CPUs, memory, Python and system.
        versions: of the packages that decide results.
        complete: whether every selected notebook had its turn.
    """

    notebooks: tuple[Entry, ...]
    mode: str
    seed: int
    url: str
    started: str
    machine: Mapping[str, Any] = field(default_factory=lambda: machine())
    versions: Mapping[str, str] = field(default_factory=lambda: versions())
    complete: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many notebooks have each status."""
        found = [entry.status for entry in self.notebooks]
        return {status: found.count(status) for status in ("passed", "failed", "skipped")}

    def write(self, path: Path) -> Path:
        """Write the report as JSON; readers see the old or the new one, never a part."""
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")
        return path


def entry(name: str, outcome: Outcome, *, records: Path, files: Mapping[str, str]) -> Entry:
    """The report's entry for a notebook that had its turn.

    Args:
        name: the notebook's name.
        outcome: how its execution ended.
        records: the file it recorded its numbers in; it need not exist.
        files: `executed`, `html` and `log`, as the entry wants them.
    """
    lines, cut = _lines(records)
    numbers = {
        line["name"]: {key: line[key] for key in ("value", "unit", "tier", "note") if key in line}
        for line in lines
        if line["kind"] == "number"
    }
    skipped = [{"step": line["name"], "reason": line["value"]} for line in lines if line["kind"] == "skip"]
    skipped += [{"step": "a record", "reason": f"cut off while it was written: {line[:60]}"} for line in cut]
    return Entry(
        name=name,
        status=outcome.status,
        reason=outcome.reason,
        seconds=round(outcome.seconds, 2),
        tier=_tier([line["tier"] for line in lines]),
        numbers=numbers,
        skipped_steps=skipped,
        cell=outcome.cell,
        left=outcome.left,
        **files,
    )


def _lines(records: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """What was recorded, and the lines that a killed kernel or a full disk cut off."""
    whole, cut = [], []
    for line in records.read_text(errors="replace").split("\n") if records.exists() else ():
        try:
            whole += [json.loads(line)] if line else []
        except ValueError:
            cut.append(line)
    return whole, cut


def _tier(tiers: Sequence[str]) -> str:
    """The first tier with a server, else the first; "" when nothing was recorded that could tell."""
    served = [tier for tier in tiers if not tier.startswith(NO_SERVER)]
    return next(iter([*served, *tiers]), "")


def now() -> str:
    """The local time to the second, with its offset."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def machine() -> dict[str, Any]:
    """What a reader needs to know about the machine to judge the numbers."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "architecture": platform.machine(),
        "memory_mib": memory_bytes // 2**20,
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """The installed versions of the packages that decide results."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
