"""The prediction panel: choose or draw a digit, and see what the running server says it is."""

from __future__ import annotations

from dataclasses import dataclass

import ipywidgets
import numpy as np

from tutorial_lib.datasets import RAW_MAX, load_digits, prepare
from tutorial_lib.errors import ServerError
from tutorial_lib.models.names import CLASSES, INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.server import Server
from tutorial_lib.widgets import markup
from tutorial_lib.widgets.drawing import Drawing
from tutorial_lib.widgets.panel import Panel

TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Answer:
    """What the server said to one picture.

    Attributes:
        labels: names of the classes, best first.
        shares: softmax of the scores of all classes, in the order of `labels`.
    """

    labels: tuple[str, ...]
    shares: tuple[float, ...]


class PredictionPanel(Panel):
    """A digit, and the server's best labels for it.

    Args:
        server: the running server; its model must have class labels, as the course's has.
        number: which held-out digit to begin with.
        top: how many labels to show.
        seed: of the split into training and held-out digits.
    """

    title = "What does the server see?"

    def __init__(self, server: Server, *, number: int = 0, top: int = 3, seed: int = 0) -> None:
        super().__init__()
        data = load_digits(seed=seed)
        self.images, self.labels = data.test_images, data.test_labels
        if not 0 <= number < len(self.images):
            raise ValueError(f"number: found {number}, expected a held-out digit from 0 to {len(self.images) - 1}.")
        self.server, self.top = server, top
        self.number: int | None = number  # None for a drawing
        self.picture = self.images[number]
        self.answer: Answer | None = None

    def choose(self, number: int) -> None:
        """Take a held-out digit.

        Args:
            number: from 0 to 359.
        """
        self.number, self.picture = number, self.images[number]
        if self._widget is not None:
            self._drawing.set(self.picture)

    def clear(self) -> None:
        """Take an empty page."""
        self.number, self.picture = None, np.zeros_like(self.images[0])
        if self._widget is not None:
            self._drawing.set(self.picture)

    def ask(self) -> Answer:
        """Send the picture to the server.

        Raises:
            ServerError: it did not answer, or not with labels.
        """
        tensor = prepare(self.picture)  # (1, 3, 32, 32)
        sent = {"name": INPUT_NAME, "shape": list(tensor.shape), "datatype": "FP32", "data": tensor.ravel().tolist()}
        wanted = {"name": OUTPUT_NAME, "parameters": {"classification": len(CLASSES)}}
        request = {"inputs": [sent], "outputs": [wanted]}
        try:
            said = self.server.control.infer(MODEL_NAME, request, timeout_s=TIMEOUT_S)["outputs"][0]["data"]
        except ServerError as error:
            if "unknown model" not in error.problem:
                raise
            action = f"Load it: server.load('{MODEL_NAME}'), or in the server's panel."
            raise ServerError(f"{error.problem.rstrip('.')}.", action=action) from error
        self.answer = answer_of(said)
        return self.answer

    def _look(self) -> None:
        try:
            self.ask()
            self._say("")
        except Exception:
            self.answer = None
            if self._widget is not None:
                self._result.value = ""  # an old answer beside a new picture would be a lie
            raise
        finally:
            self._show()

    def _static(self) -> str:
        parts = [markup.note(self._what()), markup.cells(self.picture.tolist(), highest=RAW_MAX)]
        try:
            parts.append(self._bars(self.ask()))
        except ServerError as error:
            parts.append(markup.problem(markup.in_words(error)))
        return "".join(parts) + markup.note(self.server.label, colour=markup.GREY)

    def _what(self) -> str:
        if self.number is None:
            return "Your drawing"
        return f"Held-out digit {self.number}, meant as {CLASSES[self.labels[self.number]]}"

    def _bars(self, answer: Answer) -> str:
        return markup.bars(answer.labels[: self.top], answer.shares[: self.top])

    def _build(self) -> ipywidgets.Widget:
        last = len(self.images) - 1
        self._number = ipywidgets.BoundedIntText(
            value=self.number or 0, min=0, max=last, description="digit", layout=ipywidgets.Layout(width="170px")
        )
        self._number.observe(lambda change: self._guarded(lambda: self._choose_and_ask(change["new"])), "value")
        blank = ipywidgets.Button(description="Blank page", icon="eraser", layout=ipywidgets.Layout(width="120px"))
        blank.on_click(lambda _: self._guarded(self._clear_and_ask))
        again = ipywidgets.Button(description="Ask again", icon="refresh", layout=ipywidgets.Layout(width="120px"))
        again.on_click(lambda _: self._ask_soon())
        self._drawing = Drawing(self._drawn)
        self._drawing.set(self.picture)
        self._caption, self._result = ipywidgets.HTML(), ipywidgets.HTML()
        self._result.add_class("workshop-answer")
        help_text = ipywidgets.HTML(markup.note("Click cells to draw: each click turns one over.", colour=markup.GREY))
        left = ipywidgets.VBox([self._drawing.box, help_text])
        right = ipywidgets.VBox([self._caption, self._result, self._message])
        columns = ipywidgets.HBox([left, right])
        left.layout.flex, columns.layout.flex_flow = "0 0 auto", "row wrap"
        right.layout = ipywidgets.Layout(flex="1 1 320px", margin="0 0 0 24px")  # a long message wraps beside the page
        controls = ipywidgets.HBox([self._number, blank, again])
        controls.layout.flex_flow = "row wrap"
        box = ipywidgets.VBox([controls, columns])
        box.layout = ipywidgets.Layout(border="1px solid #76b900", padding="6px 10px", max_width="900px")
        box.add_class("workshop-prediction-panel")
        return box

    def _choose_and_ask(self, number: int) -> None:
        self.choose(number)
        self._ask_soon()

    def _clear_and_ask(self) -> None:
        self.clear()
        self._ask_soon()

    def _drawn(self) -> None:
        self.number, self.picture = None, self._drawing.picture.copy()
        self._ask_soon()

    def _ask_soon(self) -> None:
        self.answer = None
        self._show()
        self._later(self._look, instead=True)

    def _show(self) -> None:
        if self._widget is None:
            return
        answer = self.answer
        self._caption.value = markup.note(self._what())
        foot = markup.note(f"softmax of the scores · {self.server.label}", colour=markup.GREY)
        if answer is not None:
            self._result.value = self._bars(answer) + foot


def prediction_panel(server: Server, *, number: int = 0, top: int = 3, seed: int = 0) -> PredictionPanel:
    """A panel in which to choose or draw a digit and see the server's best labels.

    Args:
        server: a running server that has the course's digits model loaded.
        number: which held-out digit to begin with.
        top: how many labels to show.
        seed: of the split into training and held-out digits.

    Raises:
        ServerError: `server` is no server.
        ValueError: there is no such digit.
    """
    if not isinstance(server, Server):
        raise ServerError(
            f"server: found a {type(server).__name__}, expected what serve() returns.",
            action="Start one first: server = serve(…).",
        )
    return PredictionPanel(server, number=number, top=top, seed=seed)


def answer_of(said: list[str]) -> Answer:
    """Triton's classification texts, "score:index:name" best first, as labels and shares.

    Raises:
        ServerError: they are not such texts.
    """
    try:
        parts = [text.split(":", 2) for text in said]
        scores = np.array([float(score) for score, *_ in parts])
        labels = tuple(name for _, _, name in parts)
    except (AttributeError, TypeError, ValueError) as error:
        raise ServerError(
            f"model '{MODEL_NAME}': it answered {said!r:.80}, expected texts 'score:index:name'.",
            action="Does its config.pbtxt name a label_filename?",
        ) from error
    weights = np.exp(scores - scores.max())
    return Answer(labels, tuple(weights / weights.sum()))
