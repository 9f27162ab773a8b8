"""A timeline of real requests, from Triton's trace extension.

The server has to be started with a place for the trace, `serve(extra_arguments=trace_arguments())`; nothing is
traced until `traced()` turns it on, for one model and so many requests at most.
Source: https://github.com/triton-inference-server/server, docs/user_guide/trace.md and
docs/protocol/extension_trace.md.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tutorial_lib.errors import ServerError
from tutorial_lib.paths import workspace
from tutorial_lib.server import Server
from tutorial_lib.timeline.timeline import Batch, Timeline, in_lanes

MOST_REQUESTS = 20_000  # about 1 KiB of trace each
WRITTEN_S = 5.0  # the server writes what is left once the last traced answer has gone
_BACK = dict.fromkeys(("trace_level", "trace_rate", "trace_count", "log_frequency"))


@dataclass
class Trace:
    """What was traced, once the block of `traced()` has ended.

    Attributes:
        requests: requests of the model with all they met in the server.
        unfinished: how many were refused, failed, or answered from the cache: they never met the model.
        label: the server's.
    """

    label: str
    requests: list[Mapping[str, int]] = field(default_factory=list)
    unfinished: int = 0

    @property
    def timeline(self) -> Timeline:
        """The requests that reached the model.

        Raises:
            LoadError: there is none.
        """
        return timeline_of(self.requests, label=self.label)


def trace_arguments() -> tuple[str, ...]:
    """Flags for `serve(extra_arguments=…)`: where a trace may be written, and that none is yet.

    The files are this Python process's own; those that an ended one left are removed.
    """
    folder = workspace().cache / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json*"):
        owner = path.name.partition(".")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            path.unlink(missing_ok=True)
    return (f"--trace-config=triton,file={folder / f'{os.getpid()}.json'}", "--trace-config=level=OFF")


@contextmanager
def traced(server: Server, model: str, *, limit: int = 2000) -> Iterator[Trace]:
    """Trace a model's requests while the block runs; the trace is read when it has ended.

    Args:
        server: a server on this machine that was started with `trace_arguments()`.
        model: its name.
        limit: most requests to trace; later ones are answered as ever, and not traced.

    Raises:
        ServerError: the server has no trace file, or its file is not on this machine.
        ValueError: the limit is out of range.
    """
    if not 1 <= limit <= MOST_REQUESTS:
        raise ValueError(f"limit: found {limit}, expected 1 to {MOST_REQUESTS:,}.")
    path = _trace_file(server)
    for old in _parts(path):
        old.unlink(missing_ok=True)
    before = _answered(server, model)
    server.control.set_trace(
        model,
        {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": str(limit), "log_frequency": str(limit)},
    )
    trace = Trace(server.label)
    try:
        yield trace
    finally:
        # first off, which writes what there is, then back: a change that is none would write nothing
        server.control.set_trace(model, {"trace_level": ["OFF"]})
        server.control.set_trace(model, _BACK)
        events = _read(path, model, min(limit, _answered(server, model) - before))
        trace.requests = [found for found in events if {"COMPUTE_START", "COMPUTE_END"} <= found.keys()]
        trace.unfinished = len(events) - len(trace.requests)
        for part in _parts(path):
            part.unlink(missing_ok=True)


def timeline_of(requests: Iterable[Mapping[str, int]], *, label: str = "") -> Timeline:
    """Requests with Triton's time stamps as a timeline; those that began together are one batch.

    Args:
        requests: event → nanoseconds, REQUEST_START, COMPUTE_START and COMPUTE_END among them.
        label: where they come from.

    Raises:
        LoadError: there is no request.
    """
    found = sorted(requests, key=lambda events: events["REQUEST_START"])
    first = found[0]["REQUEST_START"] if found else 0
    runs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, events in enumerate(found):
        runs[events["COMPUTE_START"], events["COMPUTE_END"]].append(number)
    spans = sorted(runs)
    rows = in_lanes(spans)
    batch_of = np.zeros(len(found), int)
    batches = []
    for number, (span, row) in enumerate(zip(spans, rows, strict=True)):
        batch_of[runs[span]] = number
        start_s, end_s = ((stamp - first) / 1e9 for stamp in span)
        batches.append(Batch(start_s, end_s, len(runs[span]), row))
    arrivals = np.array([events["REQUEST_START"] - first for events in found], float) / 1e9
    return Timeline(arrivals, batch_of, tuple(batches), label)


def _trace_file(server: Server) -> Path:
    told = server.control.trace_settings().get("trace_file", "")
    if not told:
        raise ServerError(
            f"{server.label}: it was started without a place for a trace.",
            action="Start it with serve(…, extra_arguments=trace_arguments()).",
        )
    path = Path(told)
    if server.process is None or not path.parent.is_dir():
        raise ServerError(
            f"{server.label}: it writes its trace to {told}, which cannot be read from here.",
            action="Take a server that runs on this machine, started by serve().",
        )
    return path


def _parts(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}*"))


def _answered(server: Server, model: str) -> int:
    counts = server.statistics(model)["inference_stats"]
    return counts["success"]["count"] + counts["fail"]["count"]


def _read(path: Path, model: str, expected: int) -> list[dict[str, int]]:
    """The requests in the trace, waiting a little for those whose answers are just on their way."""
    deadline, pause = time.monotonic() + WRITTEN_S, threading.Event()
    while True:
        found = [events for part in _parts(path) for events in _parse(part, model)]
        if len(found) >= expected or time.monotonic() > deadline:
            return found
        pause.wait(0.02)


def _parse(path: Path, model: str) -> list[dict[str, int]]:
    """One file: request → event → nanoseconds; [] while it is being written."""
    try:
        entries: list[dict[str, Any]] = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    events: dict[int, dict[str, int]] = {}
    for entry in entries:
        if entry.get("model_name") == model:
            events.setdefault(entry["id"], {})
    for entry in entries:
        for stamp in entry.get("timestamps", ()):
            if entry["id"] in events:
                events[entry["id"]][stamp["name"]] = stamp["ns"]
    return [found for found in events.values() if "REQUEST_START" in found]
