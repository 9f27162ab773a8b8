"""The report of the five-minute test: kept only of such a test, and read back in words."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tutorial_lib.course import five_minutes
from tutorial_lib.errors import NotebookError
from tutorial_lib.load.result import GeneratorShare, LoadResult
from tutorial_lib.load.samples import ERROR, LOST, OK, Samples
from tutorial_lib.paths import NOTEBOOKS, Workspace


def result(duration_s=300.0, lost=0):
    """Ten requests a second, each answered after 20 ms; the last ones failed or lost."""
    count = int(10 * duration_s)
    intended = np.arange(count) / 10
    status = np.full(count, OK, np.uint8)
    status[:2] = ERROR
    status[2 : 2 + lost] = LOST
    samples = Samples(intended, intended, intended + 0.020, status, np.zeros(count, np.int32))
    return LoadResult(
        target="POST /predict", plan="300 users", label="Triton 2.51.0 embedded · CPU ×2",
        started_at="2026-11-30T09:00:00+00:00", duration_s=duration_s, window_s=(1.0, duration_s), steady=True,
        steady_note="", generator=GeneratorShare(0.1, 0.2, 0.1, 0.0, False), samples=samples,
        usage=((1.0, "gateway", 50.0, 100.0), (2.0, "gateway", 70.0, 101.0)),
    )  # fmt: skip


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.setattr(five_minutes, "NOTEBOOKS", tmp_path / "course")
    (tmp_path / "course").mkdir()
    (tmp_path / "own").mkdir()
    return Workspace(tmp_path / "own")


def test_a_run_is_kept_and_told(space):
    path = five_minutes.keep_five_minutes(result(lost=3), space)
    kept = json.loads(path.read_text())
    assert (kept["sent"], kept["lost"], kept["errors"], kept["timeouts"]) == (3000, 3, 2, 0)
    assert kept["p95_ms"] == pytest.approx(20) and kept["throughput_rps"] == pytest.approx(10, rel=0.01)
    assert kept["resources"]["gateway"] == {
        "cpu_percent_mean": 60.0, "rss_mib_first": 100.0, "rss_mib_last": 101.0, "rss_mib_max": 101.0,
    }  # fmt: skip
    told = five_minutes.read_five_minutes(space)
    assert "3,000 requests sent, 3 lost, 2 errors, 0 time-outs" in told and "your own run" in told
    assert kept["load_average"] >= 0 and "load average" in told
    assert "2026-11-30" in told and "gateway: 60 % CPU" in told


def test_ones_own_run_comes_before_the_courses(space):
    assert "Nobody has run" in five_minutes.read_five_minutes(space)
    ours = five_minutes.NOTEBOOKS / five_minutes.NAME
    ours.write_text(json.dumps(five_minutes.summary_of(result(), load_average=0.5)))
    assert "came with the course" in five_minutes.read_five_minutes(space)
    five_minutes.keep_five_minutes(result(), space)
    assert "your own run" in five_minutes.read_five_minutes(space)


def test_a_short_run_is_no_five_minute_test(space):
    with pytest.raises(NotebookError, match="found a run of 60 s, expected five minutes"):
        five_minutes.keep_five_minutes(result(60), space)
    assert not list(space.root.iterdir())


def test_the_report_that_comes_with_the_course_is_of_five_minutes_without_a_loss():
    kept = json.loads((NOTEBOOKS / five_minutes.NAME).read_text())
    assert kept.keys() == five_minutes.summary_of(result(), load_average=0.0).keys()
    assert kept["duration_s"] >= five_minutes.FULL_S and kept["plan"].startswith("300 users")
    assert kept["sent"] > 300 * 100 and (kept["lost"], kept["unsent"]) == (0, 0)


def test_a_run_without_an_answer_is_not_kept(space):
    with pytest.raises(NotebookError, match="found no answer"):
        five_minutes.keep_five_minutes(result(lost=2998), space)
    assert not (space.root / five_minutes.NAME).exists()
