"""Predict, then measure: `predict("…", unit="ms")` takes a guess, `reveal(measured)` holds it against the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tutorial_lib.course.guess import Guess, UnusableGuess, read_choice, read_number
from tutorial_lib.course.interactive import interactive
from tutorial_lib.course.progress import note_prediction

TIE = 1.15  # factors below this are within what a small machine drifts


@dataclass
class Prediction:
    """A question, and what somebody guesses.

    Attributes:
        question: as asked.
        unit: of the guess and the measurement, such as "ms".
        choices: the possible answers; empty when a number is asked for.
        guess: None until there is one.
        example: whether the guess is the notebook's own, because nobody was there to ask.
    """

    question: str
    unit: str
    choices: tuple[str, ...]
    guess: Guess = None
    example: bool = False


_open: dict[str, Prediction] = {}  # by name, the latest last
_revealed: dict[str, Prediction] = {}


def predict(
    question: str,
    *,
    unit: str = "",
    example: Guess = None,
    choices: Sequence[str] = (),
    name: str | None = None,
) -> None:
    """Ask for a guess before something is measured.

    In a browser an input appears; run again, the cell shows the guess given before, to be changed. Where
    nobody can type, `example` is taken as the guess and printed as such.

    Args:
        question: one sentence that ends in a question mark.
        unit: of the number asked for.
        example: a plausible guess; also shown in the empty input.
        choices: ask for one of these instead of a number.
        name: what `reveal(…, of=name)` calls it; needed where two predictions are open at once.
    """
    key = name or question
    before = _open.pop(key, None) or _revealed.pop(key, None)
    prediction = Prediction(question, unit, tuple(map(str, choices)))
    if before is not None and not before.example and (before.unit, before.choices) == (unit, prediction.choices):
        prediction.guess = before.guess
    _open[key] = prediction
    if interactive():
        from tutorial_lib.course.guess_input import show_input

        show_input(prediction, example=example, noted=lambda: _note(key, prediction))
    elif example is not None:
        prediction.guess, prediction.example = _read(prediction, example), True
        print(f"{question}\n○ Nobody is here to guess, so the example stands in: {_text(prediction.guess, unit)}.")
    else:
        print(question)
    _note(key, prediction)


def reveal(measured: object, *, of: str | None = None) -> None:
    """Hold a measurement against the latest open prediction, or the one named.

    Prints how far off the guess was and plots both. A prediction without a guess is no obstacle. Run again,
    it compares with the same guess.

    Args:
        measured: a number, in the prediction's unit, or one of its choices.
        of: the prediction's name.
    """
    key = of or next(reversed(_open or _revealed), None)
    prediction = _open.get(key) or _revealed.get(key)
    if prediction is None:
        known = ", ".join(map(repr, [*_open, *_revealed]))
        print(f"○ There is no prediction{f' {of!r}' if of else ''} here{f' (there is {known})' if known else ''}: "
              "run the cell with predict(…) first, then this one.")  # fmt: skip
        return
    try:
        found = _read(prediction, measured)
    except UnusableGuess as error:
        print(f"○ Nothing to compare with yet: the measured value {error} Run the measuring cell again, then this one.")
        return
    _revealed[key] = _open.pop(key, prediction)
    from tutorial_lib.plots import where

    _note(key, prediction, measured=found, tier=where())
    if prediction.guess is None:
        print(f"○ {prediction.question} It is {_text(found, prediction.unit)}. Your guess was left empty: "
              "you may still type it above, and run this cell again.")  # fmt: skip
    elif prediction.choices:
        print(_compared(prediction, found))
    else:
        print(distance(prediction.guess, found, prediction.unit, example=prediction.example))
    if not prediction.choices:
        from tutorial_lib.plots import plot_prediction

        plot_prediction(prediction.question, guess=prediction.guess, measured=found, unit=prediction.unit,
                        example=prediction.example)  # fmt: skip


def distance(guess: float, measured: float, unit: str = "", *, example: bool = False) -> str:
    """How far off a guess is, as a sentence with a factor and a difference."""
    said = f"{'The example' if example else 'You'} said {_text(guess, unit)}, measured {_text(measured, unit)}"
    gap = abs(measured - guess)
    if gap == 0:
        return f"✓ {said}: exactly."
    by = f"{_text(gap, unit)} too {'low' if guess < measured else 'high'}"
    if guess * measured <= 0:
        return f"△ {said}: {by}."
    factor = max(guess / measured, measured / guess)
    if factor < TIE:
        return f"✓ {said}: as good as equal, {100 * gap / abs(measured):.0f} % off ({by})."
    direction = "low" if guess < measured else "high"
    return (
        f"△ {said}: {factor:.2g} times too {direction} ({by})."
        if factor < 100
        else (f"△ {said}: {factor:,.0f} times too {direction} ({by}).")
    )


def _compared(prediction: Prediction, found: Guess) -> str:
    who = "The example" if prediction.example else "You"
    if prediction.guess == found:
        return f"✓ {who} said {prediction.guess!r}, and so it is."
    return f"△ {who} said {prediction.guess!r}; it is {found!r}."


def _read(prediction: Prediction, value: object) -> Guess:
    return read_choice(value, prediction.choices) if prediction.choices else read_number(value, prediction.unit)


def _note(key: str, prediction: Prediction, **facts: Any) -> None:
    note_prediction(
        key,
        question=prediction.question,
        unit=prediction.unit,
        guess=prediction.guess,
        example=prediction.example,
        **facts,
    )


def _text(value: Guess, unit: str) -> str:
    if isinstance(value, str):
        return value
    digits = 3 if abs(value) < 1000 else max(3, int(math.log10(abs(value))) + 1)
    return f"{value:,.{digits}g}{'' if unit in ('', '×') else ' '}{_one(unit) if value == 1 else unit}"


def _one(unit: str) -> str:
    """The name of one of what is counted: "process" of "processes"; a symbol such as "ms" stays."""
    if len(unit) < 4 or not unit.isalpha():
        return unit
    return unit.removesuffix("es") if unit.endswith("sses") else unit.removesuffix("s")
