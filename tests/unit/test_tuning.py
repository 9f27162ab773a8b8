"""Settings, their diffs, the sweep that goes on, and reading what it measured; against a server that is none."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pandas as pd
import pytest

from tutorial_lib.errors import LoadError, ModelLoadError, RepositoryError
from tutorial_lib.paths import REFERENCE_REPOSITORY, WORKSPACE_VARIABLE, workspace
from tutorial_lib.repository import format_config, read_config
from tutorial_lib.tuning import (
    best_row,
    config_diff,
    forget,
    knee,
    measure_load,
    plot_curves,
    plot_sweep,
    run_sweep,
    with_settings,
    write_config,
)
from tutorial_lib.tuning.sweep import combinations, state_path

DIGITS = read_config(REFERENCE_REPOSITORY / "densenet_onnx")


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path))


# settings


def test_settings_change_what_they_say_and_nothing_else():
    found = with_settings(DIGITS, instances=3, threads=1, queue_delay_us=500, preferred=[4, 8], max_batch_size=16)
    assert [(group.count, group.kind) for group in found.instance_group] == [(3, DIGITS.instance_group[0].kind)]
    assert found.parameters["intra_op_thread_count"].string_value == "1"
    assert found.dynamic_batching.max_queue_delay_microseconds == 500
    assert list(found.dynamic_batching.preferred_batch_size) == [4, 8]
    back = with_settings(found, instances=2, max_batch_size=32)
    back.dynamic_batching.Clear()
    back.dynamic_batching.SetInParent()
    back.parameters.clear()
    assert back == DIGITS == read_config(REFERENCE_REPOSITORY / "densenet_onnx"), "the original is not touched"


def test_batching_goes_off_and_on():
    off = with_settings(DIGITS, dynamic=False)
    assert not off.HasField("dynamic_batching")
    assert with_settings(off, dynamic=True).HasField("dynamic_batching")
    assert with_settings(off, queue_delay_us=0).HasField("dynamic_batching")
    assert with_settings(DIGITS, parameters={"fixed_ms": 5}).parameters["fixed_ms"].string_value == "5"


@pytest.mark.parametrize(
    "settings",
    [
        {"delay": 1},
        {"instances": 0},
        {"instances": True},
        {"threads": 1.5},
        {"queue_delay_us": -1},
        {"queue_delay_us": "1 ms"},
        {"preferred": "4"},
        {"preferred": [0]},
        {"dynamic": "yes"},
        {"dynamic": False, "queue_delay_us": 100},
        {"dynamic": False, "preferred": [4]},
        {"max_batch_size": -1},
        {"parameters": "fixed"},
    ],
)
def test_settings_that_are_none(settings):
    with pytest.raises(RepositoryError, match="found .* expected"):
        with_settings(DIGITS, **settings)


def test_a_diff_shows_the_lines_that_change():
    told = config_diff(DIGITS, with_settings(DIGITS, instances=4))
    assert told and [line for line in told.lines if line[0] in "+-"] == ["-  count: 2", "+  count: 4"]
    page = told._repr_html_()
    assert "count: 4" in page and "#1b7f5f" in page
    assert not config_diff(DIGITS, DIGITS) and str(config_diff(DIGITS, DIGITS)) == "(no difference)"
    nasty = with_settings(DIGITS, parameters={"<script>": "&"})
    assert "<script>" not in config_diff(DIGITS, nasty)._repr_html_()


def test_writing_is_whole_or_not_at_all(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.pbtxt").write_text(format_config(DIGITS))
    changed = with_settings(DIGITS, instances=4)
    assert write_config(folder, changed) and read_config(folder) == changed
    (folder / "config.pbtxt").write_text("nonsense {")
    with pytest.raises(RepositoryError):
        write_config(folder, changed)
    assert (folder / "config.pbtxt").read_text() == "nonsense {"
    assert [path.name for path in folder.iterdir()] == ["config.pbtxt"]


# the sweep


class Recorder:
    """A server that remembers what it was asked to load."""

    label = "Triton 0 embedded · CPU ×2"

    def __init__(self, refuses=()):
        self.loads, self.refuses = [], refuses

    def unload(self, name):
        self.loads.append(None)

    def load(self, name, *, config=None):
        count = json.loads(config)["instance_group"][0]["count"]
        if count in self.refuses:
            raise ModelLoadError(f"model '{name}': Triton refused.")
        self.loads.append(json.loads(config))

    @property
    def count(self):
        return self.loads[-1]["instance_group"][0]["count"]


GRID = {"instances": [1, 3], "dynamic": [False, True], "queue_delay_us": [0, 100]}


def measured(server, times):
    def measure():
        times.append(server.count)
        return {"throughput_rps": 100.0 * server.count, "p95_ms": 10.0 * server.count}

    return measure


def test_without_batching_a_delay_is_not_another_combination():
    assert combinations(GRID) == [
        {"instances": 1, "dynamic": False},
        {"instances": 1, "dynamic": True, "queue_delay_us": 0},
        {"instances": 1, "dynamic": True, "queue_delay_us": 100},
        {"instances": 3, "dynamic": False},
        {"instances": 3, "dynamic": True, "queue_delay_us": 0},
        {"instances": 3, "dynamic": True, "queue_delay_us": 100},
    ]


def test_every_combination_once_and_the_server_as_before():
    server, times = Recorder(), []
    found = run_sweep(server, DIGITS, GRID, measured(server, times), about="x", progress=False)
    assert found.complete and times == [1, 1, 1, 3, 3, 3]
    assert list(found.table["throughput_rps"]) == [100, 100, 100, 300, 300, 300]
    assert server.count == DIGITS.instance_group[0].count
    assert found.setting(found.table.to_dict("records")[0]) == {"instances": 1, "dynamic": False}
    for point, row in zip(combinations(GRID), found.table.to_dict("records"), strict=True):
        assert found.setting(row) == point and with_settings(DIGITS, **found.setting(row))
    assert type(found.setting(found.table.iloc[1])["queue_delay_us"]) is int
    again = run_sweep(server, DIGITS, GRID, measured(server, times), about="x", progress=False)
    assert len(times) == 6 and again.table.equals(found.table), "nothing is measured twice"
    larger = run_sweep(server, DIGITS, GRID | {"instances": [1, 2]}, measured(server, times), about="x", progress=False)
    assert times[6:] == [2, 2, 2] and larger.complete
    run_sweep(server, DIGITS, GRID, measured(server, times), about="another load", progress=False)
    assert len(times) == 15
    forget(DIGITS, server.label, "x")
    run_sweep(server, DIGITS, GRID, measured(server, times), about="x", progress=False)
    assert len(times) == 21


def test_an_interrupted_sweep_goes_on_where_it_was():
    server, times = Recorder(), []
    inner = measured(server, times)

    def interrupted():
        if len(times) == 2:
            raise KeyboardInterrupt
        return inner()

    with pytest.raises(KeyboardInterrupt):
        run_sweep(server, DIGITS, GRID, interrupted, about="x", progress=False)
    assert times == [1, 1] and server.count == 2, "back to the configuration given"
    some = run_sweep(server, DIGITS, GRID, inner, about="x", most=1, progress=False)
    assert not some.complete and len(some.table) == 3
    assert run_sweep(server, DIGITS, GRID, inner, about="x", progress=False).complete
    assert len(times) == 6


def test_a_state_that_is_none_is_measured_anew():
    server, times = Recorder(), []
    path = state_path(DIGITS, server.label, "x")
    path.parent.mkdir(parents=True)
    for rubbish in ("", "{", "[1]", '"text"'):
        path.write_text(rubbish)
        forgotten = run_sweep(server, DIGITS, {"instances": [1]}, measured(server, times), about="x", progress=False)
        assert forgotten.complete
    assert len(times) == 4
    assert not list(workspace().model_repository.glob("**/*")), "no model repository is touched"


def test_a_combination_that_does_not_load_is_a_row_with_its_reason():
    server, times = Recorder(refuses=[3]), []
    found = run_sweep(server, DIGITS, {"instances": [1, 3]}, measured(server, times), about="x", progress=False)
    assert times == [1] and "refused" in found.table["error"][1] and pd.isna(found.table["throughput_rps"][1])
    assert best_row(found.table, p95_limit_ms=50)["instances"] == 1
    with pytest.raises(LoadError, match="no combination loaded"):
        run_sweep(server, DIGITS, {"instances": [3]}, measured(server, times), about="y", progress=False)


@pytest.mark.parametrize("grid", [{}, {"instances": []}])
def test_an_empty_grid_is_refused(grid):
    with pytest.raises(LoadError, match="empty grid"):
        run_sweep(Recorder(), DIGITS, grid, dict, about="x", progress=False)
    with pytest.raises(RepositoryError):
        run_sweep(Recorder(), DIGITS, {"nonsense": [1]}, dict, about="x", progress=False)


def test_half_a_run_is_no_result(monkeypatch):
    whole = SimpleNamespace(
        interrupted=False, throughput_rps=12.345, mean_ms=1.0, p50_ms=1.0, p95_ms=2.0, errors=1, timeouts=2, lost=3
    )
    plans = []
    counts = iter([(10, 5), (40, 15), (40, 15)])
    server = SimpleNamespace(
        statistics=lambda model: dict(zip(("inference_count", "execution_count"), next(counts), strict=True))
    )
    monkeypatch.setattr("tutorial_lib.load.run_load", lambda target, **plan: plans.append(plan) or whole, raising=False)
    found = measure_load(server, "m", None, concurrency=1, duration_s=2)
    assert plans == [{"progress": False, "warm_up_s": 0.5, "concurrency": 1, "duration_s": 2}]
    assert found["errors"] == 6 and found["mean_batch"] == 3.0 and found["throughput_rps"] == 12.3
    whole.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        measure_load(server, "m", None, concurrency=1)


# reading


def curve(*rows):
    return pd.DataFrame(rows, columns=["callers", "throughput_rps", "mean_ms", "p95_ms"])


CURVE = curve((1, 100, 10, 11), (2, 190, 10.5, 12), (4, 300, 13, 16), (8, 320, 25, 30), (16, 325, 49, 60))


def test_the_knee_is_where_throughput_per_latency_is_highest():
    assert knee(CURVE)["callers"] == 4
    with pytest.raises(LoadError):
        knee(CURVE[:0])


def test_a_loop_over_one_constant_server_bends_at_its_first_caller():
    """Closed formula: one server of time S gives 1/S at n·S; throughput per latency falls as 1/n."""
    table = curve(*[(n, 100, 10 * n, 10 * n) for n in (1, 2, 4, 8)])
    assert knee(table)["callers"] == 1


def test_the_best_is_the_fastest_within_the_limit_and_of_equals_the_quickest():
    assert best_row(CURVE, p95_limit_ms=60)["callers"] == 8, "16 callers are 1.6 % faster: a tie"
    assert best_row(CURVE, p95_limit_ms=16)["callers"] == 4, "inclusive"
    with pytest.raises(LoadError, match="lowest is 11.0 ms"):
        best_row(CURVE, p95_limit_ms=5)
    with pytest.raises(LoadError, match="nothing measured"):
        best_row(CURVE[:0], p95_limit_ms=5)


def test_pictures_say_what_they_show():
    axes = plot_curves({"off": CURVE, "on": CURVE}, title="T")
    assert "ms" in axes.get_ylabel() and "requests/s" in axes.get_xlabel()
    server, times = Recorder(), []
    found = run_sweep(server, DIGITS, GRID, measured(server, times), about="x", progress=False)
    best = best_row(found.table, p95_limit_ms=20)
    axes = plot_sweep(found, p95_limit_ms=20, best=best, title="T")
    texts = [text.get_text() for text in axes.texts]
    assert sum("best" in text for text in texts) == 1 and server.label in axes.get_title(loc="left")
