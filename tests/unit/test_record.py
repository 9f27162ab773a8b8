from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tutorial_lib.course import record as module
from tutorial_lib.course.record import NotebookSkipped, record, skip, skip_notebook
from tutorial_lib.paths import WORKSPACE_VARIABLE


@pytest.fixture
def lines(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "records.jsonl"
    monkeypatch.setenv(module.RECORDS_VARIABLE, str(path))
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (3, 3),
        (2.5, 2.5),
        ("a seven", "a seven"),
        (True, True),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.array([4]), 4),
    ],
)
def test_a_value_is_given_back_and_written_as_json_knows_it(lines, value, written):
    assert record("n", value, "ms", tier="T") is value
    assert lines() == [{"kind": "number", "name": "n", "value": written, "unit": "ms", "tier": "T"}]
    assert type(lines()[0]["value"]) is type(written)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_what_json_cannot_say_is_empty_with_a_note(lines, value):
    record("n", value, tier="T")
    (line,) = lines()
    assert line["value"] is None
    assert line["note"] == f"the value was {float(value)}"


@pytest.mark.parametrize("value", [[1, 2], None, np.zeros(2), {"a": 1}])
def test_what_is_not_one_value_is_refused_by_name(lines, value):
    with pytest.raises(TypeError, match=r"record\('wide'\).*one number"):
        record("wide", value, tier="T")


def test_without_a_runner_records_go_into_the_workspace(tmp_path, monkeypatch):
    monkeypatch.delenv(module.RECORDS_VARIABLE, raising=False)
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path))
    record("n", 1, tier="T")
    assert json.loads((tmp_path / "records" / "session.jsonl").read_text())["value"] == 1


def test_the_tier_is_the_one_of_the_running_server(lines, monkeypatch):
    monkeypatch.setattr("tutorial_lib.server.label", lambda: "Triton 9 somewhere")
    record("n", 1)
    assert lines()[0]["tier"] == "Triton 9 somewhere"


def test_a_skipped_step_is_written_and_said(lines, capsys):
    skip("compose", "no Docker engine", tier="T")
    assert lines() == [{"kind": "skip", "name": "compose", "value": "no Docker engine", "unit": "", "tier": "T"}]
    assert "compose" in capsys.readouterr().out


def test_threads_never_mix_their_lines(lines):
    names = [f"n{number}" * 300 for number in range(200)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: record(name, 1, tier="T"), names))
    assert sorted(line["name"] for line in lines()) == sorted(names)


def test_skipping_a_notebook_shows_one_line_in_jupyter():
    with pytest.raises(NotebookSkipped, match="needs Docker") as caught:
        skip_notebook("needs Docker")
    assert caught.value._render_traceback_() == ["○ This notebook stops here: needs Docker"]
