"""A learner's answer as a check meets it: perhaps untouched, perhaps a function that fails or never ends."""

from __future__ import annotations

import contextlib
import linecache
import reprlib
import signal
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

_LIBRARY = Path(__file__).parents[1]
_STANDARD = Path(sysconfig.get_path("stdlib"))
_repr = reprlib.Repr()
_repr.maxother, _repr.maxstring = 160, 120
_NUDGE_S = 0.5  # code that caught the first interrupt gets another


class Wrong(Exception):
    """Raised by a check's judge: the answer is not right yet. The frame adds the hint."""

    def __init__(self, yours: object, expected: object, note: str = "") -> None:
        super().__init__(note)
        self.yours, self.expected, self.note = yours, expected, note


class Unanswered(Exception):
    """The answer is a function that still returns `...`."""


class TimeUp(BaseException):
    """Raised inside a learner's function that takes too long; no `except Exception` catches it."""


def wrong(yours: object, expected: object, note: str = "") -> Wrong:
    """What a judge raises for an answer that is not right yet.

    Args:
        yours: what the learner's answer is or gives.
        expected: what it should be.
        note: what can be said about this very answer, besides the exercise's hints.
    """
    return Wrong(yours, expected, note)


def unanswered(answer: object) -> bool:
    """Whether there is still a `...` in the answer, or in a list, tuple or dictionary that is the answer."""
    if isinstance(answer, Mapping):
        return any(unanswered(value) for value in answer.values())
    if isinstance(answer, list | tuple):
        return any(unanswered(value) for value in answer)
    return answer is ...


def short(value: object) -> str:
    """A value on one line, for a message."""
    if isinstance(value, Exception):
        text = str(value)
    elif isinstance(value, str) and len(value) <= 60:
        return repr(value)
    elif isinstance(value, str):
        text = value
    elif getattr(value, "shape", ()):
        return f"an array of shape {tuple(value.shape)}"
    else:
        text = _repr.repr(value)
    line = " ".join(text.split())
    return line if len(line) <= 160 else f"{line[:159]}…"


class Guarded:
    """A learner's function: what it raises becomes `Wrong`, and so does an endless loop.

    Args:
        function: the learner's.
        limit_s: for each call.

    Attributes:
        last: what it returned last.
    """

    def __init__(self, function: Callable[..., Any], limit_s: float) -> None:
        self.function = function
        self.limit_s = limit_s
        self.calls = 0
        self.last: Any = function

    def __call__(self, *arguments: Any) -> Any:
        """The learner's answer.

        Raises:
            Unanswered: the very first answer is `...`, or the function is a stub that raises NotImplementedError.
            Wrong: it raised, ran out of time, or gave `...` to a later call.
        """
        self.calls += 1
        called = f"called with ({', '.join(short(value) for value in arguments)})"
        try:
            with time_limit(self.limit_s):
                self.last = self.function(*arguments)
        except NotImplementedError:
            raise Unanswered from None
        except TimeUp as error:
            raise wrong(f"no answer after {self.limit_s:g} s, {called}", "an answer", _where(error)) from None
        except (Exception, SystemExit) as error:
            yours = f"raised {type(error).__name__}: {short(error)}" if str(error) else f"raised {type(error).__name__}"
            raise wrong(f"{yours}, {called}", "an answer", _where(error)) from error
        if unanswered(self.last):
            if self.calls == 1:
                raise Unanswered
            raise wrong(f"…, {called}", "an answer", "your function returns the … of the stub here.")
        return self.last


@contextlib.contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Interrupt the block with `TimeUp` once `limit_s` have passed.

    Only the main thread can be interrupted; elsewhere nothing is limited. A timer that was set before is
    set again afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeUp

    handler = signal.signal(signal.SIGALRM, ring)
    timer = signal.setitimer(signal.ITIMER_REAL, limit_s, _NUDGE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _where(error: BaseException) -> str:
    """The learner's own line that led to the error, as a sentence; empty if none did."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        name = frame.f_code.co_filename
        path = Path(name)
        if name.startswith("<frozen") or path.is_relative_to(_LIBRARY) or path.is_relative_to(_STANDARD):
            continue
        if "site-packages" in path.parts:
            continue
        return f"your line {line}, `{linecache.getline(name, line).strip()}`."
    return ""
