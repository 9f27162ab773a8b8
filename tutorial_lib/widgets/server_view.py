"""The server panel: start and stop, load and unload, and the log as it grows."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from weakref import WeakSet

import ipywidgets

from tutorial_lib.errors import ServerError
from tutorial_lib.server import ModelNotLoaded, Server, serve, servers
from tutorial_lib.widgets import markup
from tutorial_lib.widgets.model_row import ModelRow, name_html, state_html
from tutorial_lib.widgets.panel import Panel
from tutorial_lib.widgets.server_state import ModelState, ServerState, read_state

LOG_LINES = 10


class ServerPanel(Panel):
    """One server: its state, its models with buttons, the end of its log.

    Args:
        server: the server to show; by default this kernel's newest, or none yet.
        start: how to start one; by default on the same repositories with the same models again.
        log_lines: lines of the log to show.
    """

    title = "Server"
    period_s = 1.0

    def __init__(
        self,
        server: Server | None = None,
        *,
        start: Callable[[], Server] | None = None,
        log_lines: int = LOG_LINES,
    ) -> None:
        super().__init__()
        running = servers()
        self.server = server if server is not None else (running[-1] if running else None)
        self.log_lines = log_lines
        self.state = ServerState("No server", running=False)
        self._start_one = start or self._start_again
        self._known = WeakSet(running)  # they are no successors of this one
        self._loaded: tuple[str, ...] = ()  # what was loaded when the server was last seen running
        self._doing: dict[str, str] = {}  # model → "loading", "unloading", "asking"
        self._working = False
        self._lock = threading.RLock()
        self._begun = self._newest = 0  # looks at the server
        self._rows: dict[str, ModelRow] = {}
        self._look()

    def start(self) -> Server:
        """Start the server unless it runs, and return it."""
        self._look()
        if self.server is None or not self.state.running:
            self.server = self._start_one()
        self._look()
        return self.server

    def stop(self) -> None:
        """Stop the server; on the attached tier only let go of it."""
        if self.server is not None:
            self.server.stop()
        self._look()

    def load(self, model: str) -> None:
        """Load or reload a model.

        Raises:
            ServerError: there is no server, or it refused.
        """
        self._during(model, "loading", lambda: self._running().load(model))

    def unload(self, model: str) -> None:
        """Unload a model."""
        self._during(model, "unloading", lambda: self._running().unload(model))

    def check(self, model: str) -> str:
        """Send a model a small request; a sentence says whether it answers."""
        health = self._during(model, "asking", lambda: self._running().health(model))
        if not health:
            return f"{model} does not answer: {health.detail}"
        return f"{model} answers, with an error of its own: {health.detail}" if health.detail else f"{model} answers."

    def _running(self) -> Server:
        if self.server is None or not self.server.running or self.server.control.closed:
            raise ServerError("There is no running server to ask.", action="Press Start.")
        return self.server

    def _during(self, model: str, doing: str, action: Callable):
        self._doing[model] = doing
        self._show()
        try:
            return action()
        finally:
            self._doing.pop(model, None)
            self._look()

    def _start_again(self) -> Server:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelNotLoaded)  # the table shows which, and why
            if self.server is None:
                return serve(models=[])
            if self.server.tier == "attached":
                return serve(url=self.server.control.given_url)
            return serve(self.server.repositories, models=self._loaded)

    def _look(self) -> None:
        """Read the server's state, and show it."""
        with self._lock:
            self._begun += 1
            turn = self._begun
            self._follow()
        state = read_state(self.server, log_lines=self.log_lines)  # unlocked: a server that hangs takes seconds
        with self._lock:
            if turn < self._newest:
                return  # another thread has looked later and was faster
            self._newest, self.state = turn, state
            if state.running and not state.problem:
                self._loaded = tuple(model.name for model in state.models if model.ready)
            self._show()

    def _follow(self) -> None:
        """When this panel's server has ended and a cell has started another in its place, show that one."""
        if self.server is not None and self.server.running:
            self._known.update(servers())
            return
        for other in reversed(servers()):
            same = self.server is None or other.repositories == self.server.repositories
            if same and other not in self._known:
                self.server = other
                return

    def _static(self) -> str:
        self._look()
        state = self.state
        parts = [markup.badge(*_running_badge(state)), self._table(state.models)]
        if state.problem:
            parts.append(markup.problem(state.problem))
        if state.log:
            parts.append(markup.log_block(state.log))
        return "".join(parts)

    @staticmethod
    def _table(models: tuple[ModelState, ...]) -> str:
        cell = 'style="text-align:left;padding:2px 12px 2px 0;vertical-align:top"'
        rows = "".join(
            f"<tr><td {cell}>{name_html(model)}</td><td {cell}>{state_html(model)}</td>"
            f"<td {cell}>{markup.note('' if model.unloaded else model.reason)}</td></tr>"
            for model in models
        )
        return f"<table>{rows}</table>" if rows else ""

    def _build(self) -> ipywidgets.Widget:
        self._head = ipywidgets.HTML()
        self._start_button = _button("Start", lambda: self._later(self._clicked_start), icon="play")
        self._stop_button = _button("Stop", lambda: self._later(self._clicked_stop), icon="stop")
        self._models = ipywidgets.VBox()
        self._problem, self._log = ipywidgets.HTML(), ipywidgets.HTML()
        head = ipywidgets.HBox([self._head, self._start_button, self._stop_button])
        head.layout.align_items, head.layout.flex_flow = "center", "row wrap"
        box = ipywidgets.VBox([head, self._models, self._problem, self._message, self._log])
        box.layout = ipywidgets.Layout(border="1px solid #76b900", padding="6px 10px", max_width="900px")
        box.add_class("workshop-server-panel")
        self._rows = {}
        return box

    def _clicked_start(self) -> None:
        self._say("Starting …")
        self.start()
        self._say("")

    def _clicked_stop(self) -> None:
        attached = self.server is not None and self.server.tier == "attached"
        self._say("Letting go …" if attached else "Stopping …")
        self.stop()
        what = "It runs on, since it was not started here." if attached else "Stopped."
        self._say(f"{what} Start brings it back" + ("." if attached else " with the models it had."))

    def _clicked(self, action: Callable[[str], str | None], model: str) -> None:
        def job() -> None:
            self._say("")
            self._say(action(model) or "")

        self._later(job)

    def _busy(self, busy: bool) -> None:
        self._working = busy
        self._show()

    def _show(self) -> None:
        """Bring the widgets to `self.state`; only what differs is sent to the browser."""
        if self._widget is None:
            return
        with self._lock:
            state = self.state
            word, colour = _running_badge(state)
            self._head.value = f'<span style="font-weight:600">{markup.badge(word, colour)}</span>'
            self._start_button.disabled = self._working or state.running
            self._stop_button.disabled = self._working or not state.running
            self._problem.value = markup.problem(state.problem) if state.problem else ""
            self._log.value = markup.log_block(state.log) if state.log else ""
            self._show_models(state.models)

    def _show_models(self, models: tuple[ModelState, ...]) -> None:
        names = [model.name for model in models]
        if names != list(self._rows):
            actions = {"load": self.load, "unload": self.unload, "check": self.check}
            before = self._rows
            self._rows = {
                name: before.pop(name, None)
                or ModelRow(name, {verb: _bound(self._clicked, action, name) for verb, action in actions.items()})
                for name in names
            }
            self._models.children = [row.box for row in self._rows.values()]
            for row in before.values():
                row.close()
        for model in models:
            self._rows[model.name].show(model, doing=self._doing.get(model.name, ""), enabled=not self._working)


def server_panel(server: Server | None = None) -> ServerPanel:
    """A panel for a server: start and stop it, load and unload its models, watch its log.

    Args:
        server: what `serve()` returned; by default this kernel's newest server. Without any, the panel's
            Start button starts one on the workspace's repository, with no model loaded.
    """
    return ServerPanel(server)


def _running_badge(state: ServerState) -> tuple[str, str]:
    return state.title, markup.GREEN if state.running and not state.problem else markup.GREY


def _bound(function: Callable, *arguments: object) -> Callable[[], None]:
    return lambda: function(*arguments)


def _button(text: str, clicked: Callable[[], None], *, icon: str = "") -> ipywidgets.Button:
    button = ipywidgets.Button(description=text, icon=icon, layout=ipywidgets.Layout(width="80px"))
    button.on_click(lambda _: clicked())
    return button
