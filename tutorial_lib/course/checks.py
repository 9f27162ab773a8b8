"""The frame every exercise check is built on: not attempted, wrong, or right.

A check is a function of the learner's answer, and perhaps of what the notebook has at hand. It returns a
sentence that says what a right answer proves, or raises `wrong(…)`; the frame does the rest.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutorial_lib.course import progress
from tutorial_lib.course.attempt import Guarded, Unanswered, Wrong, short, unanswered, wrong
from tutorial_lib.course.missing_names import explain_missing_names
from tutorial_lib.errors import ExerciseError, ServerError, SetupError, WorkshopError

__all__ = ["Exercise", "exercise", "course_exercises", "exercise_names", "wrong"]

LIMIT_S = 20.0  # for one call of the learner's function

_UNUSABLE = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)  # what a strange answer causes


@dataclass(frozen=True)
class Exercise:
    """An exercise of a notebook.

    Attributes:
        name: number of the notebook and a word, such as "06-margin".
        hints: what repeated wrong attempts get, one after the other.
        check: the function that the notebook calls.
    """

    name: str
    hints: Sequence[str]
    check: Callable[..., None]


_exercises: dict[str, Exercise] = {}


def exercise(
    name: str, *, hints: Sequence[str], limit_s: float | None = None
) -> Callable[[Callable[..., str]], Callable[..., None]]:
    """Make a check out of a function that judges an answer, its first argument.

    Where that argument is a function (its annotation begins with `Callable`), calls to it are guarded:
    what it raises and how long it takes is told in the learner's terms.

    Args:
        name: number of the notebook and a word.
        hints: two or more, from a nudge to nearly the solution.
        limit_s: how long one call of the learner's function may take; 20 s by default.
    """

    def decorate(judge: Callable[..., str]) -> Callable[..., None]:
        first = next(iter(inspect.signature(judge).parameters.values()))
        takes_function = str(first.annotation).startswith("Callable")

        @functools.wraps(judge)
        def check(answer: Any, *context: Any) -> None:
            __tracebackhide__ = True
            if unanswered(answer):
                return _say_unanswered()
            try:
                if takes_function and not callable(answer):
                    kind = wrong(short(answer), "a function", f"define it with def {first.name}(…).")
                    raise ExerciseError(_told(kind, hints, 0))  # says all there is to say: no hint is used up
                _require_running(context)
                given = Guarded(answer, limit_s or LIMIT_S) if takes_function else answer
                proves = _judged(judge, given, context, name)
            except Unanswered:
                return _say_unanswered()
            except Wrong as found:
                refusal = found
            else:
                progress.note_right(name)
                return print(f"✓ Right: {proves}")
            raise ExerciseError(_told(refusal, hints, progress.note_wrong(name)))

        explain_missing_names()
        _exercises[name] = Exercise(name, tuple(hints), check)
        return check

    return decorate


def course_exercises() -> tuple[Exercise, ...]:
    """All exercises of the course, in order."""
    for path in sorted(Path(__file__).parent.glob("checks_*.py")):
        importlib.import_module(f"{__package__}.{path.stem}")
    return tuple(sorted(_exercises.values(), key=lambda found: found.name.partition("-")[0]))  # stable


def exercise_names() -> tuple[str, ...]:
    """The names of all exercises of the course, in order."""
    return tuple(found.name for found in course_exercises())


def _judged(judge: Callable[..., str], answer: Any, context: Sequence[Any], name: str) -> str:
    """What the judge says; its own troubles are told as what they are."""
    try:
        return judge(answer, *context)
    except (Wrong, Unanswered, WorkshopError):
        raise
    except _UNUSABLE as error:
        if isinstance(answer, Guarded):
            answer = answer.last
        note = f"the check cannot use this ({type(error).__name__}: {short(error)})."
        raise wrong(short(answer), "an answer of another kind; the exercise says which", note) from error
    except Exception as error:
        raise SetupError(
            f"check of {name}: it could not finish ({type(error).__name__}: {short(error)}).",
            action="This is not about your answer. Run the cells above once more (is the server running?), then this.",
        ) from error


def _require_running(context: Sequence[Any]) -> None:
    """The notebook's server may have been stopped since."""
    for value in context:
        if getattr(value, "running", True) is False:
            raise ServerError(
                f"{getattr(value, 'label', 'server')}: it has stopped, so nothing can be checked with it.",
                action="Run the cell that starts it, then the exercise's cell and this one.",
            )


def _say_unanswered() -> None:
    print("○ Not attempted yet: replace the … in the cell above and run both cells again. Going on.")


def _told(found: Wrong, hints: Sequence[str], attempts: int) -> str:
    lines = [f"yours:    {found.yours}", f"expected: {found.expected}"]
    lines += [f"note:     {found.note}"] if found.note else []
    if number := min(attempts, len(hints)):
        lines.append(f"hint {number} of {len(hints)}: {hints[number - 1]}")
    return "\n  ".join(["Not yet.", *lines])
