"""Checks of the exercises in notebook 00."""

from __future__ import annotations

import numpy as np

from tutorial_lib.course.checks import exercise, wrong


@exercise(
    "00-extremes",
    hints=[
        "section 6 sends three digits in one array of shape (3, 8, 8); make one of shape (2, 8, 8) out of two pages.",
        "np.stack([np.zeros((8, 8)), np.full((8, 8), 16)]).astype(np.float32) is the batch. Then the lines of section "
        "6 with this array; `extremes` is what .as_numpy('ink') gives.",
    ],
)
def check_extremes(extremes: object) -> str:
    """`extremes` must be what the server answers to a blank page and to a page of ink.

    Args:
        extremes: float32 (2, 1).

    Raises:
        ExerciseError: it is not.
    """
    expected = np.array([[0.0], [1.0]], np.float32)
    yours = np.asarray(extremes, dtype=float)
    if yours.shape != expected.shape:
        raise wrong(f"shape {yours.shape}", f"shape {expected.shape}: one row for each page")
    if not np.allclose(yours, expected, atol=1e-6):
        note = "the order of the pages is the order of the answers." if np.allclose(yours, expected[::-1]) else ""
        raise wrong(yours.ravel().tolist(), expected.ravel().tolist(), note)
    return "one request carried a batch of two, and the server answered each page."


WRONG = {
    "check_extremes": [
        ("extremes = client.infer('ink_meter', [tensor]).as_numpy('ink')", "expected: shape (2, 1)"),
        ("extremes = np.array([[1], [0]], np.float32)", "the order of the pages"),
        ("extremes = 'all the ink'", "could not convert string"),
    ]
}
