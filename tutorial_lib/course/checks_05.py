"""Checks of the exercises in notebook 05."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil

from tutorial_lib.course.checks import attempted, right, wrong
from tutorial_lib.server import Server
from tutorial_lib.server.control import Control

CUT_MODEL = "cut"


def check_guilty_file(guilty_file: object, server: Server) -> None:
    """`guilty_file` must be the file that the server's log blames.

    Args:
        guilty_file: "model/version/file".
        server: the server that was started beside a broken model.

    Raises:
        ExerciseError: the log does not blame that file.
    """
    if not attempted(guilty_file):
        return
    expected = f"{CUT_MODEL}/1/model.onnx"
    yours = str(guilty_file).strip().lstrip("/")
    if not yours.endswith(expected) or expected not in "\n".join(server.decisive_lines()):
        raise wrong(
            guilty_file, "the file in the sentence 'Load model from … failed'", "three parts: model/version/file."
        )
    right("you can find the guilty file in a Triton log.")


def _kill_stubs(server: Server, model: str) -> None:
    for process in psutil.Process(server.process.pid).children():
        with contextlib.suppress(psutil.Error):  # an earlier victim that is not reaped yet has no command line
            if f"/{model}/" in " ".join(process.cmdline()):
                process.kill()


def check_is_healthy(is_healthy: Callable[[Control, str], bool], server: Server) -> None:
    """`is_healthy` must tell a model that answers from one that is only called ready.

    The check kills the stub of the model `good`, asks, and heals it again.

    Raises:
        ExerciseError: it takes a dead or a missing model for healthy, or a live one for dead.
    """
    if not attempted(is_healthy(server.control, "good")):
        return
    if is_healthy(server.control, "good") is not True:
        raise wrong(is_healthy(server.control, "good"), True, "the model `good` is alive and answers.")
    if is_healthy(server.control, "not_there") is not False:
        raise wrong("True for a model that is not there", False, "ask control.ready(model) first.")
    _kill_stubs(server, "good")
    try:
        yours = is_healthy(server.control, "good")
    except Exception as error:
        raise wrong(
            f"raised {type(error).__name__}", False, "infer raises ServerError: catch it and return False."
        ) from None
    finally:
        server.unload("good")
        server.load("good")
    if yours is not False:
        raise wrong(yours, False, "the stub of `good` was killed: it is still ready, so it has to be asked something.")
    right("your function saw a dead model that Triton still called ready.")
