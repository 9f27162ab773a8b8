"""What is looked at beside a load run: Triton's own statistics, and the processes' CPU and memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any, Self

import psutil

from tutorial_lib.errors import LoadError, ServerError
from tutorial_lib.load.shares import ServerShare
from tutorial_lib.load.target import Target
from tutorial_lib.server.control import Control

LAST_LOOKS = 10  # others may be asking the same model
_PARTS = ("queue", "compute_input", "compute_infer", "compute_output")


class ServerCounts:
    """Triton's statistics of the target's model, read again and again.

    Args:
        target: without an `http_url`, or with a server that gives none, nothing is counted.
    """

    def __init__(self, target: Target) -> None:
        self._model = getattr(target, "model", "")
        self._version = getattr(target, "version", "")
        self._control = Control(target.http_url) if self._model and target.http_url else None
        self._seen: list[tuple[float, dict[str, Any]]] = []
        self._failed_s = -math.inf

    def __enter__(self) -> Self:
        self.look(0.0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._control:
            self._control.close()

    def look(self, t_s: float) -> None:
        """Read them; `t_s` seconds after the start of the run."""
        if self._control is None or t_s - self._failed_s < 5.0:  # a server that hangs must not hang the run
            return
        try:
            versions = self._control.statistics(self._model)
            entries = [entry for entry in versions if self._version in ("", entry["version"])]
            self._seen.append((t_s, entries[-1]))
        except (ServerError, LookupError):  # gone, or the model is: the run itself tells
            self._failed_s = t_s

    def last_look(self, t_s: float) -> None:
        """Read them until nothing changes any more: Triton counts a request after it has answered it."""
        earlier = len(self._seen)
        for _ in range(LAST_LOOKS):
            self.look(t_s)
            fresh = self._seen[earlier:]
            if not fresh or (len(fresh) > 1 and fresh[-1][1] == fresh[-2][1]):
                break
        del self._seen[earlier:-1]

    def since(self, begin_s: float) -> ServerShare | None:
        """What was counted from the look nearest to `begin_s` to the last one."""
        if len(self._seen) < 2:
            return None
        _, first = min(self._seen[:-1], key=lambda look: abs(look[0] - begin_s))
        last = self._seen[-1][1]

        def change(*path: str) -> int:
            ends = []
            for entry in (first, last):
                value: Any = entry
                for key in path:
                    value = value.get(key, {}) if isinstance(value, dict) else {}
                ends.append(int(value or 0))
            return ends[1] - ends[0]

        requests = change("inference_stats", "success", "count")
        executions, inferences = change("execution_count"), change("inference_count")
        if requests <= 0 and executions <= 0:
            return None
        times = {
            f"{part}_ms": change("inference_stats", part, "ns") / requests / 1e6 if requests else math.nan
            for part in _PARTS
        }
        batch = inferences / executions if executions else math.nan
        failed = change("inference_stats", "fail", "count")
        return ServerShare(requests=requests, failed=failed, executions=executions, mean_batch=batch, **times)


class Usage:
    """CPU and memory of processes and their children.

    Args:
        watched: name → process id.

    Raises:
        LoadError: there is no such process.
    """

    def __init__(self, watched: Mapping[str, int]) -> None:
        self.rows: list[tuple[float, str, float, float]] = []
        self._roots: dict[str, psutil.Process] = {}
        self._before: dict[str, tuple[float, dict[int, float]]] = {}
        for name, pid in watched.items():
            try:
                self._roots[name] = psutil.Process(pid)
            except (psutil.Error, TypeError, ValueError) as error:
                raise LoadError(f"watch '{name}': found no process {pid!r}.", action="Give a process id.") from error

    def look(self, t_s: float) -> None:
        """Note what each used since the last look."""
        for name, root in self._roots.items():
            with contextlib.suppress(psutil.Error):  # it has ended: the run itself tells
                seconds: dict[int, float] = {}
                memory = 0
                for process in (root, *root.children(recursive=True)):
                    with contextlib.suppress(psutil.Error), process.oneshot():
                        times = process.cpu_times()
                        seconds[process.pid] = times.user + times.system
                        memory += process.memory_info().rss
                if name in self._before:
                    past_s, before = self._before[name]
                    used = sum(value - before.get(pid, 0.0) for pid, value in seconds.items())
                    self.rows.append((t_s, name, 100 * max(used, 0.0) / max(t_s - past_s, 1e-9), memory / 2**20))
                self._before[name] = (t_s, seconds)
