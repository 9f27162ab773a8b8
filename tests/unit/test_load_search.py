"""The search for saturation, against a server whose saturation is known."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.unit.load_runs import scratch  # noqa: F401 - a fixture
from tutorial_lib.errors import LoadError
from tutorial_lib.load import (
    EndpointTarget,
    GeneratorShare,
    KnownServer,
    LoadResult,
    Poisson,
    Samples,
    find_saturation,
)


def search(server, **options):
    return find_saturation(EndpointTarget(server.url, bodies=[b"x"], label="known"), progress=False, **options)


def test_users_are_added_until_answers_stop_rising():
    """Three at a time, 60 ms each: 50 answers a second, reached by three users."""
    with KnownServer(0.060, servers=3) as server:
        found = search(server, step_s=1.5, warm_up_s=0.2)
    assert found.max_rps == pytest.approx(50, rel=0.1)
    assert "stopped rising" in found.why
    assert list(found.levels[:4]) == [1, 2, 4, 8] and all(found.good)
    assert found.knee_level in (4, 8) and found.knee.p95_ms < found.results[-1].p95_ms
    frame = found.frame()
    assert frame.concurrency.tolist() == sorted(found.levels) and frame.good.all()


def test_a_limit_on_p95_ends_it_and_the_gap_is_searched():
    """One server, 50 ms: n users wait n · 50 ms, so 6 are the most that keep within 320."""
    with KnownServer(0.050) as server:
        found = search(server, p95_limit_ms=325, step_s=1.5, warm_up_s=0.5, growth=4, most=64)
    assert found.best.p95_ms <= 325 and found.p95_limit_ms == 325
    assert "passes the limit of 325 ms" in found.why
    assert max(level for level, good in zip(found.levels, found.good, strict=True) if good) <= 6
    assert len(found.levels) > 3


def test_rates_are_raised_until_the_server_does_not_keep_up():
    with KnownServer(0.050, servers=2) as server:
        found = search(server, arrivals=Poisson, start=10, step_s=3, growth=2, p95_limit_ms=250, most=200)
    assert found.kind == "rate_hz" and 10 <= found.best_level <= 40
    assert not found.good[found.levels.index(80.0)] if 80.0 in found.levels else not all(found.good)
    assert "requests/s" in str(found)


def test_the_largest_load_allowed_is_said():
    with KnownServer(0.001, servers=50) as server:
        found = search(server, step_s=0.5, most=2)
    assert found.levels == (1, 2) or "stopped rising" in found.why
    assert "the largest load allowed, 2, was still answered" in found.why


def test_nothing_to_search_where_nothing_answers():
    server = KnownServer(0.001)
    url = server.url
    server.stop()
    with pytest.raises(LoadError, match="Connection refused"):
        find_saturation(EndpointTarget(url), progress=False)
    with KnownServer(30) as slow, pytest.raises(LoadError, match="no answer to 1 requests; no answer within 0.3 s"):
        search(slow, step_s=0.2, timeout_s=0.3)


class Scripted:
    """Stands in for `run_load`: step n ends as `steps[n]` says; a text is the reason of a LoadError."""

    def __init__(self, monkeypatch, *steps):
        self.steps, self.plans = iter(steps), []
        monkeypatch.setattr("tutorial_lib.load.search.run_load", self)

    def __call__(self, target, **plan):
        self.plans.append(plan)
        step = next(self.steps)
        if isinstance(step, str):
            raise LoadError(step, action="Start the server, or check address and port.")
        return step


def ended(*, ok=100, failed=0, warm_up=0, status=2, **changes):
    """A run of 2 s, the first of them warm-up: `ok` answered, `failed` not, `warm_up` failed before it."""
    count = warm_up + ok + failed
    state = np.array([status] * warm_up + [0] * ok + [status] * failed, np.int8)
    at = np.concatenate([np.linspace(0, 0.9, warm_up), np.linspace(1, 1.9, ok + failed)])
    samples = Samples(at, at, at + 0.01, state, np.zeros(count, np.int32))
    made = {
        "steady": True,
        "steady_note": "",
        "samples": samples,
        "generator": GeneratorShare(0, 0, 0, 0, limited=False),
    }
    made |= {"target": "t", "plan": "p", "label": "l", "started_at": "", "duration_s": 2.0, "window_s": (1.0, 2.0)}
    return LoadResult(**made | changes)


@pytest.fixture
def target():
    return EndpointTarget("http://127.0.0.1:1/", label="known")


GONE = "127.0.0.1:1: Connection refused."


def test_a_server_that_goes_leaves_what_was_found(monkeypatch, target):
    Scripted(monkeypatch, ended(ok=50), ended(ok=100), GONE)
    found = find_saturation(target, progress=False)
    assert found.levels == (1, 2) and found.best_level == 2 and found.max_rps == 100 and all(found.good)
    assert found.why == found.ended_early == f"the search broke off after step 2: {GONE}"
    assert GONE in str(found)


def test_a_server_that_goes_while_the_gap_is_searched_leaves_what_was_found(monkeypatch, target):
    Scripted(monkeypatch, ended(ok=50), ended(ok=10, failed=10), GONE)
    found = find_saturation(target, start=2, growth=4, progress=False)
    assert found.levels == (2, 8) and found.best_level == 2 and found.good == (True, False)
    assert found.why.startswith("at 8: 10 of 20 requests failed; the search broke off after step 2")
    assert GONE in found.ended_early


def test_a_server_that_goes_within_a_step_ends_the_search(monkeypatch, target):
    scripted = Scripted(monkeypatch, ended(ok=50), ended(ended_early="ended after 1.5 s: the server has been gone"))
    found = find_saturation(target, start=2, growth=4, progress=False)
    assert found.good == (True, False) and len(scripted.plans) == 2
    assert found.why == found.ended_early == "at 8: ended after 1.5 s: the server has been gone"


def test_there_is_nothing_to_keep_without_an_answer(monkeypatch, target):
    Scripted(monkeypatch, ended(ok=0, warm_up=50))
    with pytest.raises(LoadError, match="no answer to 50 requests"):
        find_saturation(target, progress=False)
    Scripted(monkeypatch, GONE)
    with pytest.raises(LoadError, match="Connection refused"):
        find_saturation(target, progress=False)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"ok": 0, "warm_up": 50}, "at 2: 50 of 50 requests failed"),
        ({"ok": 100, "warm_up": 50, "status": 1}, "at 2: 50 of 150 requests failed"),
        ({"ok": 100, "warm_up": 50, "status": 4}, "at 2: 50 of 150 requests failed"),
        ({"ok": 0, "warm_up": 50, "status": 0}, "at 2: nothing was answered in the measured window"),
    ],
)
def test_a_step_without_answers_or_with_failures_before_the_window_is_not_good(monkeypatch, target, step, why):
    Scripted(monkeypatch, ended(ok=50), ended(**step))
    found = find_saturation(target, progress=False)
    assert found.good == (True, False) and found.why == why and found.best_level == 1 and not found.ended_early


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"growth": 1}, "growth: found 1"),
        ({"start": 0}, "start: found 0"),
        ({"start": 0.0, "arrivals": Poisson}, "start: found 0"),
        ({"start": 8, "most": 4}, "most: found 4"),
        ({"step_s": 0}, "step_s: found 0"),
        ({"p95_limit_ms": -1}, "p95_limit_ms: found -1"),
    ],
)
def test_absurd_arguments_are_refused(options, said):
    with pytest.raises(LoadError, match=said):
        find_saturation(EndpointTarget("http://127.0.0.1:1/"), progress=False, **options)


def test_the_bar_shows_live_numbers(capsys):
    from tutorial_lib.load import Every, run_load

    with KnownServer(0.001) as server:
        target = EndpointTarget(server.url)
        run_load(target, arrivals=Every(0.02), duration_s=1)
        shown = capsys.readouterr().err
        assert " RPS, p95 " in shown and "ms" in shown and "/1 s" in shown
        find_saturation(target, step_s=0.4, most=1)
        assert "saturation: step 1, 1 users: " in capsys.readouterr().err
        thread = threading.Thread(target=lambda: run_load(target, concurrency=1, duration_s=0.3, progress=False))
        thread.start()
        thread.join()
        assert not capsys.readouterr().err
