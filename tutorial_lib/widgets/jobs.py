"""Work that a click starts: off the kernel's main thread, one job after the other."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable


class Jobs:
    """A queue with one worker thread, which lives only while there is work.

    Args:
        failed: called with whatever a job raises; nothing raised here is lost.
        changed: called with True before the first job of a row and with False after the last.
    """

    def __init__(
        self, *, failed: Callable[[Exception], None], changed: Callable[[bool], None] = lambda busy: None
    ) -> None:
        self._failed, self._changed = failed, changed
        self._waiting: deque[Callable[[], None]] = deque()
        self._condition = threading.Condition()
        self._working = False

    def submit(self, job: Callable[[], None], *, instead: bool = False) -> None:
        """Do this soon.

        Args:
            job: what to do.
            instead: drop jobs that wait and have not begun; for "show the newest" work.
        """
        with self._condition:
            if instead:
                self._waiting.clear()
            self._waiting.append(job)
            if self._working:
                return
            self._working = True
        threading.Thread(target=self._work, daemon=True, name="workshop-panel-job").start()

    def join(self, timeout_s: float = 30.0) -> bool:
        """Wait until all is done; False when it is not by then."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._working, timeout_s)

    def _work(self) -> None:
        self._attempt(lambda: self._changed(True))
        while True:
            with self._condition:
                job = self._waiting.popleft() if self._waiting else None
            if job is not None:
                self._attempt(job)
                continue
            self._attempt(lambda: self._changed(False))
            with self._condition:
                if not self._waiting:
                    self._working = False
                    self._condition.notify_all()
                    return
            self._attempt(lambda: self._changed(True))

    def _attempt(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:
            self._failed(error)


class Ticker:
    """Calls something again and again from a thread of its own, until stopped or the process ends.

    Args:
        action: what to call; it must deal with its own errors.
        period_s: the pause between calls; a slow call is not hurried.
    """

    def __init__(self, action: Callable[[], None], *, period_s: float) -> None:
        self._action, self._period_s = action, period_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="workshop-panel-refresh")
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self, *, timeout_s: float = 10.0) -> None:
        """No call begins after this returns, unless one hangs longer than the time-out."""
        self._ended.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._ended.is_set():
            begun = time.monotonic()
            self._action()
            # what costs much is done more rarely: a refresh never takes more than a third of a core
            self._ended.wait(max(self._period_s, 2 * (time.monotonic() - begun)))
