"""The simulator: arrivals → queue → batches → instances, from event to event."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import numpy as np

from tutorial_lib.errors import LoadError
from tutorial_lib.load.checks import number, whole
from tutorial_lib.simulate.batcher import Batcher, Batching
from tutorial_lib.simulate.service import Service
from tutorial_lib.timeline.timeline import Batch, Timeline

MOST_REQUESTS = 1_000_000
MOST_S = 31_536_000.0  # a year: its nanoseconds are whole numbers to numpy, too
_DONE, _ARRIVAL, _LOOK = range(3)  # in this order at one instant


def simulate(
    batching: Batching,
    service: Service,
    *,
    arrivals_s: Sequence[float] | np.ndarray | None = None,
    callers: int | None = None,
    duration_s: float = 10.0,
    overhead_ms: float = 0.0,
) -> Timeline:
    """What Triton's batcher would do with these requests.

    Either the arrivals are given (open loop), or a number of callers, each of whom sends the next request
    when the answer is there (closed loop).

    Args:
        batching: the configuration.
        service: how long a batch takes.
        arrivals_s: when requests come in, in seconds, ascending.
        callers: callers of a closed loop; they all send at 0.
        duration_s: closed loop: nobody sends after it.
        overhead_ms: what a caller waits beside the server's queue and the model, on every request.

    Returns:
        The timeline; times count from the first arrival.

    Raises:
        LoadError: neither or both of arrivals and callers are given, or a value cannot be.
    """
    if (arrivals_s is None) == (callers is None):
        raise LoadError("simulate: found neither or both of arrivals_s and callers, expected one of them.")
    overhead_ms = number("overhead_ms", overhead_ms, high=1000 * MOST_S, open_low=False)
    if arrivals_s is None:
        return _Run(batching, service, overhead_ms).closed(callers, duration_s)
    return _Run(batching, service, overhead_ms).open(arrivals_s)


class _Run:
    """One simulation: a heap of events in nanoseconds."""

    def __init__(self, batching: Batching, service: Service, overhead_ms: float) -> None:
        self.batching, self.service, self.overhead_ms = batching, service, overhead_ms
        self.batcher = Batcher(batching)
        self.idle = list(range(batching.instances))
        self.events: list[tuple[int, int, int, int]] = []  # nanoseconds, kind, order, argument
        self.order = itertools.count()
        self.arrivals: list[int] = []
        self.batches: list[tuple[int, int, list[int], int]] = []  # start, end, requests, instance
        self.again_until_ns = -1
        self.gap_ns = round(overhead_ms * 1e6)

    def open(self, arrivals_s: Sequence[float] | np.ndarray) -> Timeline:
        try:
            times = np.asarray(arrivals_s, float)
        except (TypeError, ValueError) as error:
            raise LoadError(f"arrivals: found no numbers: {error}.", action="Give seconds, ascending.") from None
        if times.ndim != 1 or not times.size or times.size > MOST_REQUESTS:
            raise LoadError(f"arrivals: found shape {times.shape}, expected 1 to {MOST_REQUESTS:,} times in a row.")
        if not np.isfinite(times).all() or (np.diff(times) < 0).any():
            raise LoadError("arrivals: found times that do not ascend, expected seconds in the order of arrival.")
        number("arrivals: the last, from the first", times[-1] - times[0], high=MOST_S, open_low=False)
        for at_ns in np.rint(1e9 * (times - times[0])).astype(np.int64):
            self._add(int(at_ns), _ARRIVAL)
        return self._through()

    def closed(self, callers: int, duration_s: float) -> Timeline:
        whole("callers", callers, high=MOST_REQUESTS)
        number("duration_s", duration_s, high=MOST_S)
        self.again_until_ns = round(1e9 * duration_s)
        for _ in range(callers):
            self._add(0, _ARRIVAL)
        return self._through()

    def _add(self, at_ns: int, kind: int, argument: int = 0) -> None:
        heapq.heappush(self.events, (at_ns, kind, next(self.order), argument))

    def _through(self) -> Timeline:
        while self.events:
            now = self.events[0][0]
            woken = False
            while self.events and self.events[0][0] == now:  # all of an instant, before anyone acts on it
                _, kind, _, argument = heapq.heappop(self.events)
                woken |= self._happen(kind, argument, now)
            self._act(now, woken)
        return self._timeline()

    def _happen(self, kind: int, argument: int, now: int) -> bool:
        """An event; whether it wakes the batcher."""
        if kind == _DONE:
            _, _, requests, instance = self.batches[argument]
            heapq.heappush(self.idle, instance)
            if now + self.gap_ns < self.again_until_ns:
                for _ in requests:
                    self._add(now + self.gap_ns, _ARRIVAL)
            return False
        if kind == _ARRIVAL:
            if len(self.arrivals) >= MOST_REQUESTS:
                raise LoadError(
                    f"simulate: found more than {MOST_REQUESTS:,} requests.", action="Simulate a shorter time."
                )
            self.arrivals.append(now)
            woken = self.batcher.arrive(len(self.arrivals) - 1, now)
            self._set_alarm(now)
            return woken
        return now == self.batcher.look_at_ns

    def _act(self, now: int, woken: bool) -> None:
        """Idle instances take what is ready, the batcher makes more ready, until nothing moves."""
        while True:
            taken = self._dispatch(now)
            if not (taken or woken):
                return
            woken = self.batcher.look(now)
            self._set_alarm(now)

    def _dispatch(self, now: int) -> bool:
        """Give a batch to an idle instance, if there are both."""
        if not (self.idle and self.batcher.ready):
            return False
        instance = heapq.heappop(self.idle)
        requests = [number for number, _ in self.batcher.take(now)]
        end = now + max(1, round(1e6 * self.service.ms(len(requests))))
        self.batches.append((now, end, requests, instance))
        self._add(end, _DONE, len(self.batches) - 1)
        return True

    def _set_alarm(self, now: int) -> None:
        at = self.batcher.look_at_ns
        if at is not None and at > now:
            self._add(at, _LOOK)

    def _timeline(self) -> Timeline:
        batch_of = np.zeros(len(self.arrivals), int)
        for position, (_, _, requests, _) in enumerate(self.batches):
            batch_of[requests] = position
        return Timeline(
            arrival_s=np.array(self.arrivals) / 1e9,
            batch=batch_of,
            batches=tuple(
                Batch(start / 1e9, end / 1e9, len(requests), instance)
                for start, end, requests, instance in self.batches
            ),
            label="simulated",
            overhead_ms=self.overhead_ms,
        )
