"""`run_load`: one load run, from the plan to its result."""

from __future__ import annotations

import datetime
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from tqdm.auto import tqdm

from tutorial_lib.errors import LoadError
from tutorial_lib.load.arrivals import MOST_ARRIVALS, Arrivals, Replay, Users
from tutorial_lib.load.checks import number, whole
from tutorial_lib.load.engine import Plan
from tutorial_lib.load.generator import Generator, Outcome, times_of
from tutorial_lib.load.judge import judge_generator, judge_window
from tutorial_lib.load.result import LoadResult
from tutorial_lib.load.target import Target
from tutorial_lib.load.watch import ServerCounts, Usage

DURATION_S = 10.0
TIMEOUT_S = 10.0
GIVE_UP_S = 5.0
LOOK_S = 0.5  # between two looks at the server's statistics and the watched processes


def run_load(
    target: Target,
    *,
    arrivals: Arrivals | None = None,
    users: Users | None = None,
    concurrency: int | None = None,
    duration_s: float | None = None,
    warm_up_s: float | None = None,
    timeout_s: float = TIMEOUT_S,
    limit: int | None = None,
    give_up_s: float | None = GIVE_UP_S,
    seed: int = 0,
    watch: Mapping[str, int] | None = None,
    progress: bool = True,
) -> LoadResult:
    """Send requests by a plan and measure; one of `arrivals`, `users` and `concurrency` says the plan.

    An interrupt (Ctrl-C, or the kernel's) ends the run early; the result then holds what was measured.

    Args:
        target: where to; see `triton_target`, `EndpointTarget`.
        arrivals: open loop: a pattern, which does not wait for the server.
        users: closed loop: users who wait for their answers.
        concurrency: closed loop: so many users who never pause.
        duration_s: how long to send; by default 10 s, or the whole trace of a `Replay`.
        warm_up_s: what to leave out at the beginning; None finds it.
        timeout_s: how long to wait for an answer.
        limit: the most requests.
        give_up_s: end the run when the server has been gone for so long: a request found no connection, none was
            answered since, and another one, so long after it, found none either. None goes on.
        seed: of the arrival times, from 0 on.
        watch: name → process id: CPU and memory of these, with their children, are in `LoadResult.resources()`.
        progress: show a bar with the live rate and p95.

    Raises:
        LoadError: the plan is not one, nothing listens there, or another run is going on.
    """
    chosen = _plan(arrivals, users, concurrency)
    duration_s = _duration(chosen, duration_s)
    if warm_up_s is not None:
        number("warm_up_s", warm_up_s, high=math.nextafter(duration_s, 0), open_low=False)
    closed = isinstance(chosen, Users)
    whole("seed", seed, low=0, high=2**32 - 1)
    times = chosen.starts(seed=seed) if closed else chosen.times(duration_s, seed=seed)
    if not len(times):
        raise LoadError(f"{chosen}: no request in {duration_s:g} s.", action="Give a longer duration or a higher rate.")
    prepared = target.prepare()
    plan = Plan(
        times=times_of(times),
        closed=closed,
        think_s=chosen.think_s if closed else 0.0,
        bodies=len(prepared.bodies),
        duration_s=duration_s,
        timeout_s=number("timeout_s", timeout_s, high=3600),
        limit=whole("limit", MOST_ARRIVALS if limit is None else limit, high=MOST_ARRIVALS),
        give_up_s=0.0 if give_up_s is None else number("give_up_s", give_up_s, high=1e6),
    )
    usage = Usage(watch or {})
    started_at = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    with ServerCounts(target) as counts, Generator(prepared, plan, ahead=chosen.count if closed else 16) as generator:
        followed = _follow(generator, duration_s, counts, usage, bar=progress)
    outcome = followed.outcome
    end_s = min(duration_s, outcome.sending_s)
    window, steady = judge_window(outcome.samples, chosen, end_s, warm_up_s)
    return LoadResult(
        target=target.name,
        plan=str(chosen),
        label=target.label,
        started_at=started_at,
        duration_s=end_s,
        window_s=window,
        steady=steady.steady,
        steady_note=steady.note,
        generator=judge_generator(
            outcome.samples,
            window,
            followed.ticks,
            all_busy=outcome.all_busy,
            whole_run=not (followed.interrupted or outcome.ended_early),
        ),
        samples=outcome.samples,
        server=counts.since(window[0]),
        error_messages=outcome.messages,
        interrupted=followed.interrupted,
        ended_early=outcome.ended_early,
        usage=tuple(usage.rows),
    )


def _plan(arrivals: Arrivals | None, users: Users | None, concurrency: int | None) -> Arrivals | Users:
    given = [plan for plan in (arrivals, users, concurrency) if plan is not None]
    if len(given) != 1:
        raise LoadError(
            f"load plan: found {len(given)} of arrivals, users and concurrency, expected one.",
            action="Give arrivals=Poisson(50), users=Users(300, think_s=1.0) or concurrency=16.",
        )
    if concurrency is not None:
        return Users(whole("concurrency", concurrency, high=20_000))
    if isinstance(users, Users) or (arrivals is not None and isinstance(arrivals, Users)):
        return given[0]
    if users is not None or not (hasattr(arrivals, "times") and hasattr(arrivals, "rate_hz")):
        raise LoadError(
            f"load plan: found {given[0]!r}, expected a pattern such as Poisson(50), or Users(…).",
            action="Give arrivals=Poisson(50) or users=Users(300, think_s=1.0).",
        )
    return arrivals


def _duration(plan: Arrivals | Users, given: float | None) -> float:
    if given is not None:
        return number("duration_s", given, high=86_400)
    return math.nextafter(plan.duration_s, math.inf) if isinstance(plan, Replay) and plan.duration_s else DURATION_S


@dataclass
class _Followed:
    """A run that was followed to its end."""

    outcome: Outcome
    interrupted: bool
    ticks: np.ndarray  # (n, 3): t_s, cpu_s, waited_s


def _follow(generator: Generator, duration_s: float, counts: ServerCounts, usage: Usage, *, bar: bool) -> _Followed:
    ticks: list[tuple[float, float, float]] = []
    began = time.perf_counter()
    looked = -math.inf
    with _interrupts(generator.stop) as interrupted, _Bar(duration_s, shown=bar) as shown:
        for event in generator.events():
            if isinstance(event, Outcome):
                counts.last_look(time.perf_counter() - began)
                return _Followed(event, interrupted(), np.array(ticks).reshape(-1, 3))
            if event:
                ticks.append((event["t_s"], event["cpu_s"], event["waited_s"]))
                shown.update(event)
            if time.perf_counter() - looked >= LOOK_S:
                looked = time.perf_counter()
                counts.look(looked - began)
                usage.look(looked - began)
    raise LoadError("load generator: it ended without a result.")


@contextmanager
def _interrupts(stop: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Inside, a first interrupt calls `stop`; a second one is a KeyboardInterrupt. Asked by calling."""
    seen = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # interrupts come to the main thread only
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)
        stop()

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)


@dataclass
class _Bar:
    """The progress bar: seconds, answers per second and p95 of the last second, failures so far."""

    duration_s: float
    shown: bool
    _last: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])

    def __enter__(self) -> _Bar:
        shape = "{l_bar}{bar}| {n:.0f}/{total:.0f} s{postfix}"
        self._bar = tqdm(total=self.duration_s, desc="load", bar_format=shape, disable=not self.shown)
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def update(self, event: Mapping[str, float]) -> None:
        now, answered = event["t_s"], event["answered"]
        self._last = [*self._last[-4:], (now, answered)]
        past, before = self._last[0]
        rate = (answered - before) / (now - past) if now > past else 0.0
        p95 = f"{event['p95_ms']:.1f} ms" if event["p95_ms"] is not None else "–"
        failed = event["errors"] + event["timeouts"]
        self._bar.set_postfix_str(
            f"{rate:.0f} RPS, p95 {p95}" + (f", {failed} failed" if failed else ""), refresh=False
        )
        self._bar.update(max(0.0, min(now, self.duration_s) - self._bar.n))
        self._bar.refresh()
