"""Checks of the exercises in notebook 00."""

from __future__ import annotations

import numpy as np

from tutorial_lib.course.checks import exercise, wrong
from tutorial_lib.server import Server


@exercise(
    "00-extremes",
    hints=[
        "section 6 sends three digits in one array of shape (3, 8, 8); make one of shape (2, 8, 8) out of two pages.",
        "np.stack([np.zeros((8, 8)), np.full((8, 8), 16)]).astype(np.float32) is the batch. Then the lines of section "
        "6 with this array; `extremes` is what .as_numpy('ink') gives.",
    ],
)
def check_extremes(extremes: object, server: Server) -> str:
    """`extremes` must be what the server answers to a blank page and to a page of ink, in one request.

    Args:
        extremes: float32 (2, 1).
        server: has counted what it was asked; the notebook itself sends batches of one and three.

    Raises:
        ExerciseError: it is not.
    """
    expected = np.array([[0.0], [1.0]], np.float32)
    yours = np.asarray(extremes, dtype=float)
    if yours.shape != expected.shape:
        raise wrong(f"shape {yours.shape}", f"shape {expected.shape}: one row for each page")
    if not np.allclose(yours, expected, atol=1e-6):
        note = "a page of ink has 16 in every cell."
        if np.allclose(yours, expected[::-1]):
            note = "the order of the pages is the order of the answers."
        raise wrong(yours.ravel().tolist(), expected.ravel().tolist(), note)
    batches = {int(entry["batch_size"]) for entry in server.statistics("ink_meter").get("batch_stats", [])}
    if 2 not in batches:
        told = f"the right numbers, but the server has met batches of {sorted(batches)} only"
        raise wrong(told, "its answer to a batch of 2", "send both pages, in one request, to the server that runs now.")
    return "one request carried a batch of two, and the server answered each page."


WRONG = {
    "check_extremes": [
        ("extremes = client.infer('ink_meter', [tensor]).as_numpy('ink')", "expected: shape (2, 1)"),
        ("extremes = np.array([[1], [0]], np.float32)", "the order of the pages"),
        (
            "pages = np.stack([np.zeros((8, 8)), np.ones((8, 8))]).astype(np.float32)\n"
            "extremes = pages.mean(axis=(1, 2))[:, None] / 16",
            "16 in every cell",
        ),
        ("extremes = np.array([[0], [1]], np.float32)", "its answer to a batch of 2"),
        ("extremes = (np.zeros(1), np.ones(1))", "the server has met batches of"),
        ("extremes = 'all the ink'", "could not convert string"),
    ]
}
