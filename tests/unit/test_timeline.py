"""Timelines: their numbers by hand, from Triton's time stamps, and as a picture."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from tutorial_lib.errors import LoadError
from tutorial_lib.paths import WORKSPACE_VARIABLE
from tutorial_lib.simulate import Batching, Service, simulate
from tutorial_lib.timeline import Batch, Timeline, plot_timeline, timeline_of, trace_arguments
from tutorial_lib.timeline.timeline import in_lanes
from tutorial_lib.timeline.trace import _parse

# one request alone, two in the next batch, on one instance
SMALL = Timeline(
    np.array([0.0, 0.002, 0.006]),
    np.array([0, 1, 1]),
    (Batch(0.001, 0.011, 1, 0), Batch(0.011, 0.021, 2, 0)),
    "by hand",
)


def stamps(arrival, start, end):
    return {"REQUEST_START": 1_000 + arrival, "COMPUTE_START": 1_000 + start, "COMPUTE_END": 1_000 + end}


def test_numbers_by_hand():
    assert SMALL.queue_ms == pytest.approx([1, 9, 5]) and SMALL.latencies_ms == pytest.approx([11, 19, 15])
    assert SMALL.mean_batch == 1.5 and SMALL.instances == 1 and SMALL.mean_ms == pytest.approx(15)
    assert SMALL.throughput_rps == pytest.approx(3 / 0.021) and SMALL.busy == pytest.approx(20 / 21)
    assert list(SMALL.queued([0.0, 0.0015, 0.003, 0.007, 0.0115])) == [1, 0, 1, 2, 0]
    assert SMALL.summary()["runs"] == 2 and list(SMALL.frame()["size"]) == [1, 2, 2]


def test_a_stretch_keeps_times_and_whole_batches():
    part = SMALL.between(0.001, 0.005)
    assert list(part.arrival_s) == [0.002] and [batch.size for batch in part.batches] == [2]
    assert part.latencies_ms == pytest.approx([19])


def test_overhead_is_part_of_what_a_caller_waits():
    alone = simulate(Batching(1), Service(10), arrivals_s=[0.0], overhead_ms=2.5)
    assert alone.latencies_ms == pytest.approx([12.5]) and alone.queue_ms == pytest.approx([0])


def test_requests_that_began_together_are_one_batch_and_overlapping_ones_have_two_rows():
    found = timeline_of([stamps(5, 20, 90), stamps(0, 10, 60), stamps(7, 20, 90), stamps(80, 95, 120)], label="x")
    assert list(found.batch) == [0, 1, 1, 2] and list(found.sizes) == [1, 2, 1]
    assert [batch.instance for batch in found.batches] == [0, 1, 0]
    assert found.arrival_s == pytest.approx(np.array([0, 5, 7, 80]) / 1e9)


def test_nothing_is_no_timeline():
    with pytest.raises(LoadError, match="Send some requests first"):
        timeline_of([])


def test_rows_are_reused_when_they_are_free():
    assert in_lanes([(0, 10), (5, 15), (10, 20), (12, 30), (15, 16)]) == [0, 1, 0, 2, 1]


def test_a_trace_of_several_models_in_any_order(tmp_path):
    path = tmp_path / "trace.json"
    entries = [
        {"id": 2, "timestamps": [{"name": "REQUEST_START", "ns": 7}]},
        {"id": 1, "model_name": "m", "model_version": 1},
        {"id": 1, "timestamps": [{"name": "REQUEST_START", "ns": 5}]},
        {"id": 2, "model_name": "other", "model_version": 1},
        {"id": 1, "timestamps": [{"name": "COMPUTE_START", "ns": 6}]},
        {"id": 3, "model_name": "m", "model_version": 1},
    ]
    path.write_text(json.dumps(entries))
    assert _parse(path, "m") == [{"REQUEST_START": 5, "COMPUTE_START": 6}]
    path.write_text(json.dumps(entries)[:-20])
    assert _parse(path, "m") == [], "still being written"


def test_what_an_ended_process_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path))
    folder = tmp_path / "cache" / "traces"
    folder.mkdir(parents=True)
    gone = 2**22 + 1  # above the largest process id there can be
    for name in (f"{gone}.json", f"{gone}.json.3", f"{os.getpid()}.json", "notes.json"):
        (folder / name).write_text("[]")
    first, second = trace_arguments()
    assert first.endswith(f"{os.getpid()}.json") and second.endswith("level=OFF")
    assert sorted(path.name for path in folder.iterdir()) == sorted([f"{os.getpid()}.json", "notes.json"])


def test_the_picture_has_a_line_per_request_and_a_box_per_batch():
    simulated = simulate(Batching(4), Service(10), arrivals_s=np.arange(100) * 0.002)
    grid = plot_timeline(SMALL, simulated, titles=("measured",), most=30)
    assert grid.shape == (3, 2)
    assert grid[0, 0].get_title(loc="left").startswith("measured\nmean batch 1.5")
    assert "first 30 requests" in grid[0, 1].get_title(loc="left")
    assert len(grid[2, 0].patches) == 2 and [text.get_text() for text in grid[2, 0].texts] == ["1", "2"]
    waits, runs = grid[0, 0].collections[:2]
    assert len(waits.get_segments()) == len(runs.get_segments()) == 3
    assert "ms" in grid[2, 0].get_xlabel()
