"""Arrival patterns, users and trace files."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tutorial_lib.errors import LoadError
from tutorial_lib.load import PATTERNS, USER_TESTS, Bursts, Every, Poisson, Replay, Users, pattern

MS = 0.001


def test_the_four_patterns_have_the_articles_numbers():
    """SOURCES B: every 30 ms; bursts of 5 every 30 ± 5 ms; every 10 ms; 1–20 at a time every 20 ± 10 ms."""
    assert list(PATTERNS) == ["one_at_a_time", "bursts", "fast", "typical"]
    assert np.allclose(np.diff(pattern(1).times(3)), 30 * MS)
    assert np.allclose(np.diff(pattern(3).times(3)), 10 * MS)
    for number, fewest, most, every_s, jitter_s in ((2, 5, 5, 0.030, 0.005), (4, 1, 20, 0.020, 0.010)):
        begins, sizes = np.unique(pattern(number).times(60, seed=3), return_counts=True)
        gaps = np.diff(begins)
        assert (sizes.min(), sizes.max()) == (fewest, most)
        assert every_s - jitter_s <= gaps.min() and gaps.max() <= every_s + jitter_s
        # uniform: the mean of n gaps is within 5 of its standard errors
        assert abs(gaps.mean() - every_s) < 5 * jitter_s / math.sqrt(3 * len(gaps))
        assert abs(sizes.mean() - (fewest + most) / 2) < 5 * 6 / math.sqrt(len(sizes))
    assert pattern("typical") is pattern(4)
    assert [round(arrivals.rate_hz, 1) for arrivals in PATTERNS.values()] == [33.3, 166.7, 100.0, 525.0]


def test_poisson_gaps_are_exponential_and_independent():
    times = Poisson(100).times(200, seed=1)
    gaps = np.diff(times)
    assert len(times) == pytest.approx(20_000, abs=5 * math.sqrt(20_000))
    # Kolmogorov-Smirnov at 0.1 %
    ordered = np.sort(gaps)
    distance = np.abs(1 - np.exp(-100 * ordered) - np.arange(len(ordered)) / len(ordered)).max()
    assert distance < 1.95 / math.sqrt(len(ordered))
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.03


@pytest.mark.parametrize("arrivals", [Every(0.01), Poisson(50), Bursts((1, 9), 0.05, 0.05), Replay([0, 1, 1, 4])])
def test_times_are_sorted_inside_the_run_and_the_same_for_a_seed(arrivals):
    times = arrivals.times(2.0, seed=7)
    assert times.dtype == np.float64 and np.all(np.diff(times) >= 0) and times[0] >= 0 and times[-1] < 2.0
    assert np.array_equal(times, arrivals.times(2.0, seed=7))
    assert len(str(arrivals)) > 5


def test_an_arrival_at_the_very_end_is_not_in_the_run():
    assert Every(0.5).times(2.0).tolist() == [0.0, 0.5, 1.0, 1.5]
    assert len(Every.hz(3).times(1.0)) == 3


def test_users_join_by_the_second_or_are_there_at_once():
    """SOURCES C: +1 user per second up to 400; 300 users."""
    assert {"constant": (Users(300, think_s=1.0), 300), "ramp": (Users(400, think_s=1.0, per_s=1), 400)} == USER_TESTS
    ramp = USER_TESTS["ramp"][0].starts()
    assert ramp.tolist() == list(range(400))
    together = Users(300, think_s=1.0).starts(seed=0)
    assert len(together) == 300 and together.min() >= 0 and together.max() < 1.0
    assert not Users(16).starts().any()
    assert str(Users(1)) == "1 user" and "1 more each second" in str(Users(400, per_s=1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Every(0),
        lambda: Every(-1),
        lambda: Every(math.nan),
        lambda: Every.hz(0),
        lambda: Poisson(math.inf),
        lambda: Poisson("50"),
        lambda: Poisson(2e6),
        lambda: Poisson(True),
        lambda: Bursts(0, 0.1),
        lambda: Bursts((5, 2), 0.1),
        lambda: Bursts((1, 2, 3), 0.1),
        lambda: Bursts(1.5, 0.1),
        lambda: Bursts(5, 0.1, jitter_s=0.2),
        lambda: Users(0),
        lambda: Users(3, think_s=-1),
        lambda: Users(3, per_s=0),
        lambda: Users(10**9),
        lambda: Replay([0, 1], speed=0),
    ],
)
def test_absurd_numbers_are_refused_with_what_is_expected(make):
    with pytest.raises(LoadError, match="found .* expected "):
        make()


@pytest.mark.parametrize("which", [0, 5, "frantic", True, None])
def test_an_unknown_pattern_names_the_four(which):
    with pytest.raises(LoadError, match="1 one_at_a_time, 2 bursts, 3 fast, 4 typical"):
        pattern(which)


def test_too_many_requests_are_refused_before_memory_is_taken():
    with pytest.raises(LoadError, match=r"Poisson, 1e\+06/s, for 86400 s: .* requests, expected at most 5,000,000"):
        Poisson(1e6).times(86_400)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("arrival_s\n5\n5.5\n7\n", [0, 0.5, 2]),
        ("\ufeffname,arrival_s\r\na,0\r\nb,1e-1\r\n", [0, 0.1]),
        ("0.25\n0.5\n", [0, 0.25]),
        ("# a comment\n\nintended_s,sent_s\n1,\n2,2\n", [0, 1]),
        ("arrival_s\n3\n", [0]),
    ],
)
def test_trace_files(tmp_path, text, expected):
    (tmp_path / "trace.csv").write_text(text)
    replay = Replay(tmp_path / "trace.csv")
    assert replay.recorded_s == pytest.approx(expected)
    assert Replay(tmp_path / "trace.csv", speed=2).times(10) == pytest.approx(np.array(expected) / 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "found no arrival times"),
        ("arrival_s\n", "found no arrival times"),
        ("when\n1\n", "line 1: found the columns when, expected one named arrival_s"),
        ("a,b\n1,2\n", "line 1: found the columns a, b"),
        ("arrival_s\n1\nsoon\n", "line 3: found 'soon'"),
        ("x,arrival_s\n1\n", "line 2: found ''"),
        ("arrival_s\n1\n# note\n0.5\n", "line 4: found 0.5, expected a time in seconds that is not before"),
        ("arrival_s\nnan\n", "line 2: found nan"),
        ("arrival_s\ninf\n", "line 2: found inf"),
    ],
)
def test_a_malformed_trace_names_the_line(tmp_path, text, said):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(LoadError, match=said):
        Replay(tmp_path / "trace.csv")


def test_a_trace_that_is_no_text_or_not_there(tmp_path):
    (tmp_path / "image").write_bytes(b"\x89PNG\xff\xfe\x00")
    with pytest.raises(LoadError, match="not a CSV text"):
        Replay(tmp_path / "image")
    with pytest.raises(LoadError, match="No such file"):
        Replay(tmp_path / "nothing.csv")
    with pytest.raises(LoadError, match="Is a directory"):
        Replay(tmp_path)
    with pytest.raises(LoadError, match="arrival times"):
        Replay(["soon"])
    with pytest.raises(LoadError, match="arrival times, line 1: found 1"):
        Replay([3, 1, 0])
