"""The frame every exercise check is built on: not attempted, wrong, or right."""

from __future__ import annotations

from tutorial_lib.errors import ExerciseError


def attempted(*answers: object) -> bool:
    """Whether the learner has put something in place of every `...`; says so if not."""
    if any(answer is ... for answer in answers):
        print("○ Not attempted yet: replace the … in the cell above and run both cells again. Going on.")
        return False
    return True


def wrong(yours: object, expected: object, hint: str) -> ExerciseError:
    """The error for an answer that is not right yet, to be raised by the check."""
    return ExerciseError(f"Not yet.\n  yours:    {yours}\n  expected: {expected}\n  hint:     {hint}")


def right(proves: str) -> None:
    """Print the one line a right answer earns; `proves` says what it shows."""
    print(f"✓ Right: {proves}")
