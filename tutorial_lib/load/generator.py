"""The generator's process, seen from its owner: start, follow, stop, take what it measured."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tutorial_lib.errors import LoadError
from tutorial_lib.load.child import END_TIMEOUT_S, child_environment
from tutorial_lib.load.engine import Plan
from tutorial_lib.load.samples import Samples
from tutorial_lib.load.target import Prepared
from tutorial_lib.paths import workspace

TYPES = (np.float64, np.float64, np.float64, np.int8, np.int32)
START_TIMEOUT_S = 60.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the generator hands over at the end.

    Attributes:
        samples: every request.
        sending_s: how long it sent.
        ended_early: why it ended by itself before its time.
        messages: text → how often.
        all_busy: requests that had to wait for a free connection, because none more were allowed.
    """

    samples: Samples
    sending_s: float
    ended_early: str
    messages: dict[str, int]
    all_busy: int


class Generator:
    """One run in a process of its own, which ends with this one.

    Args:
        prepared: what to send where.
        plan: when; `times` is sent beside it.
        ahead: connections to open before the start.

    Raises:
        LoadError: another run is going on in this workspace, or nothing listens at the address.
    """

    def __init__(self, prepared: Prepared, plan: Plan, *, ahead: int) -> None:
        self._prepared = prepared
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tutorial_lib.load.worker"],
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            start_new_session=True,  # Ctrl-C reaches the owner, which then says "stop"
        )
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        try:
            self._selector.register(self._process.stdout, selectors.EVENT_READ)
            self._send_job(prepared, plan, ahead)
            self._check_begun(self._line(START_TIMEOUT_S))
        except BaseException:
            self.close()
            raise

    def events(self) -> Iterator[dict[str, Any] | Outcome]:
        """What the generator tells while it runs, and the outcome at last; an empty dict when it told nothing for
        a quarter of a second.

        Raises:
            LoadError: its process ended.
        """
        while True:
            line = self._line(0.25, or_none=True)
            if line and line["event"] == "done":
                yield self._outcome(line)
                return
            yield line or {}

    def stop(self) -> None:
        """End the run early; the outcome comes all the same."""
        with contextlib.suppress(OSError):
            self._process.stdin.write(b"stop\n")

    def close(self) -> None:
        """End the process, however far it is."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # end-of-file ends it
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._selector.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send_job(self, prepared: Prepared, plan: Plan, ahead: int) -> None:
        fields = ("closed", "think_s", "duration_s", "timeout_s", "limit", "give_up_s")
        parts = [*prepared.bodies, plan.times.tobytes()]
        job = {
            "target": {name: getattr(prepared, name) for name in ("kind", "host", "port", "connections")},
            "plan": {name: getattr(plan, name) for name in fields},
            "parts": [len(part) for part in parts],
            "lock": str(workspace().root / "load.lock"),
            "ahead": ahead,
        }
        with contextlib.suppress(BrokenPipeError):  # why it ended is said where its first line is read
            for part in (json.dumps(job).encode() + b"\n", *parts):
                view = memoryview(part)
                while view:
                    view = view[self._process.stdin.write(view) :]

    def _check_begun(self, line: dict[str, Any]) -> None:
        if line["event"] == "busy":
            raise LoadError(
                f"load run: found another one going on in this workspace (process {line['pid'] or 'unknown'}); "
                "each would measure the other.",
                action="Wait until it has ended, or interrupt it.",
            )
        if line["event"] == "refused":
            where = f"{self._prepared.host}:{self._prepared.port}"
            raise LoadError(f"{where}: {line['reason']}.", action="Start the server, or check address and port.")

    def _line(self, timeout_s: float, *, or_none: bool = False) -> dict[str, Any] | None:
        while b"\n" not in self._buffer:
            if not self._selector.select(timeout_s):
                if or_none:
                    return None
                raise LoadError(f"load generator: its process did not begin within {timeout_s:g} s.")
            data = os.read(self._process.stdout.fileno(), 2**20)
            if not data:
                raise self._ended()
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _outcome(self, done: dict[str, Any]) -> Outcome:
        wanted = sum(done["parts"])
        pieces = [self._buffer]
        missing = wanted - len(self._buffer)
        while missing > 0:
            data = os.read(self._process.stdout.fileno(), min(missing, 2**20))
            if not data:
                raise self._ended()
            pieces.append(data)
            missing -= len(data)
        data, at, columns = b"".join(pieces), 0, []
        for size, kind in zip(done["parts"], TYPES, strict=True):
            columns.append(np.frombuffer(data[at : at + size], dtype=kind))
            at += size
        order = np.argsort(columns[0], kind="stable")  # users' pauses end in any order
        samples = Samples(*(column[order] for column in columns))
        return Outcome(samples, done["stopped_s"], done["ended_early"], done["messages"], done["all_busy"])

    def _ended(self) -> LoadError:
        self._process.wait(END_TIMEOUT_S)
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        return LoadError(
            f"load generator: its process ended with status {self._process.returncode}.",
            action="Run it again; if it happens again, the lines below belong into a report.",
            details=said[-2000:],
        )


def times_of(values: np.ndarray) -> array:
    """The same numbers as the engine keeps them."""
    return array("d", np.ascontiguousarray(values, dtype=np.float64).tobytes())
