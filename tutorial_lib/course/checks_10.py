"""Checks of the exercises in notebook 10."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tutorial_lib.course.attempt import Unanswered
from tutorial_lib.course.checks import exercise, wrong
from tutorial_lib.load import LoadResult

CALLS = 4
ATTEMPTS = 3  # a machine that is busy with something else makes a right handler look slow now and then


@exercise(
    "10-handler",
    hints=[
        "`async` alone moves nothing: somebody else has to run the model, such as a thread, while the loop goes on.",
        "asyncio.to_thread(function, argument) runs a function in a thread; what it gives has to be awaited.",
    ],
)
def check_handler(handler: Callable[[float], Any], run_model: Callable[[float], float], model_s: float) -> str:
    """`handler` must give the model's answers and leave the event loop free.

    Args:
        handler: an `async def`, number → the model's answer.
        run_model: blocks for `model_s` seconds.
        model_s: how long the model takes.

    Raises:
        ExerciseError: it blocks the loop, gives another answer, or none to wait for.
    """
    asked: list[float] = []

    def stand_in(number: float) -> float:
        asked.append(float(number))
        return run_model(number) + 0.5  # an answer that only the model can give

    # the learner's function finds the model among its notebook's names
    names = getattr(getattr(handler, "function", handler), "__globals__", {})
    replaced = {name: value for name, value in names.items() if value is run_model}
    names.update(dict.fromkeys(replaced, stand_in))
    try:
        for _ in range(ATTEMPTS):
            answers, gap_s, seconds = _watched(handler, model_s)
            if any(inspect.isawaitable(answer) for answer in answers):
                break
            if gap_s <= 0.75 * model_s and seconds <= 0.75 * CALLS * model_s:
                break
    finally:
        names.update(replaced)
    expected = [run_model(float(number)) + (0.5 if replaced else 0.0) for number in range(CALLS)]
    if any(answer is ... for answer in answers):
        raise Unanswered
    if any(inspect.isawaitable(answer) for answer in answers):
        for answer in answers:
            answer.close()
        raise wrong("something that is still to be awaited", "the model's answer", "is there an await in front of it?")
    if replaced and not asked:
        raise wrong(
            "a handler that never called run_model", f"{CALLS} calls of it", "the answer is the model's to give."
        )
    if answers != expected:
        raise wrong(answers, expected, f"the model's answers to {CALLS} calls at once, in their order.")
    if gap_s > 0.75 * model_s:
        told = f"the event loop stood still for {1000 * gap_s:.0f} ms"
        raise wrong(told, f"far less than the {1000 * model_s:.0f} ms that the model takes",
                    "meanwhile no other request is read, and no health check answered.")  # fmt: skip
    if seconds > 0.75 * CALLS * model_s:
        raise wrong(f"{CALLS} calls at once took {1000 * seconds:.0f} ms", "calls that run side by side",
                    "does each call wait for the one before?")  # fmt: skip
    return (
        f"{CALLS} calls at once in {1000 * seconds:.0f} ms, and the loop never stood still for {1000 * gap_s:.0f} ms."
    )


def _watched(handler: Callable[[float], Any], model_s: float) -> tuple[list[Any], float, float]:
    """Answers to several calls at once, the longest pause of the event loop, and how long it all took."""
    found: dict[str, Any] = {}

    async def beat(gaps: list[float]) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(model_s / 20)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    async def one(number: float) -> Any:
        given = handler(number)
        return await given if inspect.iscoroutine(given) else given

    async def scene() -> None:
        gaps = [0.0]
        heart = asyncio.create_task(beat(gaps))
        await asyncio.sleep(0)
        begin = time.perf_counter()
        found["answers"] = await asyncio.gather(*(one(float(number)) for number in range(CALLS)))
        found["seconds"] = time.perf_counter() - begin
        await asyncio.sleep(model_s / 10)  # the pause that a blocking call made is seen at the next beat
        heart.cancel()
        found["gap_s"] = max(gaps)

    def run() -> None:  # in a thread of its own: the notebook has a running loop
        try:
            asyncio.run(scene())
        except Exception as error:
            found["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10 + 10 * CALLS * model_s)
    if thread.is_alive():
        raise wrong("no answer", "an answer", "does the handler ever return?")
    if "error" in found:
        note = (
            "give to_thread the function and its argument, not its result." if "callable" in str(found["error"]) else ""
        )
        raise wrong(f"raised {type(found['error']).__name__}: {found['error']}", "an answer", note)
    return found["answers"], found["gap_s"], found["seconds"]


@exercise(
    "10-most-users",
    hints=[
        "each user makes one request per think time plus answer time, so users = requests/s × that time.",
        "naive_most.throughput_rps × (PAUSE_S + alone.mean_ms / 1000); mind that mean_ms is in milliseconds.",
    ],
)
def check_most_users(most_users: object, most: LoadResult, alone: LoadResult, think_s: float) -> str:
    """`most_users` must follow from Little's law.

    Args:
        most_users: a number.
        most: a run at saturation.
        alone: a run with one caller.
        think_s: the pause of each user.

    Raises:
        ExerciseError: it does not.
    """
    rate, answer_s = most.throughput_rps, alone.mean_ms / 1000
    expected = rate * (think_s + answer_s)
    try:
        yours = float(most_users)
    except (TypeError, ValueError):
        raise wrong(repr(most_users), "one number") from None
    forgotten = bool(np.isclose(yours, rate * think_s, rtol=1e-9))  # near enough as a number, but not thought through
    if forgotten or not abs(yours - expected) <= max(1.0, 0.01 * expected):
        note = ""
        if np.isclose(yours, rate * (think_s + alone.mean_ms), rtol=0.02):
            note = "mean_ms is in milliseconds, the think time in seconds."
        elif np.isclose(yours, rate * answer_s, rtol=0.02):
            note = "that is how many requests are under way; users also think."
        elif np.isclose(yours, rate / (think_s + answer_s), rtol=0.02):
            note = "multiply: more time between a user's requests leaves room for more users."
        elif np.isclose(yours, rate * (think_s + most.mean_ms / 1000), rtol=0.005):
            note = "at saturation most of the answer time is waiting in line: take that of one who is alone."
        elif forgotten:
            note = "the time for the answer is a part of it, too."
        raise wrong(yours, f"{expected:.0f}", note)
    return f"more than about {expected:.0f} users make all of them wait longer."


@dataclass
class _Played:
    """A server that answers what it is told to, and notes how long the client waited."""

    statuses: list[int]
    retry_after: str = "2"
    posted: int = 0
    waited: list[float] = field(default_factory=list)

    def post(self) -> Any:
        status = self.statuses[min(self.posted, len(self.statuses) - 1)]
        self.posted += 1
        headers = {"retry-after": self.retry_after} if status in (429, 503) else {}
        return _Answer(status, headers)


@dataclass(frozen=True)
class _Answer:
    status_code: int
    headers: dict[str, str]


@exercise(
    "10-patience",
    hints=[
        "429 and 503 mean: not now. Read int(answer.headers['retry-after']), wait so long, post again.",
        "for attempt in range(tries): post; return unless the status is 429 or 503; wait, but not after the last one.",
    ],
)
def check_call_patiently(call_patiently: Callable[..., Any]) -> str:
    """`call_patiently(post, wait, tries)` must come back when it is told to, and only then.

    Raises:
        ExerciseError: it gives up too early, hammers the server, repeats what cannot succeed, or never ends.
    """
    for statuses, tries, posts, waits in (
        ([200], 3, 1, []),
        ([429, 200], 3, 2, [2]),
        ([503, 429, 200], 3, 3, [2, 2]),
        ([422, 200], 3, 1, []),
        ([504, 200], 3, 1, []),
        ([429], 4, 4, [2, 2, 2]),
    ):
        played = _Played(statuses)
        answer = call_patiently(played.post, played.waited.append, tries)
        told = f"for the answers {', '.join(map(str, statuses))}{', …' if len(statuses) == 1 else ''} and {tries} tries"
        status = getattr(answer, "status_code", None)
        if played.posted != posts:
            note = "a request that is wrong stays wrong." if statuses[0] == 422 else ""
            note = note or ("its time is over; asking again only adds load." if statuses[0] == 504 else "")
            raise wrong(f"{played.posted} posts {told}", f"{posts}", note)
        if [float(seconds) for seconds in played.waited] != waits:
            note = "nobody asks again after the last try." if len(played.waited) > len(waits) else "retry-after says."
            raise wrong(f"waits of {played.waited} s {told}", f"{waits}", note)
        last = statuses[min(posts, len(statuses)) - 1]
        if status != last:
            raise wrong(f"{status} {told}", f"the last answer, {last}", "return the answer itself.")
    return "it waits as long as it is told, and does not repeat what cannot succeed."


WRONG = {
    "check_handler": [
        ("async def handler(number):\n    return run_model(number)", "the event loop stood still"),
        ("async def handler(number):\n    await asyncio.sleep(0)\n    return run_model(number)", "stood still"),
        ("async def handler(number):\n    return asyncio.to_thread(run_model, number)", "an await in front"),
        ("async def handler(number):\n    return await asyncio.to_thread(run_model, 1.0)", "in their order"),
        (
            "async def handler(number):\n    await asyncio.sleep(MODEL_S)\n    return 2 * number",
            "never called run_model",
        ),
        ("async def handler(number):\n    return await asyncio.to_thread(run_model(number))", "not its result"),
    ],
    "check_most_users": [
        ("most_users = naive_most.throughput_rps * (PAUSE_S + alone.mean_ms)", "in milliseconds"),
        ("most_users = naive_most.throughput_rps * alone.mean_ms / 1000", "users also think"),
        ("most_users = naive_most.throughput_rps * PAUSE_S", "a part of it"),
        ("most_users = naive_most.throughput_rps / (PAUSE_S + alone.mean_ms / 1000)", "multiply"),
    ],
    "check_call_patiently": [
        ("def call_patiently(post, wait, tries):\n    return post()", "1 posts for the answers 429, 200"),
        (
            "def call_patiently(post, wait, tries):\n"
            "    for _ in range(tries):\n"
            "        answer = post()\n"
            "        if answer.status_code == 200:\n"
            "            return answer\n"
            "        wait(2)\n"
            "    return answer",
            "a request that is wrong stays wrong",
        ),
        (
            "def call_patiently(post, wait, tries):\n"
            "    for _ in range(tries):\n"
            "        answer = post()\n"
            "        if answer.status_code not in (429, 503):\n"
            "            return answer\n"
            "        wait(int(answer.headers['retry-after']))\n"
            "    return answer",
            "after the last try",
        ),
    ],
}
