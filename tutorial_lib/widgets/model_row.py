"""One model in a server panel: its name, its state, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

import ipywidgets

from tutorial_lib.server.view import STATE_COLOURS
from tutorial_lib.widgets import markup
from tutorial_lib.widgets.server_state import ModelState


class ModelRow:
    """The widgets of one model, made once and then updated.

    Args:
        name: the model's name.
        actions: "load", "unload" and "check" → what a click does.
    """

    def __init__(self, name: str, actions: Mapping[str, Callable[[], None]]) -> None:
        self._name = ipywidgets.HTML(layout=ipywidgets.Layout(width="190px"))
        self._state = ipywidgets.HTML(layout=ipywidgets.Layout(width="180px"))
        self._reason = ipywidgets.HTML()
        self.buttons = {verb: self._button(verb, name, clicked) for verb, clicked in actions.items()}
        line = ipywidgets.HBox([self._name, self._state, *self.buttons.values()])
        line.layout.align_items, line.layout.flex_flow = "center", "row wrap"
        self.box = ipywidgets.VBox([line, self._reason])
        self.box.add_class("workshop-model")

    @staticmethod
    def _button(verb: str, name: str, clicked: Callable[[], None]) -> ipywidgets.Button:
        told = {"load": "Load", "unload": "Unload", "check": "Ask whether it answers:"}[verb]
        button = ipywidgets.Button(description=verb.capitalize(), tooltip=f"{told} {name}")
        button.layout.width = "78px"
        button.on_click(lambda _: clicked())
        return button

    def show(self, model: ModelState, *, doing: str, enabled: bool) -> None:
        """Bring the row to a state.

        Args:
            doing: what is being done with the model, such as "loading"; "" for nothing.
            enabled: whether buttons may be clicked.
        """
        self._name.value = name_html(model)
        self._state.value = markup.badge(f"{doing} …", markup.AMBER) if doing else state_html(model)
        fault = "" if model.ready or model.unloaded or doing else model.reason
        self._reason.value = markup.problem(fault) if fault else ""
        self.buttons["load"].description = "Reload" if model.ready else "Load"
        self.buttons["load"].disabled = not enabled
        self.buttons["unload"].disabled = not (enabled and model.ready)
        self.buttons["check"].disabled = not (enabled and model.ready)

    def close(self) -> None:
        """Give the widgets back."""
        for widget in (*self.box.children[0].children, *self.box.children, self.box):
            widget.close()


def name_html(model: ModelState) -> str:
    """A model's name with its loaded versions."""
    versions = f" · v{escape(model.versions)}" if model.versions else ""
    return f"<code>{escape(model.name)}</code>{versions}"


def state_html(model: ModelState) -> str:
    """Triton's word for a model's state, with its colour."""
    colour = markup.GREY if model.unloaded else STATE_COLOURS.get(model.state, markup.GREY)
    return markup.badge(f"{model.state} · unloaded" if model.unloaded else model.state, colour)
