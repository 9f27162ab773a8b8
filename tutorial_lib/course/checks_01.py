"""Checks of the exercises in notebook 01."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tutorial_lib.course.checks import attempted, right, wrong


def check_channels(channels_out: Callable[[int, int, tuple[int, ...]], int]) -> None:
    """`channels_out(stem, growth, blocks)` must agree with networks that are really built.

    Raises:
        ExerciseError: it does not.
    """
    if not attempted(channels_out):
        return
    from tutorial_lib.models.densenet import DenseNet

    for stem, growth, blocks in ((24, 12, (3,)), (24, 12, (3, 3, 3)), (16, 8, (2, 4)), (10, 5, (1, 2, 3, 1))):
        expected = DenseNet(stem=stem, growth=growth, blocks=blocks).classifier.in_features
        yours = channels_out(stem, growth, blocks)
        if yours is ...:
            raise wrong("…", expected, "return the number of channels instead of ….")
        if yours != expected:
            hint = "each layer of a block adds `growth`"
            if len(blocks) > 1:
                hint += "; a transition halves (//) what it gets, and none follows the last block"
            raise wrong(yours, f"{expected} for stem={stem}, growth={growth}, blocks={blocks}", hint + ".")
    right("you can tell the width of any DenseNet from three numbers.")


def check_recall(recall: object, confusion: np.ndarray) -> None:
    """`recall` must hold, per true class, the share that was recognised.

    Args:
        recall: ten numbers from 0 to 1.
        confusion: int (10, 10); row is the true class.

    Raises:
        ExerciseError: it does not.
    """
    if not attempted(recall):
        return
    yours = np.asarray(recall, dtype=float)
    expected = np.array([row[number] / row.sum() for number, row in enumerate(confusion)])
    shown = np.array2string(expected, precision=3)
    if yours.shape != expected.shape:
        raise wrong(f"shape {yours.shape}", f"shape {expected.shape}", "one number for each true digit.")
    if not np.allclose(yours, expected, atol=1e-3):
        down = confusion.diagonal() / np.maximum(confusion.sum(axis=0), 1)
        hint = "divide the diagonal by how often each digit really occurs."
        if np.allclose(yours, down, atol=1e-3):
            hint = "that is precision (by column, what was predicted); recall goes by row, what was true."
        raise wrong(np.array2string(yours, precision=3), shown, hint)
    right(f"digit {int(expected.argmin())} is recognised least often, {expected.min():.1%} of the time.")


def check_throughput(requests_per_s: Callable[[int, float], float]) -> None:
    """`requests_per_s(callers, latency_ms)` must follow from the two numbers alone.

    Raises:
        ExerciseError: it does not.
    """
    if not attempted(requests_per_s):
        return
    # by counting: in one second each caller starts again every `latency_ms`
    for callers, latency_ms, expected in ((1, 100.0, 10.0), (10, 500.0, 20.0), (16, 8.0, 2000.0)):
        yours = requests_per_s(callers, latency_ms)
        if yours is ... or not np.isclose(float(yours), expected):
            raise wrong(
                "…" if yours is ... else yours,
                f"{expected:g} requests/s for {callers} caller(s) at {latency_ms:g} ms",
                "how many calls does one caller finish in 1,000 ms? Then all of them.",
            )
    right("ten callers at 500 ms are served twice as fast as one at 100 ms, and each waits five times as long.")
