"""The health exercise of notebook 05 without a server: what no live server shows in a second."""

from __future__ import annotations

import re
from types import SimpleNamespace

import nbformat
import pytest

from tutorial_lib.course import checks_05
from tutorial_lib.course.checks_05 import WRONG, check_is_healthy
from tutorial_lib.errors import ExerciseError, ServerError
from tutorial_lib.paths import NOTEBOOKS


class Control:
    """Of a server with one model, whose stub can be killed: it is called ready all the same."""

    def __init__(self) -> None:
        self.alive = True

    def ready(self, model=None):
        return model == "good"

    def metadata(self, model):
        if model != "good":
            raise ServerError(f"no model {model}.")
        return {}

    def infer(self, model, body, *, timeout_s=10.0):
        if not (self.alive and self.ready(model)):
            raise ServerError("Stub process 'good' is not healthy.")
        return {"outputs": []}


@pytest.fixture
def server(monkeypatch):
    control = Control()

    def revive(model):
        control.alive = True

    def kill(server, model):
        control.alive = False

    monkeypatch.setattr(checks_05, "_kill_stubs", kill)
    return SimpleNamespace(running=True, control=control, unload=lambda model: None, load=revive)


def answer(source: str):
    names: dict = {"ServerError": ServerError, "zeros_request": lambda metadata: {"inputs": []}}
    exec(source, names)
    return names["is_healthy"]


def test_the_solution_passes(server, capsys):
    cells = nbformat.read(NOTEBOOKS / "05_launch_triton.ipynb", as_version=4).cells
    text = next(cell.source for cell in cells if cell.id == "healthy-solution")
    check_is_healthy(answer(re.search(r"```python\n(.*?)```", text, re.S)[1]), server)
    assert "✓ Right" in capsys.readouterr().out and server.control.alive


@pytest.mark.parametrize("number", range(len(WRONG["check_is_healthy"])))
def test_planted_answers_are_refused(server, number):
    code, told = WRONG["check_is_healthy"][number]
    with pytest.raises(ExerciseError, match=re.escape("ServerError" if told.startswith("your line") else told)):
        check_is_healthy(answer(code), server)
    assert server.control.alive, "the stub is healed whatever the answer"


@pytest.mark.parametrize("wait", ["None", "0", "3600", "'5'"])
def test_a_wait_must_be_one(server, wait):
    code = WRONG["check_is_healthy"][3][0].replace(
        "control.metadata(model)))", f"control.metadata(model)), timeout_s={wait})"
    )
    with pytest.raises(ExerciseError, match="timeout_s of at most 20"):
        check_is_healthy(answer(code), server)


def test_who_never_asks_a_silent_model_is_refused(server):
    def is_healthy(control, model):
        return control.ready(model) and server.control.alive

    with pytest.raises(ExerciseError, match="no answer comes"):
        check_is_healthy(is_healthy, server)
