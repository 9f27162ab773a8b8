"""Sends requests at their times and keeps book of each; runs in the generator's process."""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tutorial_lib.load.samples import CUT, ERROR, LOST, OK, TIMEOUT, UNSENT
from tutorial_lib.load.timer import Timer

TICK_S = 0.02
REPORT_S = 0.25
LATE_S = 0.25  # how long after the end the generator may still send what was due before it
AT_ONCE = 256  # requests sent before answers are looked at again
BACK_OFF_S = (0.02, 1.0)  # a closed-loop user's pause after failures in a row, from … to …
MOST_MESSAGES = 50


class Client(Protocol):
    """Sends one prepared request; every end of it is told to `Engine.done`, never from inside `send`."""

    def send(self, number: int, body: int) -> None:
        """Send body `body` as request `number`; calls `Engine.wrote` when it goes out."""

    def abandon(self, number: int) -> None:
        """Nobody waits for `number` any more."""


@dataclass(frozen=True)
class Plan:
    """What the engine is to do.

    Attributes:
        times: intended times (open loop), or the users' first ones (closed loop).
        closed: whether these are users.
        think_s: the users' pause.
        bodies: how many different requests there are.
        duration_s: how long to send.
        timeout_s: how long to wait for an answer.
        limit: the most requests.
        give_up_s: end when a further request finds no server so long after the first that did; 0 never.
    """

    times: array
    closed: bool
    think_s: float
    bodies: int
    duration_s: float
    timeout_s: float
    limit: int
    give_up_s: float


class Engine:
    """One run.

    Args:
        plan: what to do.
        report: called with a dict about four times a second.
    """

    def __init__(self, plan: Plan, report: Callable[[dict], None]) -> None:
        self.plan, self._report = plan, report
        count = 0 if plan.closed else min(len(plan.times), plan.limit)
        nothing = math.nan
        self.intended = array("d") if plan.closed else plan.times[:count]
        self.sent = array("d", [nothing]) * count
        self.answered = array("d", [nothing]) * count
        self.status = bytearray([UNSENT]) * count
        self.user = array("i") if plan.closed else array("i", [-1]) * count
        self.messages: Counter[str] = Counter()
        self.ended_early = ""
        self.stopped_s = plan.duration_s  # when sending ended
        self._next = 0  # open loop: the next arrival
        self._due: list[tuple[float, int]] = []  # closed loop: (when, user)
        self._failures: dict[int, int] = {}
        self._waiting: deque[tuple[float, int]] = deque()  # (deadline, number)
        self._in_flight = 0
        self._recent: list[float] = []
        self._ended = Counter()
        self._gone_since_s = math.inf  # the first failure without a connection since the last answer
        self._gone_s = 0.0  # how long after it the last further attempt failed in the same way
        self._sending = True

    async def run(self, client: Client, stop: asyncio.Event) -> None:
        """Carry out the plan; `stop` ends it early.

        Args:
            client: how requests are sent.
            stop: set by whoever wants the run to end now.
        """
        loop = asyncio.get_running_loop()
        self._client, self._loop, self._stop = client, loop, stop
        self._finished = loop.create_future()
        self.zero = time.perf_counter() + 0.01
        pump = self._pump_closed if self.plan.closed else self._pump_open
        self._timer = Timer(loop, pump)
        if self.plan.closed:
            self._due = [(start, user) for user, start in enumerate(self.plan.times)]
            heapq.heapify(self._due)
        self._ticks = 0
        try:
            self._timer.at(self.zero)
            self._tick()
            await self._finished
        finally:
            self._timer.close()

    def wrote(self, number: int) -> None:
        """Request `number` went out just now."""
        self.sent[number] = time.perf_counter() - self.zero

    def age_s(self, number: int) -> float:
        """How long ago request `number` went out."""
        return time.perf_counter() - self.zero - self.sent[number]

    def pending(self, number: int) -> bool:
        """Whether somebody still waits for `number`."""
        return self.status[number] == LOST

    def done(self, number: int, status: int, message: str = "", *, gone: bool = False) -> None:
        """Request `number` has ended.

        Args:
            status: OK, ERROR or TIMEOUT.
            message: why it failed.
            gone: whether it failed because there was no connection.
        """
        if self.status[number] != LOST:  # ended before: its time was over
            return
        now = time.perf_counter() - self.zero
        self.answered[number] = now
        self.status[number] = status
        self._in_flight -= 1
        self._ended[status] += 1
        if status == OK:
            self._recent.append(now - self.intended[number])
        elif message in self.messages or len(self.messages) < MOST_MESSAGES:
            self.messages[message] += 1
        self._note_gone(number, status, now, gone=gone)
        if self.plan.closed:
            self._user_goes_on(self.user[number], now, failed=status != OK)

    def _note_gone(self, number: int, status: int, now: float, *, gone: bool) -> None:
        """Keep book of how long nobody has been there; one lost connection says nothing of what comes later."""
        if not gone:
            if status != TIMEOUT:  # an error is an answer, too
                self._gone_since_s, self._gone_s = math.inf, 0.0
        elif self.intended[number] > self._gone_since_s:  # not one of those that were under way when it went
            self._gone_s = now - self._gone_since_s
        else:
            self._gone_since_s = min(self._gone_since_s, now)

    def _user_goes_on(self, user: int, now: float, *, failed: bool) -> None:
        wait = self.plan.think_s
        if failed:  # a refused request fails at once: no storm of them
            row = self._failures[user] = self._failures.get(user, 0) + 1
            wait += min(BACK_OFF_S[0] * 2 ** min(row - 1, 20), BACK_OFF_S[1])
        elif self._failures:
            self._failures.pop(user, None)
        if not self._sending:
            return
        if not wait:
            self._dispatch_user(user, now)
        else:
            heapq.heappush(self._due, (now + wait, user))
            if self._due[0][1] == user:
                self._timer.at(self.zero + self._due[0][0])

    def _dispatch_user(self, user: int, when: float) -> None:
        if when >= self.plan.duration_s or len(self.status) >= self.plan.limit:
            return
        number = len(self.status)
        self.intended.append(when)
        self.sent.append(math.nan)
        self.answered.append(math.nan)
        self.status.append(UNSENT)
        self.user.append(user)
        self._dispatch(number)

    def _dispatch(self, number: int) -> None:
        self.status[number] = LOST  # until it is answered or fails
        self._in_flight += 1
        self._waiting.append((time.perf_counter() + self.plan.timeout_s, number))
        self._client.send(number, number % self.plan.bodies)

    def _pump_closed(self) -> None:
        now = time.perf_counter() - self.zero
        for _ in range(AT_ONCE):
            if not self._due or not self._sending:
                return
            when, user = self._due[0]
            if when > now:
                self._timer.at(self.zero + when)
                return
            heapq.heappop(self._due)
            self._dispatch_user(user, when)
        self._loop.call_soon(self._pump_closed)

    def _pump_open(self) -> None:
        now = time.perf_counter() - self.zero
        if now > self.plan.duration_s + LATE_S:
            return  # what is not sent by now stays unsent
        for _ in range(AT_ONCE):
            if self._next >= len(self.intended) or not self._sending:
                return
            when = self.intended[self._next]
            if when > now:
                self._timer.at(self.zero + when)
                return
            self._next += 1
            self._dispatch(self._next - 1)
        self._loop.call_soon(self._pump_open)

    def _tick(self) -> None:
        """Fifty times a second: time-outs, the end, the report."""
        now = time.perf_counter()
        elapsed = now - self.zero
        while self._waiting and (self._waiting[0][0] <= now or self.status[self._waiting[0][1]] != LOST):
            deadline, number = self._waiting.popleft()
            if deadline <= now and self.status[number] == LOST:
                self._client.abandon(number)
                self.done(number, TIMEOUT, f"no answer within {self.plan.timeout_s:g} s")
        if self._sending:
            self._end_sending(elapsed)
        if not self._sending and not self._in_flight and not self._finished.done():
            self._tell(elapsed)
            self._finished.set_result(None)
            return
        if self._ticks % round(REPORT_S / TICK_S) == 0:
            self._tell(elapsed)
        self._ticks += 1
        self._loop.call_later(TICK_S, self._tick)

    def _end_sending(self, elapsed: float) -> None:
        """Stop sending when it is time, when somebody asked for it, or when the server is gone."""
        if self._stop.is_set():
            self._sending, self.stopped_s = False, elapsed
            for number in range(len(self.status)):
                if self.status[number] == LOST:
                    self.status[number] = CUT
                    self._client.abandon(number)
            self._in_flight = 0
        elif self.plan.give_up_s and self._gone_s > self.plan.give_up_s:
            self._sending, self.stopped_s = False, elapsed
            self.ended_early = f"ended after {elapsed:.1f} s: the server has been gone for {self._gone_s:.1f} s"
        elif len(self.status) >= self.plan.limit and (self.plan.closed or self._next >= len(self.status)):
            self._sending, self.stopped_s = False, min(elapsed, self.plan.duration_s)
        elif elapsed >= self.plan.duration_s:
            behind = not self.plan.closed and self._next < len(self.status)
            if not behind or elapsed >= self.plan.duration_s + LATE_S:
                self._sending = False

    def _tell(self, elapsed: float) -> None:
        recent = sorted(self._recent)
        self._recent.clear()
        self._report(
            {
                "event": "live",
                "t_s": elapsed,
                "answered": self._ended[OK],
                "errors": self._ended[ERROR],
                "timeouts": self._ended[TIMEOUT],
                "in_flight": self._in_flight,
                "p95_ms": 1000 * recent[int(0.95 * (len(recent) - 1))] if recent else None,
            }
        )
