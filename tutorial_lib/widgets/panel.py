"""What every panel has: two ways to show itself, a place for messages, and work off the main thread."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import ipywidgets

from tutorial_lib.course.interactive import interactive
from tutorial_lib.widgets import markup
from tutorial_lib.widgets.jobs import Jobs, Ticker

_shown: dict[str, Panel] = {}  # notebook cell → the live panel it shows
_shown_lock = threading.Lock()


class Panel(ABC):
    """A panel that is live where somebody can click and static HTML where nobody can.

    Subclasses say what they consist of: `_build` as widgets, `_static` as HTML. A callback hands its work to
    `_later`; whatever that raises is shown in the panel.

    Attributes:
        message: what the panel last told, an error included.
    """

    title = "Panel"
    period_s: float | None = None  # how often `_look` is called while the panel is shown live

    def __init__(self) -> None:
        self._widget: ipywidgets.Widget | None = None
        self._message: ipywidgets.HTML | None = None
        self._jobs = Jobs(failed=self._fail, changed=self._busy)
        self._ticker: Ticker | None = None
        self.message = ""

    @property
    def widget(self) -> ipywidgets.Widget:
        """The live form, made on first use."""
        if self._widget is None:
            self._message = ipywidgets.HTML()
            self._message.add_class("workshop-message")
            self._widget = self._build()
            self._show_message()
            self._show()
        return self._widget

    def html(self) -> str:
        """The static form, as it is now; an error is part of it, in words."""
        try:
            body = self._static()
        except Exception as error:
            body = markup.problem(markup.in_words(error))
        return markup.card(self.title, body)

    def refresh(self) -> None:
        """Look again, and show what has changed."""
        self._guarded(self._look)

    def join(self, timeout_s: float = 30.0) -> bool:
        """Wait until what was clicked has been done; False when it is not by then."""
        return self._jobs.join(timeout_s)

    def close(self) -> None:
        """End the panel: no more refreshing, and nothing left on the page."""
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
        if self._widget is not None:
            _close(self._widget)
            self._widget = self._message = None

    @abstractmethod
    def _build(self) -> ipywidgets.Widget:
        """The panel as widgets; `self._message` is to be among them."""

    @abstractmethod
    def _static(self) -> str:
        """The panel as HTML."""

    @abstractmethod
    def _look(self) -> None:
        """Find out what there is to show, and `_show` it; called from the refreshing thread, too."""

    @abstractmethod
    def _show(self) -> None:
        """Bring the widgets, if there are any yet, to what is known."""

    def _busy(self, busy: bool) -> None:  # noqa: B027 - not every panel cares
        """Clicked work begins or has ended."""

    def _later(self, job: Callable[[], None], *, instead: bool = False) -> None:
        """Do what was clicked, off the main thread."""
        self._jobs.submit(job, instead=instead)

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._fail(error)

    def _say(self, text: str) -> None:
        """Show a message; "" clears it."""
        self.message, self._is_problem = text, False
        self._show_message()

    def _fail(self, error: Exception) -> None:
        self.message, self._is_problem = markup.in_words(error), True
        self._show_message()

    _is_problem = False

    def _show_message(self) -> None:
        if self._message is not None:
            as_html = markup.problem if self._is_problem else markup.note
            self._message.value = as_html(self.message) if self.message else ""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Static HTML always, so that an exported page has something to show; the widget where it lives."""
        static = {"text/html": self.html(), "text/plain": f"<{type(self).__name__}>"}
        if not interactive():
            return static
        try:
            live = self.widget._repr_mimebundle_()
        except Exception as error:
            return static | {"text/html": markup.card(self.title, markup.problem(markup.in_words(error)))}
        self._take_the_cell()
        if self.period_s is None:
            self._later(self._look)
        elif self._ticker is None:
            self._ticker = Ticker(self.refresh, period_s=self.period_s)
        return {**live, **static}

    def _take_the_cell(self) -> None:
        """A cell run again shows a new panel: the one it showed before ends."""
        cell = _running_cell()
        if cell is None:
            return
        with _shown_lock:
            before, _shown[cell] = _shown.get(cell), self
        if before is not None and before is not self:
            before.close()


def _close(widget: ipywidgets.Widget) -> None:
    """Close a widget with all that it holds; closing a box alone would leave its children in the kernel."""
    for child in getattr(widget, "children", ()):
        _close(child)
    widget.close()


def _running_cell() -> str | None:
    """The id of the notebook cell that runs, where the front end tells it."""
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    try:
        return kernel.get_parent()["metadata"]["cellId"]
    except (AttributeError, KeyError, TypeError):
        return None  # not a notebook, or a front end that does not tell
