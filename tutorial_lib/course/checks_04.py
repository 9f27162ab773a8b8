"""Checks of the exercises in notebook 04."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tutorial_lib.course.checks import exercise, wrong
from tutorial_lib.errors import RepositoryError, ServerError
from tutorial_lib.repository import check_against_onnx, parse_config
from tutorial_lib.server import Server


@exercise(
    "04-wire-shape",
    hints=[
        "what does max_batch_size say about the first axis of a request?",
        "above zero, even at 1, Triton puts a batch axis of open size (-1) in front of dims; at zero it adds nothing.",
    ],
)
def check_wire_shape(wire_shape: Callable[[int, list[int]], list[int]]) -> str:
    """`wire_shape(max_batch_size, dims)` must give the shape a client sends.

    Raises:
        ExerciseError: it does not.
    """
    expected = {(8, (3, 32, 32)): [-1, 3, 32, 32], (0, (1, 77)): [1, 77], (1, (-1,)): [-1, -1], (0, (-1, 10)): [-1, 10]}
    for (max_batch_size, dims), shape in expected.items():
        yours = wire_shape(max_batch_size, list(dims))
        if yours is None or list(yours) != shape:
            note = ""
            if yours is not None and list(yours) == [max_batch_size, *dims]:
                note = "max_batch_size is the most a request may carry, not what each one carries."
            elif max_batch_size == 1:
                note = "a limit of 1 is still batching: the axis is there."
            raise wrong(yours, f"{shape} for max_batch_size {max_batch_size} and dims {list(dims)}", note)
    return "you know which shape goes over the wire, with and without batching."


@exercise(
    "04-mended",
    hints=[
        "the published configuration has three faults; the note above names the first that is left.",
        "one fault is a bracket: the list that `output [` opens is never closed. End it with `} ]`.",
        "two are dims: they never hold the batch when max_batch_size is above zero. Take the leading 1 from both.",
    ],
)
def check_mended(mended: object, server: Server, onnx_file: Path) -> str:
    """`mended` must be a configuration that the running server loads and that answers.

    Args:
        mended: the text of a config.pbtxt for the model "published".
        server: a server in explicit mode on a scratch repository of ours.
        onnx_file: the model file.

    Raises:
        ExerciseError: it cannot be read, does not fit the ONNX file, or the server refuses it.
    """
    if not isinstance(mended, str):
        raise wrong(f"a {type(mended).__name__}", "the whole config.pbtxt as one string")
    try:
        config = parse_config(mended)
        check_against_onnx(config, onnx_file)
    except RepositoryError as error:
        raise wrong(error.problem, "a configuration that agrees with the ONNX file", error.action) from None
    if config.name not in ("", "published"):
        raise wrong(f"name {config.name!r}", "'published', the folder's name", "leave the name line as it was.")
    if config.max_batch_size < 2:
        note = "keep max_batch_size: 32; the batch belongs there, not in dims."
        raise wrong(f"max_batch_size {config.max_batch_size}", "a model that can batch", note)
    folder = server.repositories[0] / "published"
    (folder / "1").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(onnx_file, folder / "1" / "model.onnx")
    shutil.copyfile(server.repositories[0] / "good" / "labels.txt", folder / "labels.txt")
    (folder / "config.pbtxt").write_text(mended)
    try:
        server.load("published")
    except ServerError as error:
        if not server.running:
            raise
        raise wrong(error.problem, "a model that loads", "read the server's sentence: it names the field.") from None
    health = server.health("published")
    if health.detail:  # a model's own error is an answer to health(), not to this exercise
        raise wrong(health.detail, "an answer to one request", "it loaded, but does not answer.")
    return "the running server loaded your configuration and answered a request with it."


WRONG = {
    "check_wire_shape": [
        (
            "def wire_shape(max_batch_size, dims):\n    return [max_batch_size, *dims]",
            "not what each one carries",
        ),
        (
            "def wire_shape(max_batch_size, dims):\n    return [-1, *dims] if max_batch_size > 1 else dims",
            "a limit of 1 is still batching",
        ),
    ],
    "check_mended": [
        ("mended = published", "expected: a configuration that agrees"),
        (
            "mended = published.replace('\"labels.txt\" }', '\"labels.txt\" } ]')",
            "expected: a configuration that agrees",
        ),
        ("mended = b'name: \"published\"'", "as one string"),
    ],
}
