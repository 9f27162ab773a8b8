"""Settings, their diffs, the sweep that goes on, and reading what it measured; against a server that is none."""

from __future__ import annotations

import functools
import json
import math
from types import SimpleNamespace

import pandas as pd
import pytest

from tutorial_lib.errors import LoadError, ModelLoadError, RepositoryError
from tutorial_lib.paths import REFERENCE_REPOSITORY, WORKSPACE_VARIABLE, workspace
from tutorial_lib.repository import format_config, parse_config, read_config
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
from tutorial_lib.tuning.sweep import combinations, contents_of, state_path

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

    def __init__(self, refuses=(), repositories=()):
        self.loads, self.refuses, self.repositories = [], refuses, repositories

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


FAILED_ROWS = [
    {"throughput_rps": 5.0, "p95_ms": 1.0, "error": "ended after 3 s: the server has been gone for 2.0 s"},
    {"throughput_rps": 0.0, "p95_ms": math.nan, "errors": 0},
    {"throughput_rps": 0.0, "p95_ms": 1.0},
    {"throughput_rps": 5.0, "p95_ms": 1.0, "errors": 3},
]


@pytest.mark.parametrize("failed", FAILED_ROWS)
def test_what_failed_is_shown_and_measured_again(failed):
    good = {"throughput_rps": 7.0, "p95_ms": 2.0, "errors": 0}
    rows = iter([good, failed, good])
    sweep = functools.partial(run_sweep, Recorder(), DIGITS, {"instances": [1, 3]}, about="x", progress=False)
    first = sweep(lambda: next(rows))
    assert first.complete and first.table["p95_ms"].tolist() == pytest.approx([2.0, failed["p95_ms"]], nan_ok=True)
    assert first.table.get("error", pd.Series([None, None]))[1] == failed.get("error")
    again = sweep(lambda: next(rows))
    assert again.table["throughput_rps"].tolist() == [7.0, 7.0] and not next(rows, None)


def test_a_refused_combination_is_tried_again_and_does_not_hold_up_the_others():
    server, times = Recorder(refuses=[1]), []
    sweep = functools.partial(run_sweep, server, DIGITS, {"instances": [1, 3, 4]}, about="x", progress=False)
    assert sweep(measured(server, times), most=1).table["instances"].tolist() == [1, 3] and times == [3]
    server.refuses = ()
    found = sweep(measured(server, times))
    assert times == [3, 1, 4] and found.complete and "error" not in found.table


def test_rows_that_an_older_sweep_kept_of_a_failure_are_not_believed():
    server, times = Recorder(), []
    sweep = functools.partial(run_sweep, server, DIGITS, {"instances": [1]}, measured(server, times), about="x")
    sweep(progress=False)
    path = state_path(DIGITS, server.label, "x")
    (key,) = json.loads(path.read_text())
    for row in (*FAILED_ROWS, {"error": "refused"}, 5):
        path.write_text(json.dumps({key: row}))
        assert sweep(progress=False).table["throughput_rps"].tolist() == [100.0]
    assert times == [1] * 7


def test_retrained_weights_are_another_sweep(tmp_path):
    weights = tmp_path / "repository" / DIGITS.name / "1" / "model.onnx"
    weights.parent.mkdir(parents=True)
    server, times = Recorder(repositories=(tmp_path / "repository",)), []
    sweep = functools.partial(run_sweep, server, DIGITS, {"instances": [1]}, measured(server, times), about="x")

    def measured_anew(content, path=weights):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        before = len(times)
        sweep(progress=False)
        return len(times) > before

    assert measured_anew(b"first") and not measured_anew(b"first")
    assert measured_anew(b"other") and not measured_anew(b"first"), "of equal length; and back to what is known"
    assert measured_anew(b"x", weights.parents[1] / "2" / "model.onnx"), "another version"
    assert not measured_anew(b"x", weights.parent / "__pycache__" / "model.pyc")
    assert not measured_anew(b"x", weights.parents[1] / "labels.txt"), "no file of a version"
    assert not measured_anew(b"x", weights.parents[2] / "another_model" / "1" / "model.onnx")


def test_an_ensemble_is_as_old_as_its_steps(tmp_path):
    weights = tmp_path / "step" / "1" / "model.onnx"
    weights.parent.mkdir(parents=True)
    config = parse_config('name: "whole" ensemble_scheduling { step { model_name: "step" } }')
    found = []
    for content in (b"a", b"b", b"a"):
        weights.write_bytes(content)
        found.append(contents_of([tmp_path], config))
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize("grid", [{}, {"instances": []}])
def test_an_empty_grid_is_refused(grid):
    with pytest.raises(LoadError, match="empty grid"):
        run_sweep(Recorder(), DIGITS, grid, dict, about="x", progress=False)
    with pytest.raises(RepositoryError):
        run_sweep(Recorder(), DIGITS, {"nonsense": [1]}, dict, about="x", progress=False)


def test_half_a_run_is_no_result(monkeypatch):
    whole = SimpleNamespace(
        **{"interrupted": False, "throughput_rps": 12.345, "mean_ms": 1.0, "p50_ms": 1.0, "p95_ms": 2.0, "failed": 6},
        **{"answered": 7, "ended_early": "", "error_messages": {"no answer within 1 s": 6}},
    )
    plans = []
    counts = iter([(10, 5), (40, 15), *[(40, 15)] * 5])
    server = SimpleNamespace(
        statistics=lambda model: dict(zip(("inference_count", "execution_count"), next(counts), strict=True))
    )
    monkeypatch.setattr("tutorial_lib.load.run_load", lambda target, **plan: plans.append(plan) or whole, raising=False)
    found = measure_load(server, "m", None, concurrency=1, duration_s=2)
    assert plans == [{"progress": False, "warm_up_s": 0.5, "concurrency": 1, "duration_s": 2}]
    assert found["errors"] == 6 and found["mean_batch"] == 3.0 and found["throughput_rps"] == 12.3
    assert "error" not in found
    whole.answered = 0
    told = measure_load(server, "m", None, concurrency=1)["error"]
    assert told == "m: nothing was answered in the measured window; no answer within 1 s"
    whole.ended_early = "the server has gone"
    assert measure_load(server, "m", None, concurrency=1)["error"] == "the server has gone"
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


def test_a_setting_whose_requests_fail_is_not_the_best():
    table = CURVE.assign(errors=[0, 0, 0, 1, 50_000])
    assert best_row(table, p95_limit_ms=60)["callers"] == 4
    with pytest.raises(LoadError, match="found failed requests in all 5 rows, expected one without"):
        best_row(CURVE.assign(errors=3), p95_limit_ms=60)
    words = CURVE.assign(error=[None, float("nan"), "", "gone", "gone"], errors=[0, float("nan"), 0, 0, 0])
    assert best_row(words, p95_limit_ms=60)["callers"] == 4


def test_a_curve_without_numbers_has_no_knee():
    nothing = CURVE.assign(mean_ms=float("nan"), p95_ms=float("nan"))
    with pytest.raises(LoadError, match="curve: found no measurement in 5 rows"):
        knee(nothing)
    some = nothing.copy()
    some.loc[2, "mean_ms"] = 13.0
    assert knee(some)["callers"] == 4


def test_every_curve_is_drawn_and_looks_like_no_other():
    axes = plot_curves({f"setting {n}": CURVE for n in range(12)}, title="T")
    lines = [line for line in axes.get_lines() if line.get_label().startswith("setting")]
    assert len({(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}) == 12
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [f"setting {n}" for n in range(12)]


def test_pictures_say_what_they_show():
    axes = plot_curves({"off": CURVE, "on": CURVE}, title="T")
    assert "ms" in axes.get_ylabel() and "requests/s" in axes.get_xlabel()
    server, times = Recorder(), []
    found = run_sweep(server, DIGITS, GRID, measured(server, times), about="x", progress=False)
    best = best_row(found.table, p95_limit_ms=20)
    axes = plot_sweep(found, p95_limit_ms=20, best=best, title="T")
    texts = [text.get_text() for text in axes.texts]
    assert sum("best" in text for text in texts) == 1 and server.label in axes.get_title(loc="left")
