"""Checks of the exercises in notebook 01."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tutorial_lib.course.checks import exercise, wrong


@exercise(
    "01-channels",
    hints=[
        "follow the printed shapes of section 3: what does a layer of a block add, a transition take away?",
        "each layer adds `growth`; a transition halves (//) all that reaches it, and none follows the last block.",
        "start with `stem`; for every block add layers * growth, and halve after each block but the last.",
    ],
)
def check_channels(channels_out: Callable[[int, int, tuple[int, ...]], int]) -> str:
    """`channels_out(stem, growth, blocks)` must agree with networks that are really built.

    Raises:
        ExerciseError: it does not.
    """
    from tutorial_lib.models.densenet import DenseNet

    for stem, growth, blocks in ((24, 12, (3,)), (24, 12, (3, 3, 3)), (16, 8, (2, 4)), (10, 5, (1, 2, 3, 1))):
        expected = DenseNet(stem=stem, growth=growth, blocks=blocks).classifier.in_features
        yours = channels_out(stem, growth, blocks)
        if yours != expected:
            note = "one block, so there is no transition at all." if len(blocks) == 1 else ""
            if isinstance(yours, float) and int(yours) == expected:
                note = "channels are whole numbers: halve with //."
            raise wrong(yours, f"{expected} for stem={stem}, growth={growth}, blocks={blocks}", note)
    return "you can tell the width of any DenseNet from three numbers."


@exercise(
    "01-recall",
    hints=[
        "row = what was written. Of all sevens that were written, which share did the model call a seven?",
        "the right ones are `result.confusion.diagonal()`; how often each digit was written is a sum along one axis.",
        "divide the diagonal by the sum of its row: `.sum(axis=1)`.",
    ],
)
def check_recall(recall: object, confusion: np.ndarray) -> str:
    """`recall` must hold, per true class, the share that was recognised.

    Args:
        recall: ten numbers from 0 to 1.
        confusion: int (10, 10); row is the true class.

    Raises:
        ExerciseError: it does not.
    """
    yours = np.asarray(recall, dtype=float)
    expected = np.array([row[number] / row.sum() for number, row in enumerate(confusion)])
    if yours.shape != expected.shape:
        raise wrong(f"shape {yours.shape}", f"shape {expected.shape}: one number for each true digit")
    if not np.allclose(yours, expected, atol=1e-3):
        down = confusion.diagonal() / np.maximum(confusion.sum(axis=0), 1)
        note = ""
        if np.allclose(yours, down, atol=1e-3):
            note = "that is precision (by column, what was predicted); recall goes by row, what was true."
        elif np.nanmax(yours) > 1.001:
            note = "a share is never above 1."
        raise wrong(np.array2string(yours, precision=3), np.array2string(expected, precision=3), note)
    return f"digit {int(expected.argmin())} is recognised least often, {expected.min():.1%} of the time."


@exercise(
    "01-throughput",
    hints=[
        "one caller first: how many calls does it finish in 1,000 ms, if each takes `latency_ms`?",
        "1000 / latency_ms for one caller; and there are `callers` of them.",
    ],
)
def check_throughput(requests_per_s: Callable[[int, float], float]) -> str:
    """`requests_per_s(callers, latency_ms)` must follow from the two numbers alone.

    Raises:
        ExerciseError: it does not.
    """
    # by counting: in one second each caller starts again every `latency_ms`
    for callers, latency_ms, expected in ((1, 100.0, 10.0), (10, 500.0, 20.0), (16, 8.0, 2000.0)):
        yours = float(requests_per_s(callers, latency_ms))
        if not np.isclose(yours, expected):
            note = "a rate is per second, the latency is in milliseconds." if np.isclose(yours * 1000, expected) else ""
            raise wrong(f"{yours:g}", f"{expected:g} requests/s for {callers} caller(s) at {latency_ms:g} ms", note)
    return "ten callers at 500 ms are served twice as fast as one at 100 ms, and each waits five times as long."


WRONG = {
    "check_channels": [
        (
            "def channels_out(stem, growth, blocks):\n    return stem + growth * sum(blocks)",
            "expected: 69 for stem=24, growth=12, blocks=(3, 3, 3)",
        ),
        (
            "def channels_out(stem, growth, blocks):\n"
            "    for layers in blocks:\n"
            "        stem = (stem + layers * growth) // 2\n"
            "    return stem",
            "there is no transition at all",
        ),
        (
            "def channels_out(stem, growth, blocks):\n"
            "    for number, layers in enumerate(blocks):\n"
            "        stem = stem / (2 if number else 1) + layers * growth\n"
            "    return stem",
            "halve with //",
        ),
    ],
    "check_recall": [
        ("recall = result.confusion.diagonal()", "a share is never above 1"),
        ("recall = result.confusion.diagonal().sum() / result.confusion.sum()", "expected: shape (10,)"),
        ("recall = np.ones(10)", "yours:    [1."),
    ],
    "check_throughput": [
        ("def requests_per_s(callers, latency_ms):\n    return callers / latency_ms", "the latency is in milliseconds"),
        ("def requests_per_s(callers, latency_ms):\n    return 1000 / latency_ms", "20 requests/s for 10 caller(s)"),
    ],
}
