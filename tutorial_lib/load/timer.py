"""A timer that wakes an event loop to the microsecond: asyncio's own rounds up to whole milliseconds."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable

CLOCK_MONOTONIC = 1  # what time.perf_counter() reads on Linux
_ABSOLUTE = 1
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class _Spec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns")]


class Timer:
    """Calls a function at one moment after another.

    Args:
        loop: the running event loop.
        callback: what to call.

    Raises:
        OSError: the kernel gives no timer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._loop, self._callback = loop, callback
        self._handle = self._libc.timerfd_create(CLOCK_MONOTONIC, _FLAGS)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        loop.add_reader(self._handle, self._wake)

    def at(self, moment_s: float) -> None:
        """Call once at `moment_s` on the clock of time.perf_counter(); a time that is past means now."""
        seconds = max(int(moment_s), 0)
        nanoseconds = max(int((moment_s - seconds) * 1e9), 1)  # 0 would disarm
        spec = _Spec(0, 0, seconds, nanoseconds)
        self._libc.timerfd_settime(self._handle, _ABSOLUTE, ctypes.byref(spec), None)

    def close(self) -> None:
        self._loop.remove_reader(self._handle)
        os.close(self._handle)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # set anew since
            os.read(self._handle, 8)
            self._callback()
