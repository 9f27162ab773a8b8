"""Checks of the exercises in notebook 06."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tritonclient.http as triton_http

from tutorial_lib.course.checks import attempted, right, wrong
from tutorial_lib.models.names import INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.server import Server


def _scores(server: Server, images: np.ndarray) -> np.ndarray:
    """The server's raw scores for up to a batch of images, asked independently of the learner's code."""
    tensor = triton_http.InferInput(INPUT_NAME, list(images.shape), "FP32")
    tensor.set_data_from_numpy(images)
    with triton_http.InferenceServerClient(server.http_address) as client:
        return client.infer(MODEL_NAME, [tensor]).as_numpy(OUTPUT_NAME)


def check_margin(margin: object, server: Server, image: np.ndarray) -> None:
    """`margin` must be the best score less the second best.

    Args:
        margin: a number.
        server: the running server.
        image: float32 (1, 3, 32, 32).

    Raises:
        ExerciseError: it is not.
    """
    if not attempted(margin):
        return
    second, best = np.sort(_scores(server, image)[0])[-2:]
    try:
        yours = float(margin)
    except (TypeError, ValueError):
        raise wrong(
            repr(margin), "one number", "decode the bytes, split at ':', and subtract the two scores."
        ) from None
    if not np.isclose(yours, best - second, atol=1e-3):
        hint = "subtract scores, not indices: the score is the part before the first colon."
        if np.isclose(yours, second - best, atol=1e-3):
            hint = "the best score comes first: best − second."
        raise wrong(yours, f"{best - second:.4f}", hint)
    right("you read two labels from the server and know how far apart they are.")


def check_classify(classify: Callable[[np.ndarray], np.ndarray], server: Server, images: np.ndarray) -> None:
    """`classify` must answer any number of images, never in a batch over the limit.

    Args:
        classify: images (n, 3, 32, 32) → integers (n,).
        server: the running server.
        images: float32 (n, 3, 32, 32), n at least 100.

    Raises:
        ExerciseError: a wrong answer, a wrong shape, or a refused batch.
    """
    if not attempted(classify(images[:1])):
        return
    limit = server.config(MODEL_NAME)["max_batch_size"]
    for count in (1, limit, limit + 1, 100, 0):
        expected = [_scores(server, images[n : n + 1]).argmax() for n in range(count)]
        try:
            yours = np.asarray(classify(images[:count]))
        except Exception as error:
            hint = f"the server takes {limit} at most; split the images into parts."
            if count == 0:
                hint = "no images: nothing to ask, return an empty integer array."
            raise wrong(f"{type(error).__name__}: {error}", f"{count} answers", hint) from None
        if yours.shape != (count,):
            raise wrong(f"shape {yours.shape} for {count} images", f"shape ({count},)", "one integer per image.")
        if not np.array_equal(yours, expected):
            where = int(np.flatnonzero(yours != expected)[0])
            hint = "are the parts put together in order, and is it argmax over the last axis?"
            raise wrong(f"{yours[where]} for image {where}", expected[where], hint)
    right(f"any number of images, never more than {limit} in one request.")
