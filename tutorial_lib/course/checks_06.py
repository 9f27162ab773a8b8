"""Checks of the exercises in notebook 06."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import numpy as np
import tritonclient.http as triton_http

from tutorial_lib.course.checks import exercise, wrong
from tutorial_lib.models.names import INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.server import Server

LOWER_LIMIT = 5  # a max_batch_size that nobody writes down beforehand


def _scores(server: Server, images: np.ndarray) -> np.ndarray:
    """The server's raw scores for up to a batch of images, asked independently of the learner's code."""
    tensor = triton_http.InferInput(INPUT_NAME, list(images.shape), "FP32")
    tensor.set_data_from_numpy(images)
    with triton_http.InferenceServerClient(server.http_address) as client:
        return client.infer(MODEL_NAME, [tensor]).as_numpy(OUTPUT_NAME)


@contextlib.contextmanager
def _limited(server: Server, limit: int) -> Iterator[None]:
    """The model with another `max_batch_size`, in memory only; afterwards it is loaded from its files again."""
    config = {key: value for key, value in server.config(MODEL_NAME).items() if key != "model_warmup"}
    config |= {"max_batch_size": limit} | ({"dynamic_batching": {}} if "dynamic_batching" in config else {})
    try:
        server.load(MODEL_NAME, config=json.dumps(config))
        yield
    finally:
        server.unload(MODEL_NAME)
        server.load(MODEL_NAME)


@exercise(
    "06-margin",
    hints=[
        "ask for two labels with class_count=2; each is bytes such as b'8.15:7:seven', score first.",
        "decode the bytes, split at ':', make the first part a float, for both; then best minus second best.",
    ],
)
def check_margin(margin: object, server: Server, image: np.ndarray) -> str:
    """`margin` must be the best score less the second best.

    Args:
        margin: a number.
        server: the running server.
        image: float32 (1, 3, 32, 32).

    Raises:
        ExerciseError: it is not.
    """
    second, best = np.sort(_scores(server, image)[0])[-2:]
    try:
        yours = float(margin)
    except (TypeError, ValueError):
        raise wrong(repr(margin), "one number", "a text or bytes cannot be subtracted: make numbers first.") from None
    if not np.isclose(yours, best - second, atol=1e-3):
        note = ""
        if np.isclose(yours, second - best, atol=1e-3):
            note = "the best score comes first: best − second."
        elif 0 < yours < 1:
            note = "scores are asked, not probabilities; and it is the digit x[7:8]."
        elif yours == round(yours):
            note = "subtract scores, not indices: the score is the part before the first colon."
        raise wrong(yours, f"{best - second:.4f}", note)
    return "you know how far the best answer is ahead of the second best."


@exercise(
    "06-classify",
    hints=[
        "the server takes a batch up to its limit; what is longer has to be asked in parts.",
        "range(0, len(images), limit) gives where each part starts; images[start : start + limit] is the part.",
        "collect argmax(axis=1) of each part in a list that begins with np.empty(0, int), and np.concatenate it.",
    ],
)
def check_classify(classify: Callable[[np.ndarray], np.ndarray], server: Server, images: np.ndarray) -> str:
    """`classify` must answer any number of images, never in a batch over the limit.

    On a server of ours the model is loaded once with a lower limit, which only who asks for it can know.

    Args:
        classify: images (n, 3, 32, 32) → integers (n,).
        server: the running server.
        images: float32 (n, 3, 32, 32), n at least 100.

    Raises:
        ExerciseError: a wrong answer, a wrong shape, or a refused batch.
    """
    limit = server.config(MODEL_NAME)["max_batch_size"]
    expected = np.concatenate([_scores(server, images[n : n + 1]) for n in range(100)]).argmax(axis=1)  # (100,)

    def judge(count: int) -> None:
        yours = np.asarray(classify(images[:count]))
        if yours.shape != (count,):
            raise wrong(f"shape {yours.shape} for {count} images", f"shape ({count},): one integer per image")
        if not np.issubdtype(yours.dtype, np.integer):
            note = "with no images the loop never runs: begin with np.empty(0, int)." if count == 0 else ""
            raise wrong(f"numbers of type {yours.dtype} for {count} images", "integers", note)
        if not np.array_equal(yours, expected[:count]):
            where = int(np.flatnonzero(yours != expected[:count])[0])
            note = "are the parts put together in order, and is it argmax over the last axis?"
            raise wrong(f"{yours[where]} for image {where} of {count}", expected[where], note)

    for count in (1, limit, limit + 1, 100, 0):
        judge(count)
    if server.tier == "attached" or limit <= LOWER_LIMIT:  # others may use that server
        return f"any number of images, never more than {limit} in one request."
    with _limited(server, LOWER_LIMIT):
        judge(2 * LOWER_LIMIT + 1)
    return (
        f"any number of images, never more than {limit} in one request, nor than {LOWER_LIMIT} when that was the limit."
    )


WRONG = {
    "check_margin": [
        ("margin = 7 - 1", "subtract scores, not indices"),
        ("margin = answer[0, 0]", "make numbers first"),
        (
            "top2 = triton_http.InferRequestedOutput(given['name'], class_count=2)\n"
            "said = client.infer('densenet_onnx', [as_input(triton_http, x[7:8])], outputs=[top2])\n"
            "texts = said.as_numpy('fc6_1')[0]\n"
            "margin = float(texts[1].split(b':')[0]) - float(texts[0].split(b':')[0])",
            "best − second",
        ),
    ],
    "check_classify": [
        (
            "def classify(images):\n"
            "    tensor = as_input(triton_http, images)\n"
            "    return client.infer('densenet_onnx', [tensor]).as_numpy(given['name']).argmax(axis=1)",
            "your line 3, `return client.infer(",
        ),
        (
            "def classify(images):\n"
            "    parts = np.array_split(images, 4)\n"
            "    answers = [client.infer('densenet_onnx', [as_input(triton_http, p)]) for p in parts if len(p)]\n"
            "    return np.concatenate([answer.as_numpy(given['name']).argmax(axis=1) for answer in answers])",
            "your line 4, `return np.concatenate(",
        ),
        ("def classify(images):\n    return np.zeros(len(images), int)", "for image 0 of 1"),
        (
            "def classify(images):\n"
            "    answers = []\n"
            "    for start in range(0, len(images), 32):\n"
            "        result = client.infer('densenet_onnx', [as_input(triton_http, images[start : start + 32])])\n"
            "        answers += result.as_numpy(given['name']).argmax(axis=1).tolist()\n"
            "    return np.array(answers)",
            "with no images the loop never runs",
        ),
        (
            "def classify(images):\n"
            "    answers = [np.empty(0, int)]\n"
            "    for start in range(0, len(images), 32):\n"
            "        result = client.infer('densenet_onnx', [as_input(triton_http, images[start : start + 32])])\n"
            "        answers.append(result.as_numpy(given['name']).argmax(axis=1))\n"
            "    return np.concatenate(answers)",
            "must be <= 5",
        ),
    ],
}
