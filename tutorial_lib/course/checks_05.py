"""Checks of the exercises in notebook 05."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import psutil

from tutorial_lib.course.checks import exercise, wrong
from tutorial_lib.errors import ServerError
from tutorial_lib.server import Server
from tutorial_lib.server.control import Control
from tutorial_lib.server.heal import instances

CUT_MODEL = "cut"
LONGEST_S = 20.0  # more patience than any health check needs


@exercise(
    "05-guilty-file",
    hints=[
        "print beside.decisive_lines(), as above: one line says why a model failed to load, and names a file.",
        "the sentence is 'Load model from … failed'; of its path, keep the last three parts: model/version/file.",
    ],
)
def check_guilty_file(guilty_file: object, server: Server) -> str:
    """`guilty_file` must be the file that the server's log blames.

    Args:
        guilty_file: "model/version/file".
        server: the server that was started beside a broken model.

    Raises:
        ExerciseError: the log does not blame that file.
    """
    expected = f"{CUT_MODEL}/1/model.onnx"
    yours = str(guilty_file).strip().lstrip("/")
    if not yours.endswith(expected) or expected not in "\n".join(server.decisive_lines()):
        note = ""
        if yours in ("model.onnx", "1/model.onnx"):
            note = "which model's? Every model has a file of that name."
        elif "good" in yours:
            note = "`good` is the model that loaded."
        raise wrong(guilty_file, "the file in the sentence 'Load model from … failed'", note)
    return "you can find the guilty file in a Triton log."


class _Staged:
    """The server's control, but for what it says of a model's readiness, and whether the model answers.

    Attributes:
        waits: the `timeout_s` of each `infer`; None where none was given.
    """

    def __init__(self, control: Control, *, ready: bool, answers: bool) -> None:
        self._control, self._ready, self._answers = control, ready, answers
        self.waits: list[object] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)

    def ready(self, model: str | None = None) -> bool:
        return self._ready

    def infer(self, model: str, body: Mapping[str, Any], *, timeout_s: float | None = None) -> dict[str, Any]:
        self.waits.append(timeout_s)
        if not self._answers:
            raise ServerError(f"{model}: no answer within {timeout_s} s.")
        return self._control.infer(model, body)


def _kill_stubs(server: Server, model: str) -> None:
    for process in instances(server, model):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@exercise(
    "05-is-healthy",
    hints=[
        "`ready` stays true when the stub is dead, so ready is not enough: the model has to be asked something.",
        "`infer` raises ServerError when the stub is dead: put it into try, and return False in `except ServerError`.",
        "first `if not control.ready(model): return False`; then try `control.infer(…)` with zeros, as above.",
    ],
)
def check_is_healthy(is_healthy: Callable[[Control, str], bool], server: Server) -> str:
    """`is_healthy` must tell a model that answers from one that is only called ready.

    The check kills the stub of the model `good`, asks, and heals it again. A model that hangs, and one that
    answers but is called not ready, are played: neither can be had from a live server in a second.

    Raises:
        ExerciseError: it takes a dead, a missing, a hanging or an unready model for healthy, or a live one
            for dead, or it does not say how long it waits.
    """
    alive = is_healthy(server.control, "good")
    if alive is not True:
        raise wrong(alive, "True: the model `good` is alive and answers", "return True or False, nothing else.")
    missing = is_healthy(server.control, "not_there")
    if missing is not False:
        raise wrong(missing, "False for a model that is not there", "ask control.ready(model) first.")
    _kill_stubs(server, "good")
    try:
        dead = is_healthy(server.control, "good")
    finally:
        server.unload("good")
        server.load("good")
    if dead is not False:
        raise wrong(dead, "False: the stub of `good` was killed", "it is still ready, so ready does not tell.")
    unready = is_healthy(_Staged(server.control, ready=False, answers=True), "good")
    if unready is not False:
        raise wrong(
            unready, "False: `good` answers, but is called not ready", "both are asked: control.ready(model), too."
        )
    hangs = _Staged(server.control, ready=True, answers=False)
    hanging = is_healthy(hangs, "good")
    if hanging is not False:
        raise wrong(
            hanging, "False: `good` is ready, and no answer comes", "ask control.infer(…), and catch ServerError."
        )
    unlimited = [wait for wait in hangs.waits if not isinstance(wait, int | float) or not 0 < wait <= LONGEST_S]
    if unlimited:
        note = "a stub can hang as well as die: say how long to wait for its answer, as in timeout_s=5."
        raise wrong(f"infer with timeout_s={unlimited[0]}", f"timeout_s of at most {LONGEST_S:g}", note)
    return "your function saw a dead model that Triton still called ready."


WRONG = {
    "check_guilty_file": [
        ("guilty_file = 'model.onnx'", "which model's?"),
        ("guilty_file = 'good/1/model.onnx'", "the model that loaded"),
        ("guilty_file = None", "yours:    None"),
    ],
    "check_is_healthy": [
        ("def is_healthy(control, model):\n    return control.ready(model)", "ready does not tell"),
        (
            "def is_healthy(control, model):\n"
            "    if not control.ready(model):\n"
            "        return False\n"
            "    control.infer(model, zeros_request(control.metadata(model)), timeout_s=5)\n"
            "    return True",
            "your line 4, `control.infer(",
        ),
        ("def is_healthy(control, model):\n    return True", "a model that is not there"),
        (
            "def is_healthy(control, model):\n"
            "    if not control.ready(model):\n"
            "        return False\n"
            "    try:\n"
            "        control.infer(model, zeros_request(control.metadata(model)))\n"
            "    except ServerError:\n"
            "        return False\n"
            "    return True",
            "say how long to wait",
        ),
        (
            "def is_healthy(control, model):\n"
            "    try:\n"
            "        control.infer(model, zeros_request(control.metadata(model)), timeout_s=5)\n"
            "    except ServerError:\n"
            "        return False\n"
            "    return True",
            "is called not ready",
        ),
    ],
}
