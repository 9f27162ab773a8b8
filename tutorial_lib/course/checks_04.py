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
        "what protobuf stumbles over is a bracket that is never closed; the ONNX file contradicts a batch in dims.",
        "`output [` has to end with `} ]`; and with max_batch_size above zero take the leading 1 from both dims.",
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
    except RepositoryError as error:
        raise wrong(error.problem, "a configuration that Triton can read", error.action) from None
    if config.name not in ("", "published"):
        raise wrong(f"name {config.name!r}", "'published', the folder's name", "leave the name line as it was.")
    if config.max_batch_size < 2:
        note = "keep max_batch_size: 32; the batch belongs there, not in dims."
        raise wrong(f"max_batch_size {config.max_batch_size}", "a model that can batch", note)
    try:
        check_against_onnx(config, onnx_file)
    except RepositoryError as error:  # its action would give the answer away
        raise wrong(error.problem, "a configuration that agrees with the ONNX file") from None
    _put(mended, "published", server, onnx_file)
    _load("published", server)
    health = server.health("published")
    if health.detail:  # a model's own error is an answer to health(), not to this exercise
        raise wrong(health.detail, "an answer to one request", "it loaded, but does not answer.")
    return "the running server loaded your configuration and answered a request with it."


@exercise(
    "04-generated",
    hints=[
        "help(generate_config) lists what it takes; three of the four wishes are numbers, and one is a list of names.",
        "a queue delay is in microseconds: 2 ms are 2000.",
        "max_batch_size=16, instances=1, queue_delay_us=2000 and labels=CLASSES.",
    ],
)
def check_generated(generated: object, server: Server, onnx_file: Path) -> str:
    """`generated` must be a configuration with which the running server serves "night_shift" as asked.

    Args:
        generated: the text of a config.pbtxt.
        server: a server in explicit mode on a scratch repository of ours.
        onnx_file: the model file.

    Raises:
        ExerciseError: it cannot be read, the server refuses it, or has another setting in force.
    """
    if not isinstance(generated, str):
        raise wrong(f"a {type(generated).__name__}", "the text that generate_config returns")
    try:
        config = parse_config(generated)
    except RepositoryError as error:
        raise wrong(error.problem, "a configuration that Triton can read", error.action) from None
    if config.name not in ("", "night_shift"):
        raise wrong(f"name {config.name!r}", "'night_shift'", 'name="night_shift", or none: the folder is called so.')
    _put(generated, "night_shift", server, onnx_file)
    _load("night_shift", server)
    in_force = server.config("night_shift")
    found = {
        "max_batch_size": in_force["max_batch_size"],
        "instances": sum(group["count"] for group in in_force["instance_group"]),
        "queue delay (µs)": int(in_force.get("dynamic_batching", {}).get("max_queue_delay_microseconds", 0)),
        "label file": in_force["output"][0]["label_filename"] or "none",
    }
    wanted = {"max_batch_size": 16, "instances": 1, "queue delay (µs)": 2000, "label file": "labels.txt"}
    for what, value in wanted.items():
        if found[what] != value:
            note = "that is what Triton has in force, read back from the server."
            if what == "queue delay (µs)" and found[what] == 2:
                note = "two microseconds are no time to wait: look at the unit in the parameter's name."
            raise wrong(f"{what}: {found[what]}", f"{what}: {value}", note)
    health = server.health("night_shift")
    if not health:
        raise wrong(health.detail, "an answer to one request", "it loaded, but does not answer.")
    return "the server has exactly these four settings in force, and answers."


@exercise(
    "04-lint-rule",
    hints=[
        "a 1 in front of dims proves nothing: a grey image has one channel. Compare with what the graph says.",
        "the graph's rank counts the batch axis, dims must not: so which length would be one too many?",
        "with max_batch_size above zero: are there as many dims as the graph has axes?",
    ],
)
def check_repeats_batch(repeats_batch: Callable[[int, list[int], int], bool]) -> str:
    """`repeats_batch(max_batch_size, dims, rank)` must say whether dims hold the batch a second time.

    Raises:
        ExerciseError: it does not.
    """
    for max_batch_size, dims, rank, expected in BATCH_CASES:
        yours = repeats_batch(max_batch_size, list(dims), rank)
        if bool(yours) is not expected or yours is None:
            note = ""
            if expected and dims[0] != 1:
                note = "the axis too many may be written as -1, or as any size."
            elif not expected and max_batch_size == 0:
                note = "without batching the batch has to stand in dims."
            elif not expected:
                note = "a false alarm: dims are right, whatever their first number is."
            case = f"max_batch_size {max_batch_size}, dims {list(dims)}, graph of rank {rank}"
            raise wrong(yours, f"{expected} for {case}", note)
    return f"your rule gives the linter's verdict in {len(BATCH_CASES)} cases, false alarms included."


# max_batch_size, dims, rank of the graph's tensor, and whether the linter says batch-in-dims (a test asks it)
BATCH_CASES = (
    (32, (1, 3, 32, 32), 4, True),
    (32, (3, 32, 32), 4, False),
    (8, (1, 28, 28), 4, False),
    (0, (1, 3, 32, 32), 4, False),
    (8, (-1, 10), 2, True),
    (1, (1, 10), 2, True),
    (4, (10,), 2, False),
    (16, (1, 1, 10), 3, True),
)


def _put(text: str, name: str, server: Server, onnx_file: Path) -> None:
    """Lay a model out in the server's scratch repository, with the labels of the good one."""
    folder = server.repositories[0] / name
    (folder / "1").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(onnx_file, folder / "1" / "model.onnx")
    shutil.copyfile(server.repositories[0] / "good" / "labels.txt", folder / "labels.txt")
    (folder / "config.pbtxt").write_text(text, encoding="utf-8")


def _load(name: str, server: Server) -> None:
    try:
        server.load(name)
    except ServerError as error:
        if not server.running:
            raise
        raise wrong(error.problem, "a model that loads", "read the server's sentence: it names the field.") from None


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
        ("mended = published", "expected: a configuration that Triton can read"),
        (
            'mended = published.replace("32\\n", "0\\n").replace(\'"labels.txt" }\', \'"labels.txt" } ]\')',
            "keep max_batch_size: 32",
        ),
        (
            "mended = published.replace('\"labels.txt\" }', '\"labels.txt\" } ]')",
            "expected: a configuration that agrees",
        ),
        ("mended = b'name: \"published\"'", "as one string"),
    ],
    "check_generated": [
        (
            'generated = generate_config(onnx_file, name="night_shift", max_batch_size=16, instances=1, '
            "queue_delay_us=2, labels=CLASSES)",
            "two microseconds are no time",
        ),
        (
            'generated = generate_config(onnx_file, name="night_shift", instances=1, queue_delay_us=2000)',
            "expected: max_batch_size: 16",
        ),
        (
            'generated = generate_config(onnx_file, name="night_shift", max_batch_size=16, instances=1, '
            "queue_delay_us=2000)",
            "expected: label file: labels.txt",
        ),
        ('generated = {"max_batch_size": 16}', "the text that generate_config returns"),
    ],
    "check_repeats_batch": [
        ("def repeats_batch(max_batch_size, dims, rank):\n    return dims[0] == 1", "a false alarm"),
        ("def repeats_batch(max_batch_size, dims, rank):\n    return len(dims) == rank", "without batching"),
        (
            "def repeats_batch(max_batch_size, dims, rank):\n"
            "    return max_batch_size > 0 and len(dims) == rank and dims[0] == 1",
            "may be written as -1",
        ),
    ],
}
