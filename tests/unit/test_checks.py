"""The frame of the exercises: not attempted, wrong with the next hint, right; and learners' code of every kind."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from tutorial_lib.course import checks, progress
from tutorial_lib.course.attempt import TimeUp, short, time_limit, unanswered
from tutorial_lib.course.checks import course_exercises, exercise, wrong
from tutorial_lib.course.missing_names import sentence
from tutorial_lib.course.numbering import position
from tutorial_lib.errors import ExerciseError, ServerError, SetupError

HINTS = ["think of fives", "five times eight", "forty, and two more"]


@pytest.fixture(autouse=True)
def no_more_exercises(monkeypatch):
    course_exercises()  # registers all there are
    monkeypatch.setattr(checks, "_exercises", dict(checks._exercises))


@pytest.fixture
def check_number():
    @exercise("99-number", hints=HINTS)
    def check_number(number: object, server: object = None) -> str:
        """The number must be 42."""
        if server == "gone":
            raise ConnectionRefusedError("port 1")
        if float(number) != 42:
            raise wrong(number, 42, "rather low." if number < 42 else "")
        return "you know the answer."

    return check_number


@pytest.fixture
def check_double():
    @exercise("99-double", hints=HINTS, limit_s=0.3)
    def check_double(double: Callable[[int], int]) -> str:
        for number in (1, 2, 3):
            if double(number) != 2 * number:
                raise wrong(double(number), 2 * number)
        return "you can double."

    return check_double


def refusal(check, *arguments):
    with pytest.raises(ExerciseError) as caught:
        check(*arguments)
    return str(caught.value)


def test_not_attempted_is_one_line_and_no_attempt(check_number, capsys):
    assert check_number(...) is None
    assert capsys.readouterr().out == (
        "○ Not attempted yet: replace the … in the cell above and run both cells again. Going on.\n"
    )
    assert progress.read_progress()["exercises"] == {}


def test_wrong_shows_yours_expected_and_the_next_hint_until_the_last(check_number, capsys):
    assert refusal(check_number, 7) == (
        "Not yet.\n  yours:    7\n  expected: 42\n  note:     rather low.\n  hint 1 of 3: think of fives"
    )
    assert refusal(check_number, 99).endswith("expected: 42\n  hint 2 of 3: five times eight")
    for _ in range(3):
        assert refusal(check_number, 99).endswith("hint 3 of 3: forty, and two more")
    check_number(42)
    assert capsys.readouterr().out == "✓ Right: you know the answer.\n"
    assert refusal(check_number, 99).endswith("hint 1 of 3: think of fives")
    table = progress.progress_table().set_index("exercise")
    assert table.loc["number", ["state", "attempts", "hints"]].tolist() == ["right", 7, 6]


def test_each_exercise_has_hints_of_its_own(check_number, check_double):
    refusal(check_number, 7)
    assert "hint 1 of 3" in refusal(check_double, lambda number: 0)


def test_what_is_no_function_uses_up_no_hint(check_double):
    assert refusal(check_double, 7) == (
        "Not yet.\n  yours:    7\n  expected: a function\n  note:     define it with def double(…)."
    )
    assert refusal(check_double, lambda number: 0).endswith("hint 1 of 3: think of fives")


def test_hints_go_on_when_progress_cannot_be_kept(check_number, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv(progress.PROGRESS_VARIABLE, str(tmp_path / "file" / "progress.json"))
    assert [refusal(check_number, 1).splitlines()[-1].strip()[:6] for _ in range(2)] == ["hint 1", "hint 2"]
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("answer", [None, "forty-two", [1, 2], {}, np.ones(3), object(), ValueError("x")])
def test_an_answer_of_another_kind_is_wrong_and_no_traceback(check_number, answer):
    told = refusal(check_number, answer)
    assert "yours:" in told and "hint 1 of 3" in told and len(told) < 600


def test_a_function_that_raises_is_named_with_the_learners_line(check_double):
    def double(number):
        halves = 1 / 0 if number == 2 else 2 * number
        return halves

    told = refusal(check_double, double)
    assert "yours:    raised ZeroDivisionError: division by zero, called with (2)" in told
    assert "`halves = 1 / 0 if number == 2 else 2 * number`" in told


def test_the_learners_line_is_named_even_if_a_library_raised(check_double):
    def double(number):
        return np.ones(2) @ np.ones((3, number))

    assert "`return np.ones(2) @ np.ones((3, number))`" in refusal(check_double, double)


def forever(number):
    while True:
        number += 1


def sleepy(number):
    threading.Event().wait(100)


def stubborn(number):
    while True:
        try:
            threading.Event().wait(100)
        except Exception:
            continue


@pytest.mark.parametrize("function", [forever, sleepy, stubborn])
def test_a_function_that_does_not_end_is_interrupted(check_double, function):
    before = signal.getsignal(signal.SIGALRM)
    begun = time.monotonic()
    told = refusal(check_double, function)
    assert time.monotonic() - begun < 5
    assert "yours:    no answer after 0.3 s, called with (1)" in told and "your line" in told
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_timer_of_somebody_else_goes_on_afterwards():
    rung = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: rung.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(TimeUp), time_limit(0.05):
            forever(0)
        assert not rung.is_set()
        assert rung.wait(5)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_outside_the_main_thread_nothing_is_limited(check_double, capsys):
    thread = threading.Thread(target=check_double, args=[lambda number: 2 * number])
    thread.start()
    thread.join()
    assert "✓" in capsys.readouterr().out


def late(number):
    return 2 if number == 1 else ...


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda number: exit(), "raised SystemExit"),
        (lambda: 1, "takes 0 positional arguments but 1 was given"),
        (lambda number: forever_deep(number), "raised RecursionError"),
        (late, "returns the … of the stub here"),
        (7, "expected: a function"),
        ("double", "expected: a function"),
        (lambda number: None, "yours:    None"),
        (lambda number: np.ones(2), "cannot use this"),
    ],
)
def test_functions_of_every_kind(check_double, function, told):
    assert told in refusal(check_double, function)


def forever_deep(number):
    return forever_deep(number)


def raising_stub(number):
    raise NotImplementedError


@pytest.mark.parametrize("stub", [..., lambda number: ..., raising_stub, (..., 1), [...], {"a": {"b": ...}}])
def test_stubs_are_unattempted(check_double, stub, capsys):
    check_double(stub)
    assert "○ Not attempted" in capsys.readouterr().out


def test_what_is_not_the_learners_fault_is_no_attempt(check_number):
    with pytest.raises(SetupError, match=r"could not finish \(ConnectionRefusedError: port 1\)"):
        check_number(42, "gone")

    class Stopped:
        running, label = False, "Triton 2"

    with pytest.raises(ServerError, match="Triton 2: it has stopped"):
        check_number(42, Stopped())
    assert progress.read_progress()["exercises"] == {}


def test_an_interrupt_by_the_learner_stays_one(check_double):
    def interrupted(number):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_double(interrupted)
    assert progress.read_progress()["exercises"] == {}


def test_unanswered():
    assert all(map(unanswered, [..., [1, ...], (1, [...]), {1: ...}]))
    assert not any(map(unanswered, [None, 0, [], "...", np.ones(2), {1: 2}, object()]))


def test_values_are_shown_on_one_short_line():
    class Rude:
        def __repr__(self):
            raise RuntimeError

    for value in ("x" * 999, "a\nb" * 30, list(range(999)), np.ones((9, 9)), Rude(), ValueError("a\n" * 500)):
        line = short(value)
        assert "\n" not in line and len(line) <= 160
    assert short(np.ones((2, 3))) == "an array of shape (2, 3)"


def test_every_exercise_has_two_hints_and_a_name_of_its_notebook():
    found = course_exercises()
    assert len({one.name for one in found}) == len(found) >= 10
    for one in found:
        assert len(one.hints) >= 2 and len(set(one.hints)) == len(one.hints), one.name
        assert position(one.name.partition("-")[0]) >= 0


@pytest.mark.parametrize(
    ("name", "source", "told"),
    [
        ("margin", "from x import check_margin\n\ncheck_margin(margin, server)", "the exercise's cell, right above"),
        ("server", "from x import check_margin\n\ncheck_margin(margin, server)", "the cells above, from the top"),
        ("x", "check_margin(margin, server, x[7:8])", "`x` does not exist"),
        ("other", "check_margin(margin, server)", ""),
        ("margin", "print(margin)", ""),
    ],
)
def test_a_missing_name_is_explained_in_check_cells_only(name, source, told):
    assert told in sentence(name, source) if told else sentence(name, source) == ""
