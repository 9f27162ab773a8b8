"""The exercises of notebook 07 without a server: untouched, wrong and right answers."""

from __future__ import annotations

import contextlib
import re
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest

from tutorial_lib.course import checks_07
from tutorial_lib.course.checks_07 import WRONG, check_capacity, check_choose, check_setting
from tutorial_lib.errors import ExerciseError, ModelLoadError
from tutorial_lib.paths import NOTEBOOKS
from tutorial_lib.repository import parse_config

CONFIG = parse_config('name: "known_cost" max_batch_size: 16')


def solutions() -> list[str]:
    cells = nbformat.read(NOTEBOOKS / "07_batch_and_scale_up.ipynb", as_version=4).cells
    texts = [cell.source for cell in cells if "solution" in cell.metadata.get("tags", [])]
    return [re.search(r"```python\n(.*?)```", text, re.S)[1] for text in texts]


def run(source: str) -> dict:
    names: dict = {"pd": pd}
    exec(source, names)
    return names


@pytest.fixture
def server(monkeypatch):
    """What is loaded, and what a measurement would find."""
    made = SimpleNamespace(
        running=True, loaded=[], found={"mean_batch": 3.0, "p95_ms": 40.0, "errors": 0}, refuses=False
    )

    def load_config(_, config):
        if made.refuses:
            raise ModelLoadError("model 'known_cost': refused.")
        made.loaded.append(config)

    @contextlib.contextmanager
    def loaded_back(_, config):
        try:
            yield
        finally:
            made.loaded.append(config)

    monkeypatch.setattr(checks_07, "load_config", load_config)
    monkeypatch.setattr(checks_07, "loaded_back", loaded_back)
    monkeypatch.setattr(checks_07, "measure_load", lambda *_, **__: made.found)
    return made


def test_untouched_stubs_are_not_wrong(server, capsys):
    check_capacity(lambda fixed_ms, per_request_ms, batch: ...)
    check_setting({"dynamic": ..., "queue_delay_us": ...}, server, CONFIG, None)
    check_choose(lambda table, p95_limit_ms: ...)
    assert capsys.readouterr().out.count("○ Not attempted") == 3 and not server.loaded


def test_solutions_pass(server, capsys):
    capacity, setting, choose = map(run, solutions())
    check_capacity(capacity["capacity"])
    check_setting(setting["setting"], server, CONFIG, None)
    check_choose(choose["choose"])
    assert capsys.readouterr().out.count("✓ Right") == 3


@pytest.mark.parametrize(
    ("check", "name", "number"),
    [(check_capacity, "capacity", n) for n in range(3)] + [(check_choose, "choose", n) for n in range(2)],
)
def test_wrong_functions_are_told_what_is_wrong(check, name, number):
    code, told = WRONG[f"check_{name}"][number]
    with pytest.raises(ExerciseError, match=re.escape(told)):
        check(run(code)[name])


def test_a_choice_that_fails_on_an_empty_table_is_refused():
    with pytest.raises(ExerciseError, match="raised ValueError"):
        check_choose(run(WRONG["check_choose"][2][0])["choose"])


def test_one_stall_of_the_machine_does_not_refuse_a_right_setting(server, monkeypatch, capsys):
    found = iter([server.found | {"p95_ms": 200.0}, server.found])
    monkeypatch.setattr(checks_07, "measure_load", lambda *_, **__: next(found))
    check_setting({"instances": 1}, server, CONFIG, None)
    assert "p95 40 ms" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"mean_batch": 2.0, "p95_ms": 10.0, "errors": 0}, "ran alone"),
        ({"mean_batch": 9.0, "p95_ms": 80.1, "errors": 0}, "waits too long"),
        ({"mean_batch": 9.0, "p95_ms": 30.0, "errors": 1}, "waits too long"),
        ({"mean_batch": 9.0, "p95_ms": float("nan"), "errors": 0}, "waits too long"),
    ],
)
def test_a_setting_is_judged_by_what_is_measured(server, found, told):
    server.found = found
    with pytest.raises(ExerciseError, match=told):
        check_setting({"dynamic": True}, server, CONFIG, None)
    measured, after = server.loaded
    assert measured.HasField("dynamic_batching") and measured.parameters["fixed_ms"].string_value == "20"
    assert after == CONFIG, "the model is as before"


@pytest.mark.parametrize(
    "setting", [{"delay": 1}, {"dynamic": 1}, {1: 2}, "dynamic", None, {"parameters": {"fixed_ms": 0}}]
)
def test_settings_that_are_none(server, setting):
    with pytest.raises(ExerciseError, match="expected"):
        check_setting(setting, server, CONFIG, None)
    assert not server.loaded


def test_a_setting_the_server_refuses(server):
    server.refuses = True
    with pytest.raises(ExerciseError, match="refused"):
        check_setting({"dynamic": True}, server, CONFIG, None)
    assert server.loaded == [CONFIG]
