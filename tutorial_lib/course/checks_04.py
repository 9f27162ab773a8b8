"""Checks of the exercises in notebook 04."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tutorial_lib.course.checks import attempted, right, wrong
from tutorial_lib.errors import RepositoryError, ServerError
from tutorial_lib.repository import check_against_onnx, parse_config
from tutorial_lib.server import Server


def check_wire_shape(wire_shape: Callable[[int, list[int]], list[int]]) -> None:
    """`wire_shape(max_batch_size, dims)` must give the shape a client sends.

    Raises:
        ExerciseError: it does not.
    """
    if not attempted(wire_shape(8, [3, 32, 32])):
        return
    expected = {(8, (3, 32, 32)): [-1, 3, 32, 32], (0, (1, 77)): [1, 77], (1, (-1,)): [-1, -1], (0, (-1, 10)): [-1, 10]}
    for (max_batch_size, dims), shape in expected.items():
        yours = wire_shape(max_batch_size, list(dims))
        if yours is None or list(yours) != shape:
            asked = f"for max_batch_size {max_batch_size} and dims {list(dims)}"
            hint = "above zero, even at 1, Triton puts a batch axis in front; at zero it adds nothing."
            raise wrong(yours, f"{shape} {asked}", hint)
    right("you know which shape goes over the wire, with and without batching.")


def check_mended(mended: object, server: Server, onnx_file: Path) -> None:
    """`mended` must be a configuration that the running server loads and that answers.

    Args:
        mended: the text of a config.pbtxt for the model "published".
        server: a server in explicit mode on a scratch repository of ours.
        onnx_file: the model file.

    Raises:
        ExerciseError: it cannot be read, does not fit the ONNX file, or the server refuses it.
    """
    if not attempted(mended):
        return
    if not isinstance(mended, str):
        raise wrong(f"a {type(mended).__name__}", "a text", "mended is the whole config.pbtxt as one string.")
    try:
        config = parse_config(mended)
        check_against_onnx(config, onnx_file)
    except RepositoryError as error:
        raise wrong(error.problem, "a configuration that agrees with the ONNX file", error.action) from None
    if config.name not in ("", "published"):
        raise wrong(f"name {config.name!r}", "'published', the folder's name", "leave the name line as it was.")
    if config.max_batch_size < 2:
        hint = "keep max_batch_size: 32; the batch belongs there, not in dims."
        raise wrong(f"max_batch_size {config.max_batch_size}", "a model that can batch", hint)
    folder = server.repositories[0] / "published"
    (folder / "1").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(onnx_file, folder / "1" / "model.onnx")
    shutil.copyfile(server.repositories[0] / "good" / "labels.txt", folder / "labels.txt")
    (folder / "config.pbtxt").write_text(mended)
    try:
        server.load("published")
    except ServerError as error:
        raise wrong(error.problem, "a model that loads", "read the server's sentence: it names the field.") from None
    health = server.health("published")
    if not health:
        raise wrong(health.detail, "an answer to one request", "it loaded, but does not answer.")
    right("the running server loaded your configuration and answered a request with it.")
