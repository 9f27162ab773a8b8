"""One notebook of a run, seen from the run: start its child process, follow it, end it in time."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

END_S = 60.0  # for a child told to stop: more than all the graces it grants add up to


@dataclass(frozen=True)
class Outcome:
    """How the execution of one notebook ended.

    Attributes:
        status: "passed", "failed" or "skipped".
        reason: why, unless it passed.
        seconds: from starting the child process to its end.
        cell: the failing cell: number, id, source, and its error and traceback if it raised.
        left: command lines of processes that outlived the notebook and had to be killed.
    """

    status: str
    reason: str
    seconds: float
    cell: Mapping[str, Any] | None = None
    left: tuple[str, ...] = field(default=())


def execute_notebook(
    source: Path,
    output: Path,
    *,
    cwd: Path,
    parameters: Mapping[str, Any],
    environment: Mapping[str, str],
    log: Path,
    timeout_s: float,
    entered: Callable[[int, int], None] = lambda number, total: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Execute a notebook in a child process of its own and wait for its end.

    Args:
        source: the notebook; it is only read.
        output: where the executed copy goes, saved after every cell.
        cwd: the folder the kernel starts in.
        parameters: values for the cell tagged `parameters`.
        environment: the complete environment of the child process and its kernel.
        log: file for everything the child and the kernel write outside of cells.
        timeout_s: deadline for the whole notebook.
        entered: called with cell number and number of cells as each cell starts.
        interrupted: polled; once true, the notebook is ended.
    """
    begun = time.monotonic()
    with log.open("ab") as log_file:
        child = _Child(environment, log_file)
    child.send({"notebook": str(source), "output": str(output), "cwd": str(cwd), "parameters": dict(parameters)})
    stop_at: float | None = None
    while child.is_open:
        for event in child.events(wait_s=0.2):
            if event["event"] == "cell":
                entered(event["number"], event["total"])
        now = time.monotonic()
        if stop_at is None:
            if interrupted():
                child.stop("interrupted")
                stop_at = now + END_S
            elif now - begun > timeout_s:
                child.stop(f"deadline of {timeout_s:g} s passed")
                stop_at = now + END_S
        elif now > stop_at:
            child.kill()
    child.finish()
    outcome = child.outcome or {"status": "failed", "reason": child.epitaph()}
    return Outcome(
        status=outcome["status"],
        reason=outcome["reason"],
        seconds=time.monotonic() - begun,
        cell=outcome.get("cell"),
        left=tuple(outcome.get("left", ())),
    )


class _Child:
    """The child process, its events and the pipe that keeps it alive."""

    def __init__(self, environment: Mapping[str, str], log: Any) -> None:
        self._events, told = os.pipe()
        self._told = told
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tutorial_lib.runner.execute"],  # -P: nothing from the current folder
            stdin=subprocess.PIPE,  # its end tells the child that this process is gone
            stdout=log,
            stderr=log,
            env=dict(environment),
            pass_fds=[told],
            start_new_session=True,  # Ctrl-C in the terminal reaches this process only
        )
        os.close(told)
        self.is_open = True
        self.outcome: dict[str, Any] | None = None
        self._cell: dict[str, Any] | None = None
        self._kernel: psutil.Process | None = None
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._events, selectors.EVENT_READ)

    def send(self, order: dict[str, Any]) -> None:
        self._write(json.dumps({**order, "events": self._told}))

    def stop(self, reason: str) -> None:
        self._write(f"stop: {reason}")

    def _write(self, line: str) -> None:
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return  # it is dead already, which `events` finds out

    def events(self, *, wait_s: float) -> list[dict[str, Any]]:
        """What the child told since the last call; waits a little for something to come."""
        if not self._selector.select(wait_s):
            self.is_open = self.process.poll() is None  # a killed child's kernel may hold the pipe open
            return []
        data = os.read(self._events, 2**16)
        self.is_open = bool(data)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        found = [json.loads(line) for line in lines]
        for event in found:
            if event["event"] == "cell":
                self._cell = event
            elif event["event"] == "kernel":
                with contextlib.suppress(psutil.NoSuchProcess):  # it has ended already
                    self._kernel = psutil.Process(event["pid"])
            elif event["event"] == "outcome":
                self.outcome = event
        return found

    def kill(self) -> None:
        """End a child that does not end by itself, with all that it started."""
        family: list[psutil.Process | subprocess.Popen] = [self.process]
        with contextlib.suppress(psutil.NoSuchProcess):  # events() may have collected it a moment ago
            family = [*psutil.Process(self.process.pid).children(recursive=True), *family]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def finish(self) -> None:
        """Wait for the child's end; a kernel that outlived it goes too."""
        self._selector.close()
        os.close(self._events)
        self.process.stdin.close()
        try:
            self.process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        if self._kernel is not None and self._kernel.is_running():
            try:
                os.killpg(self._kernel.pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def epitaph(self) -> str:
        """Why there is no outcome: the child was killed, by whatever means."""
        where = f" in cell {self._cell['number']}: {self._cell['source']}" if self._cell else ""
        code = self.process.returncode
        what = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
        return f"the notebook's process ended with {what}{where}"
