"""Which part of a run counts, whose fault it is, and what Triton counted meanwhile."""

from __future__ import annotations

import asyncio
import math
import time

import numpy as np
import pytest

from tutorial_lib.errors import ServerError
from tutorial_lib.load import EndpointTarget, GrpcTarget, Poisson, Samples, Users, watch
from tutorial_lib.load.judge import judge_generator, judge_window
from tutorial_lib.load.timer import Timer


def samples(count=1000, *, late_ms=0.1, latency_ms=10.0, unsent=0, seconds=10.0):
    intended = np.linspace(0, seconds, count, endpoint=False)
    status = np.zeros(count, np.int8)
    sent, answered = intended + late_ms / 1000, intended + latency_ms / 1000
    if unsent:
        status[-unsent:], sent[-unsent:], answered[-unsent:] = 3, math.nan, math.nan
    return Samples(intended, sent, answered, status, np.full(count, -1, np.int32))


def ticks(cpu, waited):
    """Four a second, over ten seconds."""
    t = np.arange(0, 10, 0.25)
    return np.stack([t, 0.3 + cpu * t, 0.1 + waited * t], axis=1)


def judged(part, cpu=0.1, waited=0.0, *, all_busy=0, whole_run=True):
    return judge_generator(part, (1.0, 10.0), ticks(cpu, waited), all_busy=all_busy, whole_run=whole_run)


def test_a_generator_with_time_to_spare_is_not_the_limit():
    share = judged(samples(), cpu=0.6, waited=0.2)
    assert (share.limited, share.note) == (False, "")
    assert share.cpu_share == pytest.approx(0.6) and share.core_wait_share == pytest.approx(0.2)
    assert share.late_p50_ms == pytest.approx(0.1) and share.late_p99_ms == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("part", "usage", "said"),
    [
        (samples(), {"cpu": 0.95}, "it used 95% of its core"),
        (samples(), {"cpu": 0.6, "waited": 0.38}, "it ran for 60% of the time and waited for a free core"),
        (samples(unsent=40), {}, "40 of 1000 requests were not sent in time"),
    ],
)
def test_a_generator_at_its_end_is_the_limit(part, usage, said):
    share = judged(part, **usage)
    assert (
        share.limited and share.note.startswith("the generator, not the server, is the limit: ") and said in share.note
    )


def test_what_was_cut_short_is_not_the_generators_fault():
    assert not judged(samples(unsent=40), whole_run=False).limited


def test_a_busy_machine_is_said_but_is_not_the_generators_limit():
    """The server, too, needs the cores that the generator waited for."""
    share = judged(samples(late_ms=3), cpu=0.2, waited=0.6)
    assert not share.limited
    assert "3.00 ms late on average, of a latency of 10.00 ms; the generator waited for a free core" in share.note
    assert judged(samples(late_ms=0.4, latency_ms=1)).note == "", "that long a process takes to wake up"
    assert "7 requests waited because all connections" in judged(samples(), all_busy=7).note


def test_a_run_too_short_for_its_usage_has_none():
    share = judge_generator(samples(3), (0, 1), np.empty((0, 3)), all_busy=0, whole_run=True)
    assert math.isnan(share.cpu_share) and not share.limited
    nothing = judge_generator(samples(0), (0, 1), np.empty((0, 3)), all_busy=0, whole_run=True)
    assert math.isnan(nothing.late_p50_ms)


def warm_up():
    """Three seconds of slow answers, then ten at 10 ms."""
    part = samples(1300, seconds=13)
    random = np.random.default_rng(0)
    slow = np.where(part.intended_s < 3, 0.2 * (1 - part.intended_s / 3), 0) + random.normal(0.01, 0.001, 1300)
    return Samples(part.intended_s, part.sent_s, part.intended_s + slow, part.status, part.user)


def test_the_warm_up_is_found_or_given():
    window, steady = judge_window(warm_up(), Poisson(100), 13.0, None)
    assert 2.5 < window[0] < 4 and window[1] == 13.0 and steady.steady
    window, steady = judge_window(warm_up(), Poisson(100), 13.0, 5.0)
    assert window == (5.0, 13.0) and steady.steady


def test_users_who_join_or_think_first_are_warm_up():
    steady = samples(1000)
    assert judge_window(steady, Users(5, think_s=2.0), 10.0, None)[0][0] >= 2.0
    assert judge_window(steady, Users(5, per_s=1.0), 10.0, None)[0][0] >= 4.0
    window, verdict = judge_window(steady, Users(400, per_s=1.0), 10.0, None)
    assert window == (0.0, 10.0) and verdict.note == "users were still joining"
    assert judge_window(steady, Users(5, think_s=2.0), 10.0, 1.0)[0] == (1.0, 10.0)


def counted(n):
    """Triton's statistics of a model that has answered `n` requests, two at a time."""
    parts = {name: {"ns": n * 1_000_000} for name in ("queue", "compute_input", "compute_infer", "compute_output")}
    entry = {"version": "1", "execution_count": n // 2, "inference_count": n}
    return entry | {"inference_stats": {"success": {"count": n}, "fail": {"count": 0}, **parts}}


class FakeControl:
    """Triton's statistics, ten requests in five executions a second, with a look that fails."""

    closed = False

    def __init__(self, url):
        self.looks = 0

    def statistics(self, model):
        self.looks += 1
        if self.looks == 3:
            raise ServerError("no answer")
        return [counted(10 * self.looks)]

    def close(self):
        self.closed = True


def test_what_triton_counted_in_the_window(monkeypatch):
    monkeypatch.setattr(watch, "Control", FakeControl)
    target = GrpcTarget("127.0.0.1:1", "m", {"x": [1.0]}, http_url="http://127.0.0.1:1")
    with watch.ServerCounts(target) as counts:
        for second in (1.0, 2.0, 3.0, 9.0, 10.0):
            counts.look(second)
    # looks at 0 and 1 s; the one at 2 s fails, and nobody is asked again within 5 s
    share = counts.since(1.1)
    assert (share.requests, share.executions, share.mean_batch) == (30, 15, 2.0)
    assert (share.queue_ms, share.failed) == (1.0, 0)
    assert counts.since(0.2).requests == 40


@pytest.mark.parametrize(
    ("looks", "total"), [([10, 20, 40, 50, 50], 40), ([10, 20, 20, 30, 30], 20), ([10, *range(20, 200, 10)], 110)]
)
def test_the_last_look_waits_for_what_triton_counts_after_its_answer(monkeypatch, looks, total):
    """Until two of its own agree, not one with what was seen before; and not for ever."""
    found = iter(looks)
    monkeypatch.setattr(FakeControl, "statistics", lambda *_: [counted(next(found))])
    monkeypatch.setattr(watch, "Control", FakeControl)
    target = GrpcTarget("127.0.0.1:1", "m", {"x": [1.0]}, http_url="http://127.0.0.1:1")
    with watch.ServerCounts(target) as counts:
        counts.look(0.9)
        counts.last_look(1.0)
    assert counts.since(0.0).requests == total and counts.since(1.0).requests == total - 10


def test_without_anybody_to_ask_nothing_is_counted():
    for target in (EndpointTarget("http://127.0.0.1:1/"), GrpcTarget("127.0.0.1:1", "m", {"x": [1.0]})):
        with watch.ServerCounts(target) as counts:
            counts.look(1.0)
        assert counts.since(0) is None


def test_the_timer_is_never_early_and_can_be_set_anew():
    woken = []

    async def wait():
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def wake():
            woken.append(time.perf_counter())
            if len(woken) == len(moments):
                done.set_result(None)
            else:
                timer.at(moments[len(woken)])

        timer = Timer(loop, wake)
        moments = [time.perf_counter() + gap for gap in (0.0105, 0.0123, 0.0)]  # the last one is past by then
        timer.at(moments[0] + 5)
        timer.at(moments[0])
        await asyncio.wait_for(done, 10)
        timer.close()
        return moments

    moments = asyncio.run(wait())
    assert all(at >= moment for at, moment in zip(woken, moments, strict=True))
