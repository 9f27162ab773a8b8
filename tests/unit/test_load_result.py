"""Load results: the numbers, the table, the files."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from tutorial_lib.errors import LoadError
from tutorial_lib.load import GeneratorShare, LoadResult, Replay, Samples, ServerShare, results_table

NAN = math.nan


def samples():
    """Ten requests a second for 10 s; latency 10 ms, then 20; the last five: error, time-out, unsent, lost, cut."""
    count = 100
    intended = np.arange(count) / 10
    answered = intended + np.where(intended < 5, 0.010, 0.020)
    status = np.zeros(count, np.int8)
    status[-5:] = 1, 2, 3, 4, 5
    sent = intended + 0.0001
    sent[-3] = NAN
    answered[-3:] = NAN
    return Samples(intended, sent, answered, status, np.full(count, -1, np.int32))


def result(**changes):
    made = LoadResult(
        target="double over gRPC",
        plan="one every 100 ms",
        label="Triton 2.51.0 embedded · CPU ×2",
        started_at="2026-11-30T08:00:00+00:00",
        duration_s=10.0,
        window_s=(2.0, 10.0),
        steady=True,
        steady_note="",
        generator=GeneratorShare(0.1, 0.2, 0.05, NAN, limited=False),
        samples=samples(),
        server=ServerShare(80, 1, 40, 2.0, 0.5, 0.1, 3.0, 0.2),
        error_messages={'HTTP 503: a, "b"': 1},
        usage=((1.0, "triton", 150.0, 300.0),),
    )
    return replace(made, **changes)


def test_numbers_are_of_the_window_and_of_answered_requests():
    found = result()
    assert (found.requests, found.answered, found.errors, found.timeouts) == (80, 75, 1, 1)
    assert (found.lost, found.unsent, found.cut) == (1, 1, 1)
    assert found.p50_ms == found.p95_ms == found.max_ms == pytest.approx(20)
    assert found.mean_ms == pytest.approx((30 * 10 + 45 * 20) / 75)
    assert found.throughput_rps == pytest.approx(75 / 8)
    assert found.percentile(0.2) == pytest.approx(10)
    low, high = found.interval("throughput_rps", level=0.99)
    assert low < 75 / 8 < high
    with pytest.raises(LoadError, match="interval: found 'p42_ms', expected throughput_rps, mean_ms or one of p50_ms"):
        found.interval("p42_ms")
    with pytest.raises(LoadError, match="level: found 1"):
        found.interval("p95_ms", level=1)


def test_answers_to_requests_before_the_window_count_as_throughput_only():
    """A server that is behind answers in the window what was asked before it."""
    late = Samples(
        np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([2.5, 2.6]), np.zeros(2, np.int8), np.full(2, -1)
    )
    found = result(samples=late, window_s=(2.0, 3.0))
    assert found.throughput_rps == 2 and found.answered == 0 and math.isnan(found.p50_ms)


def test_a_run_without_answers_has_no_numbers_and_says_so():
    nothing = samples()
    nothing.status[:] = 2
    found = result(samples=nothing)
    assert math.isnan(found.mean_ms) and math.isnan(found.max_ms) and math.isnan(found.interval("p95_ms")[0])
    assert "no answers" in str(found) and "in the whole run 0 errors, 100 time-outs" in str(found)


def test_what_fails_is_counted_over_the_whole_run():
    """Users who wait in vain since the warm-up leave a window without a request, and no failure in it."""
    waiting = samples()
    begun = Samples(*(getattr(waiting, name)[:20] for name in ("intended_s", "sent_s", "answered_s", "status", "user")))
    begun.status[:] = [1] * 3 + [2] * 15 + [4] * 2
    found = result(samples=begun)
    assert (found.requests, found.answered) == (0, 0)
    assert (found.errors, found.timeouts, found.lost, found.failed) == (3, 15, 2, 20) and not found.complete
    assert [found.summary()[name] for name in ("answered", "errors", "timeouts", "lost")] == [0, 3, 15, 2]
    begun.status[:] = 0
    assert found.failed == 0 and not found.complete, "all answered, and none of them measured"
    everything = samples()
    everything.status[:] = 0
    assert result(samples=everything).complete
    everything.status[3] = 1
    assert not result(samples=everything).complete, "in the warm-up"


def test_frame_and_timeline():
    frame = result().frame()
    assert frame.columns.tolist() == [
        *("intended_s", "sent_s", "answered_s", "status", "user", "latency_ms", "measured"),
    ]
    assert frame.measured.sum() == 80 and frame.status.iloc[-5:].tolist() == [
        "error",
        "time-out",
        "unsent",
        "lost",
        "cut",
    ]
    line = result().timeline(bin_s=5)
    assert line.answered_rps.tolist() == [10, 9] and line.p50_ms.round(3).tolist() == [10, 20]
    assert line.errors.tolist() == [0, 1] and line.timeouts.tolist() == [0, 1]
    assert line.in_flight.tolist() == [0, 2]  # lost and cut
    assert result().resources().to_dict("records") == [
        {"t_s": 1.0, "name": "triton", "cpu_percent": 150.0, "rss_mib": 300.0}
    ]


def test_a_table_of_results():
    table = results_table([result(), result(label="other", server=None)])
    assert table.label.tolist() == ["Triton 2.51.0 embedded · CPU ×2", "other"]
    assert table.mean_batch[0] == 2 and math.isnan(table.mean_batch[1])
    assert {"throughput_rps", "p50_ms", "p95_ms", "p99_ms", "errors", "timeouts", "lost", "steady"} <= set(table)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_files_give_back_every_number(tmp_path, kind):
    path = tmp_path / f"result.{kind}"
    original = result(interrupted=True, ended_early="gone", steady=False, steady_note="latency rises")
    assert getattr(original, f"to_{kind}")(path) == path
    read = getattr(LoadResult, f"from_{kind}")(path)
    for name in ("intended_s", "sent_s", "answered_s", "status", "user"):
        ours, theirs = getattr(original.samples, name), getattr(read.samples, name)
        assert np.array_equal(ours, theirs, equal_nan=name.endswith("_s"))
    assert str(read) == str(original)
    assert read.server == original.server and read.usage == original.usage and read.window_s == original.window_s
    assert read.generator.late_p99_ms == 0.2 and math.isnan(read.generator.core_wait_share)
    assert dict(read.error_messages) == dict(original.error_messages)
    assert getattr(read, f"to_{kind}")(tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_frame_gives_back_the_result():
    original = result()
    read = LoadResult.from_frame(original.frame())
    assert str(read) == str(original) and np.array_equal(read.samples.status, original.samples.status)
    assert read.summary().keys() == original.summary().keys() and read.server == original.server
    changed = original.frame()
    changed.attrs.clear()
    with pytest.raises(LoadError, match="it is not one that LoadResult.frame"):
        LoadResult.from_frame(changed)


def test_a_result_without_a_single_sample_survives_too(tmp_path):
    empty = result(samples=Samples(*(np.zeros(0, kind) for kind in (float, float, float, np.int8, np.int32))))
    assert len(LoadResult.from_csv(empty.to_csv(tmp_path / "a")).samples) == 0
    assert len(LoadResult.from_json(empty.to_json(tmp_path / "b")).samples) == 0


def test_a_saved_result_replays(tmp_path):
    replay = Replay(result().to_csv(tmp_path / "result.csv"))
    assert replay.times(20) == pytest.approx(samples().intended_s)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "a,b\n1,2\n", "# load result 1: {}\nintended_s\n", '{"samples": {"user": []}}']
)
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "other"
    path.write_text(text)
    for read in (LoadResult.from_csv, LoadResult.from_json):
        with pytest.raises(LoadError, match="it is not a load result"):
            read(path)
        with pytest.raises(LoadError, match="No such file"):
            read(tmp_path / "nothing")


def test_a_status_that_is_none_is_refused(tmp_path):
    path = result().to_json(tmp_path / "result.json")
    content = json.loads(path.read_text())
    content["samples"]["status"][0] = 9
    path.write_text(json.dumps(content))
    with pytest.raises(LoadError, match="a status that is none"):
        LoadResult.from_json(path)


def test_what_a_reader_must_know_is_said():
    limited = GeneratorShare(1, 2, 0.99, 0, limited=True, note="the generator, not the server, is the limit: because")
    said = str(result(generator=limited, steady=False, steady_note="latency rises", interrupted=True))
    assert "! the generator, not the server, is the limit" in said
    assert "! not steady: latency rises" in said and "! interrupted" in said
    assert "mean batch 2.00" in said and "&lt;" not in said
    assert "<b>" in result()._repr_html_() and "&quot;b&quot;" in result()._repr_html_()
