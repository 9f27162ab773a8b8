"""What a learner has done so far: exercises and predictions, in one JSON file.

`$WORKSHOP_PROGRESS`, or `progress.json` in the workspace. Progress is a convenience: when the file cannot be
read or written (a full disk, a folder without permission), one line says so and this kernel goes on
with what it remembers.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from tutorial_lib.course.numbering import position
from tutorial_lib.paths import atomic_write, real_path, workspace

PROGRESS_VARIABLE = "WORKSHOP_PROGRESS"
VERSION = 1
NOT_ATTEMPTED, WRONG, RIGHT = "not attempted", "wrong", "right"
COLUMNS = ("notebook", "exercise", "state", "attempts", "hints", "last")

_EMPTY: dict[str, Any] = {"version": VERSION, "exercises": {}, "predictions": {}}
_remembered: dict[Path, dict[str, Any]] = {}  # by file: what could not be written
_said: set[str] = set()


def progress_path() -> Path:
    """The learner's progress file; it need not exist yet."""
    given = os.environ.get(PROGRESS_VARIABLE)
    return real_path(given, PROGRESS_VARIABLE) if given else workspace().root / "progress.json"


def note_wrong(exercise: str) -> int:
    """Count a wrong attempt.

    Args:
        exercise: its name, such as "06-margin".

    Returns:
        Wrong attempts since the last right one, this one included: the number of the hint to show.
    """

    def change(entry: dict[str, Any]) -> None:
        entry["wrong"] += 1
        entry["hints"] += 1
        entry["since_right"] += 1

    return _note(exercise, change)["since_right"]


def note_right(exercise: str) -> None:
    """Count a right attempt; the next wrong one starts again with the first hint."""

    def change(entry: dict[str, Any]) -> None:
        entry["right"] += 1
        entry["since_right"] = 0
        entry["solved"] = entry["solved"] or _now()

    _note(exercise, change)


def note_prediction(name: str, **facts: Any) -> None:
    """Keep what is known of a prediction: question, unit, guess, measured, tier …; a later call adds to it."""

    def change(store: dict[str, Any]) -> None:
        entry = store["predictions"].setdefault(name, {"asked": _now()})
        entry.update(facts, last=_now())

    _update(change)


def noted_from(number: int) -> list[str]:
    """The exercises of notebook `number` and later ones that have been attempted."""
    return [name for name in read_progress()["exercises"] if _number(name) >= number]


def forget_from(number: int) -> None:
    """Forget the exercises of notebook `number` and later ones; 0 forgets everything."""

    def change(store: dict[str, Any]) -> None:
        store["exercises"] = {name: entry for name, entry in store["exercises"].items() if _number(name) < number}
        if number <= 0:
            store["predictions"] = {}

    _update(change)


def exercise_state(exercise: str) -> str:
    """Whether it is "not attempted", "wrong" or "right"; an exercise that was right once stays right."""
    return _state(read_progress()["exercises"].get(exercise))


def read_progress() -> dict[str, Any]:
    """The whole store as a dictionary of its own: version, exercises, predictions."""
    return _update(lambda store: None)


def progress_table() -> pd.DataFrame:
    """One row per exercise of the course, attempted or not.

    Returns:
        Columns notebook ("06"), exercise ("margin"), state ("not attempted", "wrong" or "right"), attempts,
        hints (how many were shown) and last (time of the last attempt, or "").
    """
    from tutorial_lib.course.checks import exercise_names

    noted = read_progress()["exercises"]
    rows = []
    for name in [*exercise_names(), *sorted(noted.keys() - set(exercise_names()))]:
        entry = noted.get(name)
        notebook, _, exercise = name.partition("-")
        counts = (entry["wrong"] + entry["right"], entry["hints"], entry["last"]) if entry else (0, 0, "")
        rows.append((notebook, exercise, _state(entry), *counts))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def predictions_table() -> pd.DataFrame:
    """One row per prediction: question, unit, guess, measured, example, last; None where there is none.

    `example` is True where the guess is the notebook's own, because nobody was there to ask.
    """
    rows = read_progress()["predictions"].values()
    columns = ["question", "unit", "guess", "measured", "example", "last"]
    return pd.DataFrame([[row.get(column) for column in columns] for row in rows], columns=columns, dtype=object)


def _number(exercise: str) -> int:
    """Where the notebook of "06-margin" stands in the course; -1 where there is none."""
    return position(exercise.partition("-")[0])


def _state(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return NOT_ATTEMPTED
    return RIGHT if entry["solved"] else WRONG


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _note(exercise: str, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    fresh = {"wrong": 0, "right": 0, "hints": 0, "since_right": 0, "solved": "", "first": _now()}

    def change_entry(store: dict[str, Any]) -> None:
        entry = store["exercises"].setdefault(exercise, fresh)
        change(entry)
        entry["last"] = _now()

    return _update(change_entry)["exercises"][exercise]


def _update(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Read, change and write the store while nobody else does; returns it as it is now."""
    path = progress_path()
    store = None
    try:
        with _locked(path):
            store = _remembered.get(path) or _read(path)
            before = deepcopy(store)
            change(store)
            if store != before or path in _remembered:
                with atomic_write(path) as temporary:
                    temporary.write_text(json.dumps(store, indent=1, ensure_ascii=False) + "\n")
                _remembered.pop(path, None)
    except OSError as error:
        _say(f"△ Progress: {path} cannot be written ({error.strerror}). Going on; it is lost when this kernel ends.")
        if store is None:  # not even the lock could be had
            store = _remembered.get(path) or _glance(path)
            change(store)
        _remembered[path] = store
    return store


def _glance(path: Path) -> dict[str, Any]:
    """What can be read without a lock and without setting anything aside."""
    try:
        store = json.loads(path.read_text())
    except (OSError, ValueError):
        return deepcopy(_EMPTY)
    return deepcopy(_EMPTY) if _problem(store) else store


def _read(path: Path) -> dict[str, Any]:
    """The store in the file. One that is not ours, or of another version, is set aside under another name."""
    try:
        store = json.loads(path.read_text())
        problem = _problem(store)
    except FileNotFoundError:
        return deepcopy(_EMPTY)
    except ValueError:  # cut, edited by hand, or not text at all
        problem = "cannot be read"
    if not problem:
        return store
    aside = path.with_name(f"{path.stem}.{datetime.now():%Y%m%d-%H%M%S-%f}{path.suffix}")
    os.replace(path, aside)
    _say(f"△ Progress: {path.name} {problem}; it is kept as {aside.name} and a new one begins.")
    return deepcopy(_EMPTY)


def _problem(store: Any) -> str:
    if not isinstance(store, dict) or not isinstance(store.get("version"), int):
        return "is not a progress file"
    if store["version"] != VERSION:
        return f"is of version {store['version']}, not {VERSION}"
    exercises, predictions = store.get("exercises"), store.get("predictions")
    if not isinstance(exercises, dict) or not isinstance(predictions, dict):
        return "lacks a part"
    counts, texts = ("wrong", "right", "hints", "since_right"), ("solved", "first", "last")
    for entry in exercises.values():
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), int) for key in counts):
            return "lacks a count"
        if not all(isinstance(entry.get(key), str) for key in texts):
            return "lacks a time"
    return "" if all(isinstance(entry, dict) for entry in predictions.values()) else "lacks a prediction"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One writer per file, in any kernel; the lock goes with the process, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    """One line, once per kernel: a full disk fails again and again."""
    if line not in _said:
        _said.add(line)
        print(line, file=sys.stderr)
