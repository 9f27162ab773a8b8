"""The input for a guess in a browser: a text field for a number, buttons for choices."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tutorial_lib.course.guess import Guess, UnusableGuess, read_number

if TYPE_CHECKING:
    from tutorial_lib.course.predict import Prediction

CLASS = "workshop-predict"  # for tests and styles


def show_input(prediction: Prediction, *, example: Guess, noted: Callable[[], None]) -> None:
    """Display the input, filled with the guess there is; what is typed goes into `prediction`.

    Args:
        example: shown in the empty field.
        noted: called after each change of the guess.
    """
    from IPython.display import display

    display(make_input(prediction, example=example, noted=noted))


def make_input(prediction: Prediction, *, example: Guess, noted: Callable[[], None]) -> Any:
    """The widget that `show_input` displays: question, field or buttons, and a line that answers."""
    import ipywidgets

    answer = ipywidgets.HTML()

    def tell(text: str) -> None:
        answer.value = html.escape(text)

    def take(change: dict[str, Any]) -> None:
        if prediction.choices:
            prediction.guess = change["new"]
        else:
            try:
                prediction.guess = read_number(change["new"], prediction.unit)
            except UnusableGuess as error:
                tell(f"△ Your guess {error} Any number will do; it need not be right.")
                return
        prediction.example = False
        tell("✓ Noted. Go on to the measurement.")
        noted()

    if prediction.choices:
        field = ipywidgets.ToggleButtons(options=prediction.choices, value=prediction.guess)
    else:
        field = ipywidgets.Text(
            value="" if prediction.guess is None else f"{prediction.guess:g}",
            placeholder="your guess" if example is None else f"your guess, such as {example}",
            continuous_update=False,
            layout=ipywidgets.Layout(width="14em"),
        )
    field.observe(take, names="value")
    question = ipywidgets.HTML(f"<b>Predict:</b> {html.escape(prediction.question)}")
    row = [field] if prediction.choices else [field, ipywidgets.Label(prediction.unit)]
    box = ipywidgets.VBox([question, ipywidgets.HBox(row), answer])
    box.add_class(CLASS)
    return box
