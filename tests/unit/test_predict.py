"""Predict, then measure: guesses of every kind, and how they are held against the result."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

from tutorial_lib.course import guess_input, predict
from tutorial_lib.course.guess import UnusableGuess, read_choice, read_number
from tutorial_lib.course.predict import Prediction, distance, reveal
from tutorial_lib.course.progress import predictions_table

ask = predict.predict


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(predict, "_open", {})
    monkeypatch.setattr(predict, "_revealed", {})
    yield
    plt.close("all")


@pytest.fixture
def browser(monkeypatch):
    """A learner in front of a browser; gives the inputs that were shown."""
    shown = []
    monkeypatch.setattr(predict, "interactive", lambda: True)
    monkeypatch.setattr(guess_input, "show_input", lambda *a, **k: shown.append(guess_input.make_input(*a, **k)))
    return shown


def field(box):
    return box.children[1].children[0]


def answer(box):
    return box.children[2].value


def test_where_nobody_can_type_the_example_is_the_guess_and_says_so(capsys):
    ask("How long?", unit="ms", example=1.0)
    assert "example stands in: 1 ms" in capsys.readouterr().out
    reveal(3.2)
    assert "The example said 1 ms, measured 3.2 ms: 3.2 times too low (2.2 ms too low)." in capsys.readouterr().out
    row = predictions_table().iloc[0]
    assert (row["question"], row["guess"], row["measured"]) == ("How long?", 1.0, 3.2)


@pytest.mark.parametrize(
    ("guess", "measured", "unit", "told"),
    [
        (5, 5, "ms", "exactly"),
        (10, 11, "ms", "as good as equal, 9 % off (1 ms too low)"),
        (32, 10, "ms", "3.2 times too high (22 ms too high)"),
        (1, 1500, "requests/s", "1,500 times too low"),
        (0, 4, "ms", ": 4 ms too low."),
        (1e-6, 0.0, "", ": 1e-06 too high."),
        (-1, 3, "%", ": 4 % too low."),
        (8, 4, "×", "2 times too high (4× too high)"),
        (2, 3, "processes", "said 2 processes, measured 3 processes: 1.5 times too low (1 process too low)"),
        (1, 2, "patterns", "said 1 pattern, measured 2 patterns"),
        (1, 3, "ms", "said 1 ms"),
    ],
)
def test_how_far_off(guess, measured, unit, told):
    assert told in distance(guess, measured, unit)


def test_what_is_counted_has_whole_ticks_and_no_unit_of_time():
    ask("How many?", unit="processes", example=2)
    reveal(1)
    axes = plt.gcf().axes[0]
    assert axes.get_xlabel() == "number of processes"
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
    assert {text.get_text() for text in axes.texts} == {"1", "2"}


def test_the_plot_has_units_and_the_tier_in_its_title():
    ask("How long does one request take?", unit="ms", example=2)
    reveal(6)
    axes = plt.gcf().axes[0]
    assert axes.get_title(loc="left").splitlines() == ["How long does one request take?", predict_tier()]
    assert axes.get_xlabel() == "time (ms)"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["the example's guess", "measured"]
    assert [bar.get_width() for bar in axes.patches] == [2, 6]
    assert axes.get_xscale() == "linear"


def predict_tier():
    from tutorial_lib.plots import where

    return where()


def test_far_apart_is_plotted_on_a_logarithmic_axis_and_zero_never_is():
    for guess, scale in ((1, "log"), (0, "linear")):
        ask("How many?", unit="requests/s", example=guess)
        reveal(5000)
        assert plt.gcf().axes[0].get_xscale() == scale


def test_a_guess_is_typed_noted_and_edited(browser, capsys):
    ask("How long?", unit="ms", example=1.0)
    (box,) = browser
    assert field(box).placeholder == "your guess, such as 1.0"
    field(box).value = "20 ms"
    assert "Noted" in answer(box)
    assert predictions_table()["guess"].tolist() == [20.0]
    ask("How long?", unit="ms", example=1.0)  # the cell is run again
    assert field(browser[1]).value == "20"
    field(browser[1]).value = "30"
    reveal(np.float32(60))
    assert "You said 30 ms, measured 60 ms: 2 times too low" in capsys.readouterr().out
    reveal(30)  # so is this one
    assert "exactly" in capsys.readouterr().out
    assert len(predictions_table()) == 1


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("soon", "not a number of ms"),
        ("nan", "no number to compare"),
        ("inf", "no number to compare"),
        ("-3", "cannot be below zero"),
        ("<b>", "not a number"),
        ("  ", "is empty"),
    ],
)
def test_a_guess_that_is_none_is_answered_kindly(browser, typed, told, capsys):
    ask("How long?", unit="ms")
    field(browser[0]).value = typed
    assert told in answer(browser[0]) and "<b>" not in answer(browser[0])
    reveal(3)
    assert "guess was left empty" in capsys.readouterr().out


def test_an_empty_guess_is_no_obstacle(browser, capsys):
    ask("How long?", unit="ms", example=1.0)
    reveal(3.25)
    told = capsys.readouterr().out
    assert "guess was left empty" in told and "3.25 ms" in told and told.count("\n") == 1
    assert [bar.get_width() for bar in plt.gcf().axes[0].patches] == [3.25]


def test_choices_are_buttons_and_compared(browser, capsys):
    ask("Which?", choices=["batch 1", "batch 32"], example="batch 1")
    assert field(browser[0]).value is None and field(browser[0]).options == ("batch 1", "batch 32")
    field(browser[0]).value = "batch 32"
    reveal("batch 32")
    assert "You said 'batch 32', and so it is." in capsys.readouterr().out
    reveal("batch 1")
    assert "You said 'batch 32'; it is 'batch 1'." in capsys.readouterr().out
    assert not plt.get_fignums()


def test_yes_and_no_are_true_and_false(capsys):
    ask("Will it?", choices=["yes", "no"], example="no")
    reveal(np.bool_(True))
    assert "The example said 'no'; it is 'yes'." in capsys.readouterr().out


def test_two_open_predictions(capsys):
    ask("First?", unit="ms", example=1, name="first")
    ask("Second?", unit="s", example=2, name="second")
    reveal(10, of="first")
    assert "said 1 ms, measured 10 ms" in capsys.readouterr().out
    reveal(2)
    assert "said 2 s, measured 2 s: exactly" in capsys.readouterr().out
    ask("Third?", unit="s", example=4)
    ask("Fourth?", unit="s", example=8)
    reveal(8)
    reveal(4)
    assert capsys.readouterr().out.count("exactly") == 2, "the latest open one first"


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        (None, "is empty"),
        (..., "is empty"),
        ("fast", "not a number"),
        (float("nan"), "no number to compare"),
        (-1, "below zero"),
        ([1, 2], "not a number"),
        (np.ones(3), "3 values, not one"),
    ],
)
def test_nothing_measured_keeps_the_prediction_open(measured, told, capsys):
    ask("How long?", unit="ms", example=1)
    reveal(measured)
    out = capsys.readouterr().out
    assert told in out and "Run the measuring cell again" in out
    assert not plt.get_fignums()
    reveal(1)
    assert "exactly" in capsys.readouterr().out


def test_revealing_what_was_not_asked_is_one_sentence(capsys):
    reveal(3)
    assert capsys.readouterr().out.startswith("○ There is no prediction here: run the cell")
    ask("How long?", unit="ms", example=1, name="wait")
    reveal(3, of="weight")
    assert "no prediction 'weight' here (there is 'wait')" in capsys.readouterr().out


def test_a_choice_that_is_none_of_them(capsys):
    ask("Will it?", choices=["yes", "no"], example="no")
    reveal("perhaps")
    assert "'perhaps', not one of yes, no" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "number"),
    [("1,5", 1.5), ("1,000", 1000), ("12,345.5", 12345.5), ("20ms", 20), ("~ 3", 3), ("about 7 ms", 7), ("1e-3", 1e-3)],
)
def test_numbers_as_people_write_them(text, number):
    assert read_number(text, "ms") == number


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.array([3.0]), torch.tensor(3), True + 2])
def test_numbers_as_programs_write_them(value):
    assert read_number(value) == 3


def test_unusable_values_are_values_errors():
    for value in (object(), [], {}, b"x", np.zeros(0)):
        with pytest.raises(UnusableGuess):
            read_number(value, "ms")
    with pytest.raises(UnusableGuess):
        read_choice(None, ["a"])


def test_another_question_under_the_same_name_forgets_the_guess(browser):
    ask("How long?", unit="ms", name="x")
    field(browser[0]).value = "4"
    ask("Which?", choices=["4", "5"], name="x")
    assert field(browser[1]).value is None
    assert isinstance(predict._open["x"], Prediction) and predict._open["x"].guess is None
