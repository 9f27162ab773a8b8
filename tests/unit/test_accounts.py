"""The generator's count and the gateway's are two, and have to agree."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import pytest

from tests.unit.test_five_minutes import result
from tutorial_lib.course.accounts import account, counts_in, resources_used
from tutorial_lib.errors import NotebookError
from tutorial_lib.gateway.metrics import Metrics
from tutorial_lib.load.samples import ERROR, OK, TIMEOUT


def run(*, errors=0, timeouts=0, lost=0):
    """Ten requests a second for five minutes, of which so many failed."""
    found = result(lost=lost)
    found.samples.status[:2] = OK
    found.samples.status[10 : 10 + errors] = ERROR
    found.samples.status[100 : 100 + timeouts] = TIMEOUT
    return found


def test_the_gateways_counter_is_read_by_status():
    metrics = Metrics()
    for model, status, code in (("a", 200, ""), ("b", 200, ""), ("a", 429, "busy"), ("a", 429, "queue_full")):
        metrics.requests.labels(model, status, code).inc(3)
    assert counts_in(metrics.text().decode()) == {200: 6, 429: 6}
    assert counts_in(Metrics().text().decode()) == Counter()


def test_books_that_agree_are_shown():
    assert account(run(), {200: 3000}) == {
        "sent": 3000, "answered": 3000, "errors": 0, "time-outs": 0, "lost": 0, "answered, says the server": 3000,
    }  # fmt: skip
    assert account(run(), None)["answered, says the server"] is None


def test_failures_of_the_whole_run_are_shown_and_may_have_been_answered():
    for served in (2990, 2997, 3000):
        told = account(run(errors=3, timeouts=7), {200: served, 503: 3})
        assert (told["answered"], told["errors"], told["time-outs"]) == (2990, 3, 7)


@pytest.mark.parametrize("served", [0, 2999, 3001])
def test_an_answer_more_or_less_than_the_server_counted_is_refused(served):
    with pytest.raises(NotebookError, match=f"found {served} answers that the server counted, expected 3000,"):
        account(run(), {200: served, 503: 1})


def test_an_error_that_the_server_did_not_answer_well_leaves_no_room_for_others():
    with pytest.raises(NotebookError, match="found 3001 answers .* expected 2990 to 3000"):
        account(run(errors=3, timeouts=7), {200: 3001})
    with pytest.raises(NotebookError, match="found 2989"):
        account(run(errors=3, timeouts=7), {200: 2989})


def test_a_lost_request_is_refused():
    with pytest.raises(NotebookError, match="found 4 requests that nobody accounts for"):
        account(run(lost=4), None)


def test_what_nobody_watched_is_not_nothing():
    used = resources_used(dataclasses.replace(run(), usage=()))
    assert set(used) == {"CPU %", "memory MiB"} and all(math.isnan(value) for value in used.values())
    both = ((1.0, "gateway", 50.0, 100.0), (2.0, "gateway", 70.0, 101.0), (2.0, "triton", 10.0, 200.0))
    assert resources_used(dataclasses.replace(run(), usage=both)) == {"CPU %": 70, "memory MiB": 300}
