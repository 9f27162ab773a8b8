"""Checks of the exercises in notebook 00."""

from __future__ import annotations

import numpy as np

from tutorial_lib.course.checks import attempted, right, wrong


def check_extremes(extremes: object) -> None:
    """`extremes` must be what the server answers to a blank page and to a page of ink.

    Args:
        extremes: float32 (2, 1).

    Raises:
        ExerciseError: it is not.
    """
    if not attempted(extremes):
        return
    expected = np.array([[0.0], [1.0]], np.float32)
    yours = np.asarray(extremes)
    if yours.shape != expected.shape:
        hint = "put the two pages on top of each other: an array of shape (2, 8, 8) is one request with a batch of 2."
        raise wrong(f"shape {yours.shape}", f"shape {expected.shape}", hint)
    if not np.allclose(yours.astype(float), expected, atol=1e-6):
        hint = "the first page is all 0, the second all 16, in this order; ink is 1 when every cell is 16."
        raise wrong(yours.ravel().tolist(), expected.ravel().tolist(), hint)
    right("one request carried a batch of two, and the server answered each page.")
