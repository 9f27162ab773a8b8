"""Checks of the exercises in the appendix, bring_your_own_model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tutorial_lib.course.checks import exercise, wrong
from tutorial_lib.errors import WorkshopError
from tutorial_lib.export.onnx_file import opset_of
from tutorial_lib.export.parity import open_session
from tutorial_lib.repository.probe import probe_onnx
from tutorial_lib.versions import check_onnx


@exercise(
    "own-repaired",
    hints=[
        "over which axis does the Softmax run, and whose numbers lie along it?",
        "the node has one attribute, its axis; 0 are the samples, 1 the classes of one sample.",
        "repaired.graph.node[0].attribute[0].i = 1",
    ],
)
def check_repaired(repaired: object, trap: Path) -> str:
    """`repaired` must be the trap's graph, in which every sample gets the softmax of its own three numbers.

    Args:
        repaired: an onnx.ModelProto.
        trap: the file that was to be repaired.

    Raises:
        ExerciseError: it is no model, its samples still meet, or it computes something else.
    """
    import onnx

    if not isinstance(repaired, onnx.ModelProto):
        raise wrong(f"a {type(repaired).__name__}", "a model, as onnx.load(trap) gives it")
    try:
        check_onnx(repaired.ir_version, opset_of(repaired), name="the repaired model")
    except WorkshopError as error:
        raise wrong(error.problem, "a model that the server can read", "only the axis was wrong.") from None
    x = np.random.default_rng().standard_normal((4, 3)).astype(np.float32)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / trap.name
        onnx.save(repaired, path)
        try:
            found = probe_onnx(path)
        except WorkshopError as error:
            raise wrong(f"{error.problem} {error.details}".strip(), "a graph that ONNX Runtime runs") from None
        if not found.batched:
            told = f"{found.culprit} {found.reason}"
            changed = repaired.graph != onnx.load(trap).graph
            note = "the axis is what it was; only its name, or its size, has changed." if changed else ""
            raise wrong(told, "a graph in which every sample gets the answer that it gets alone", note)
        (y,) = open_session(path).run(None, {"x": x})
    expected = powers / powers.sum(axis=1, keepdims=True)
    if y.shape != expected.shape or not np.allclose(y, expected, rtol=1e-4, atol=1e-6):
        note = "the samples no longer meet, but the softmax is gone or another one."
        raise wrong(
            f"{np.round(y[0], 3).tolist()} for {np.round(x[0], 3).tolist()}", expected[0].round(3).tolist(), note
        )
    return "the graph may be batched now: tried with one, two and three samples, and each keeps its own answer."


@exercise(
    "own-same-answer",
    hints=[
        "three questions: is the shape the same, is every number near, and what is near for numbers of this size?",
        "NumPy stretches axes until shapes fit, so compare the shapes yourself; the rest np.allclose can do.",
        "found.shape == expected.shape and np.allclose(found, expected, rtol=1e-4, atol=1e-6)",
    ],
)
def check_same_answer(same_answer: Callable[[np.ndarray, np.ndarray], bool]) -> str:
    """`same_answer(found, expected)` must say whether a served answer is the one of ONNX Runtime.

    Raises:
        ExerciseError: it does not.
    """
    scores = np.random.default_rng(0).standard_normal((4, 250)).astype(np.float32)
    one_off = scores.copy()
    one_off[2, 100] += 0.1
    row = scores[0, :4]
    cases = (
        (scores, scores.copy(), True, "the very same numbers", ""),
        (
            scores * np.float32(1 + 1e-6),
            scores,
            True,
            "numbers that differ in the last digit",
            "a sum in another order.",
        ),
        (scores * 1e6, scores * np.float32(1e6 + 1), True, "the same, a million times as large", "near is relative."),
        (row[:, None], row, False, "shape [4, 1] where [4] was expected", "NumPy stretches axes until shapes fit."),
        (one_off, scores, False, "one number of a thousand 0.1 off", "a mean forgives what a client will not."),
        (scores[:, :-1], scores, False, "an answer with a column less", "compare the shapes first."),
    )
    for found, expected, same, what, note in cases:
        yours = same_answer(found.copy(), expected.copy())
        if yours is None or bool(yours) is not same:
            raise wrong(yours, f"{same} for {what}", note)
    return "your comparison takes a last digit for rounding, and nothing else for the same answer."


WRONG = {
    "check_repaired": [
        (
            'repaired = onnx.load(trap)\nrepaired.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "samples"',
            "only its name",
        ),
        (
            "repaired = onnx.load(trap)\nfor one in (*repaired.graph.input, *repaired.graph.output):\n"
            "    one.type.tensor_type.shape.dim[0].dim_value = 1",
            "every sample gets the answer that it gets alone",
        ),
        (
            'repaired = onnx.load(trap)\nrepaired.graph.node[0].op_type = "Identity"\n'
            "del repaired.graph.node[0].attribute[:]",
            "the softmax is gone",
        ),
        (
            "repaired = onnx.load(trap)\nrepaired.graph.node[0].attribute[0].i = 1\nrepaired.ir_version = 99",
            "found IR version 99",
        ),
        (
            "repaired = onnx.load(trap)\nrepaired.graph.node[0].attribute[0].i = 1\n"
            "repaired.opset_import[0].version = 99",
            "found opset 99",
        ),
        ("repaired = trap", "as onnx.load(trap) gives it"),
    ],
    "check_same_answer": [
        (
            "def same_answer(found, expected):\n    return np.array_equal(found, expected)",
            "differ in the last digit",
        ),
        (
            "def same_answer(found, expected):\n    return np.allclose(found, expected)",
            "NumPy stretches axes",
        ),
        (
            "def same_answer(found, expected):\n"
            "    return found.shape == expected.shape and np.abs(found - expected).max() < 1e-3",
            "near is relative",
        ),
        (
            "def same_answer(found, expected):\n    if found.shape != expected.shape:\n        return False\n"
            "    return np.abs(found - expected).mean() <= 1e-3 * np.abs(expected).mean()",
            "a mean forgives",
        ),
    ],
}
