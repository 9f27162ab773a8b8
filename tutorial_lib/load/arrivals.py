"""When requests arrive: open-loop patterns, which do not wait for the server, and closed-loop users, who do.

A pattern is a list of intended send times. The generator sends at these times whatever the server does, and
measures latency from them, so that a server that stalls is charged with every request that should have been
sent meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from tutorial_lib.errors import LoadError
from tutorial_lib.load.checks import number, seeded, whole
from tutorial_lib.load.trace import read_trace

MOST_ARRIVALS = 5_000_000  # intended times of one run: 40 MB


class Arrivals(Protocol):
    """An open-loop pattern."""

    @property
    def rate_hz(self) -> float:
        """Requests per second, on average."""

    def times(self, duration_s: float, *, seed: int = 0) -> np.ndarray:
        """Intended send times in seconds from the start: float64 (n,), sorted, below `duration_s`."""


@dataclass(frozen=True)
class Every:
    """One request every `seconds`."""

    seconds: float

    def __post_init__(self) -> None:
        number("Every.seconds", self.seconds, high=3600)

    @classmethod
    def hz(cls, rate_hz: float) -> Every:
        """The same, said as a rate."""
        return cls(1 / number("rate_hz", rate_hz, high=1e6))

    @property
    def rate_hz(self) -> float:
        return 1 / self.seconds

    def times(self, duration_s: float, *, seed: int = 0) -> np.ndarray:
        _check_count(self, duration_s)
        return _below(np.arange(int(np.ceil(duration_s / self.seconds))) * self.seconds, duration_s)

    def __str__(self) -> str:
        return f"one every {self.seconds * 1000:g} ms"


@dataclass(frozen=True)
class Poisson:
    """Independent users: exponential gaps of mean 1/`rate_hz`."""

    rate_hz: float

    def __post_init__(self) -> None:
        number("Poisson.rate_hz", self.rate_hz, high=1e6)

    def times(self, duration_s: float, *, seed: int = 0) -> np.ndarray:
        _check_count(self, duration_s)
        # the number of arrivals is Poisson, and given it they are uniform: the same process, exactly
        random = seeded(seed)
        return np.sort(random.uniform(0, duration_s, random.poisson(self.rate_hz * duration_s)))

    def __str__(self) -> str:
        return f"Poisson, {self.rate_hz:g}/s"


@dataclass(frozen=True)
class Bursts:
    """Several requests at once, again and again.

    Attributes:
        size: requests of a burst, or (fewest, most) for a uniform number.
        every_s: mean time from burst to burst.
        jitter_s: each gap is uniform in `every_s` ± `jitter_s`.
    """

    size: int | tuple[int, int]
    every_s: float
    jitter_s: float = 0.0

    def __post_init__(self) -> None:
        sizes = self.size if isinstance(self.size, Sequence) else (self.size, self.size)
        if len(sizes) != 2:
            raise LoadError(f"Bursts.size: found {self.size!r}, expected a number or (fewest, most).")
        fewest = whole("Bursts.size", sizes[0], high=100_000)
        whole("Bursts.size", sizes[1], low=fewest, high=100_000)
        number("Bursts.every_s", self.every_s, high=3600)
        number("Bursts.jitter_s", self.jitter_s, high=self.every_s, open_low=False)

    @property
    def _range(self) -> tuple[int, int]:
        return tuple(self.size) if isinstance(self.size, Sequence) else (self.size, self.size)

    @property
    def rate_hz(self) -> float:
        return sum(self._range) / 2 / self.every_s

    def times(self, duration_s: float, *, seed: int = 0) -> np.ndarray:
        _check_count(self, duration_s)
        random = seeded(seed)
        starts = [0.0]
        while starts[-1] < duration_s:
            gaps = random.uniform(self.every_s - self.jitter_s, self.every_s + self.jitter_s, 1000)
            starts.extend(starts[-1] + np.cumsum(gaps))
        begins = _below(np.array(starts), duration_s)
        return np.repeat(begins, random.integers(self._range[0], self._range[1] + 1, len(begins)))

    def __str__(self) -> str:
        fewest, most = self._range
        size = f"{fewest}" if fewest == most else f"{fewest}–{most}"
        jitter = f" ± {self.jitter_s * 1000:g}" if self.jitter_s else ""
        return f"{size} at once every {self.every_s * 1000:g}{jitter} ms"


@dataclass(frozen=True)
class Replay:
    """Arrivals as they were recorded.

    Attributes:
        source: a trace file (see `read_trace`) or the arrival times themselves, in seconds.
        speed: 2.0 replays twice as fast.
    """

    source: Path | str | Sequence[float]
    speed: float = 1.0
    recorded_s: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        number("Replay.speed", self.speed, high=1e6)
        object.__setattr__(self, "recorded_s", read_trace(self.source))

    @property
    def duration_s(self) -> float:
        """How long the whole trace takes."""
        return float(self.recorded_s[-1]) / self.speed

    @property
    def rate_hz(self) -> float:
        return len(self.recorded_s) / self.duration_s if self.duration_s else float(len(self.recorded_s))

    def times(self, duration_s: float, *, seed: int = 0) -> np.ndarray:
        return _below(self.recorded_s / self.speed, duration_s)

    def __str__(self) -> str:
        name = Path(self.source).name if isinstance(self.source, str | Path) else "recorded times"
        return f"replay of {name}" + (f" at {self.speed:g}×" if self.speed != 1 else "")


@dataclass(frozen=True)
class Users:
    """Closed loop: each user sends, waits for the answer, thinks, and sends again.

    Attributes:
        count: users at the same time.
        think_s: pause between an answer and the next request. The first requests of users who think are
            spread over one pause, since real users do not start together.
        per_s: users that join per second until there are `count`; None: all are there from the start.
    """

    count: int
    think_s: float = 0.0
    per_s: float | None = None

    def __post_init__(self) -> None:
        whole("Users.count", self.count, high=20_000)
        number("Users.think_s", self.think_s, high=3600, open_low=False)
        if self.per_s is not None:
            number("Users.per_s", self.per_s, high=1e6)

    def starts(self, *, seed: int = 0) -> np.ndarray:
        """When each user sends for the first time: float64 (count,), seconds, sorted."""
        if self.per_s is not None:
            return np.arange(self.count) / self.per_s
        return np.sort(seeded(seed).uniform(0, self.think_s, self.count))

    def __str__(self) -> str:
        who = "1 user" if self.count == 1 else f"{self.count} users"
        joining = f", {self.per_s:g} more each second" if self.per_s is not None else ""
        return who + joining + (f", thinking {self.think_s:g} s" if self.think_s else "")


# Source: the teaching article of the field reports; a model of 20 ms
PATTERNS: dict[str, Arrivals] = {
    "one_at_a_time": Every(0.030),
    "bursts": Bursts(5, every_s=0.030, jitter_s=0.005),
    "fast": Every(0.010),
    "typical": Bursts((1, 20), every_s=0.020, jitter_s=0.010),
}


# Source: the platform team of the field reports; (users, how long in seconds). They think for a second.
USER_TESTS: dict[str, tuple[Users, float]] = {
    "constant": (Users(300, think_s=1.0), 300.0),
    "ramp": (Users(400, think_s=1.0, per_s=1.0), 400.0),
}


def pattern(which: int | str) -> Arrivals:
    """One of the four arrival patterns by its number (1–4) or name.

    Raises:
        LoadError: there is no such pattern.
    """
    names = list(PATTERNS)
    if isinstance(which, int) and not isinstance(which, bool) and 1 <= which <= len(names):
        return PATTERNS[names[which - 1]]
    if which in names:
        return PATTERNS[str(which)]
    known = ", ".join(f"{index} {name}" for index, name in enumerate(names, 1))
    raise LoadError(f"arrival pattern: found {which!r}, expected one of {known}.", action="Name one of these.")


def _check_count(arrivals: Arrivals, duration_s: float) -> None:
    expected = arrivals.rate_hz * duration_s
    if expected > MOST_ARRIVALS:
        raise LoadError(
            f"{arrivals}, for {duration_s:g} s: {expected:,.0f} requests, expected at most {MOST_ARRIVALS:,}.",
            action="Lower the rate or the duration.",
        )


def _below(times: np.ndarray, duration_s: float) -> np.ndarray:
    return times[: int(np.searchsorted(times, duration_s, side="left"))]
