"""When a run ends because the server is gone, and when not: the engine with a client that answers by a script."""

from __future__ import annotations

import asyncio
import math
from array import array

import pytest

from tutorial_lib.load.engine import Engine, Plan
from tutorial_lib.load.samples import ERROR, OK, TIMEOUT, UNSENT

GONE = (ERROR, True)
REFUSED = (ERROR, False)
ANSWERED = (OK, False)


def ran(times, outcomes, *, give_up_s, after_s=None, duration_s=0.8):
    """Send at `times`; request n ends as `outcomes[n]` says (the last one for all after it), `after_s[n]` later."""

    class Client:
        def send(self, number, body):
            engine.wrote(number)
            status, gone = outcomes[min(number, len(outcomes) - 1)]
            wait_s = (after_s or {}).get(number, 0.0)
            asyncio.get_running_loop().call_later(wait_s, lambda: engine.done(number, status, "said", gone=gone))

        def abandon(self, number): ...

    plan = Plan(array("d", times), False, 0.0, 1, duration_s, 10.0, 1000, give_up_s)
    engine = Engine(plan, lambda event: None)
    asyncio.run(asyncio.wait_for(engine.run(Client(), asyncio.Event()), 30))
    return engine


def test_an_error_answer_is_an_answer():
    """A connection is dropped, then five times HTTP 500: the server is there."""
    engine = ran([n / 10 for n in range(6)], [GONE, REFUSED], give_up_s=0.2)
    assert engine.ended_early == "" and list(engine.status) == [ERROR] * 6


def test_one_lost_connection_is_not_a_server_that_is_gone():
    engine = ran([0.0, 0.6], [GONE, ANSWERED], give_up_s=0.1)
    assert engine.ended_early == "" and list(engine.status) == [ERROR, OK]


def test_what_was_under_way_when_it_went_is_no_further_attempt():
    engine = ran([0.0, 0.0, 0.6], [GONE, GONE, ANSWERED], give_up_s=0.1, after_s={1: 0.3})
    assert engine.ended_early == "" and list(engine.status) == [ERROR, ERROR, OK]


@pytest.mark.parametrize("between", [GONE, (TIMEOUT, False)])
def test_a_further_failure_after_the_limit_ends_it(between):
    """Silence is no answer: it does not say that the server is back."""
    engine = ran([0.0, 0.1, 0.4, 20.0], [GONE, between, GONE], give_up_s=0.2, duration_s=21.0)
    assert "the server has been gone for " in engine.ended_early
    assert engine.status[3] == UNSENT and math.isnan(engine.sent[3])


def test_each_answer_begins_it_anew():
    engine = ran([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [GONE, GONE, REFUSED, GONE, GONE, ANSWERED], give_up_s=0.25)
    assert engine.ended_early == "" and engine.status[5] == OK
