"""A learner's progress as text, for `./workshop status`."""

from __future__ import annotations

from tutorial_lib.course.guess import Guess
from tutorial_lib.course.predict import distance
from tutorial_lib.course.progress import NOT_ATTEMPTED, RIGHT, WRONG, predictions_table, progress_path, progress_table

_MARKS = {RIGHT: "✓ right", WRONG: "△ not yet", NOT_ATTEMPTED: "○ not attempted"}


def status_text() -> str:
    """The exercises, notebook by notebook, and the predictions that were made."""
    table = progress_table()
    done = int((table["state"] == RIGHT).sum())
    lines = [f"{done} of {len(table)} exercises are right.  ({progress_path()})", ""]
    width = max(map(len, table["exercise"]), default=0)
    for row in table.itertuples():
        line = f"  {row.notebook:3} {row.exercise:{width}}  {_MARKS[row.state]:15}"
        if row.attempts:
            line += f"  attempts {row.attempts:2}  hints {row.hints:2}  {row.last[:16].replace('T', ' ')}"
        lines.append(line.rstrip())
    shown = predictions_table()[["question", "unit", "guess", "measured", "example"]]
    told = [_prediction(*row[1:]) for row in shown.itertuples()]
    return "\n".join([*lines, *(["", "Predictions:", *told] if told else [])])


def _prediction(question: str | None, unit: str | None, guess: Guess, measured: Guess, example: bool | None) -> str:
    if guess is None or measured is None:
        outcome = "no guess yet." if guess is None else f"guessed {guess} {unit or ''}".rstrip() + ", not measured yet."
    elif isinstance(guess, str) or isinstance(measured, str):
        outcome = f"guessed {guess!r}, it is {measured!r}."
    else:
        outcome = distance(guess, measured, unit or "", example=bool(example))
    return f"  {question} {outcome}"
