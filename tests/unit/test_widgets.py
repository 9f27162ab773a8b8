from __future__ import annotations

import threading

import ipywidgets
import nbformat
import numpy as np
import pandas as pd
import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tutorial_lib.course.progress import COLUMNS, NOT_ATTEMPTED, RIGHT, WRONG
from tutorial_lib.errors import ModelLoadError, ServerError
from tutorial_lib.server.health import Health
from tutorial_lib.widgets import (
    PredictionPanel,
    ProgressPanel,
    ServerPanel,
    markup,
    panel,
    prediction_panel,
    progress_panel,
    server_panel,
    server_view,
)
from tutorial_lib.widgets.jobs import Jobs, Ticker
from tutorial_lib.widgets.prediction_view import answer_of
from tutorial_lib.widgets.server_state import LINE_LIMIT, TAIL_BYTES, models_of_index, tail

VIEW = "application/vnd.jupyter.widget-view+json"


class FakeControl:
    """Triton's control surface with two models, one of which cannot be loaded."""

    def __init__(self):
        self.closed, self.states, self.fails = False, {"good": "READY", "broken": ""}, None

    def index(self):
        if self.fails:
            raise self.fails
        return [{"name": name, "version": "1", "state": state, "reason": ""} for name, state in self.states.items()]

    def infer(self, model, body, *, timeout_s):
        if self.fails:
            raise self.fails
        picture = np.array(body["inputs"][0]["data"])
        best = "one" if picture.mean() > -1 else "zero"  # paper is -1
        return {"outputs": [{"data": [f"9.0:1:{best}", "1.0:2:two", "0.5:3:three:and more"]}]}


class FakeServer:
    """What panels use of a server."""

    tier, label, http_address, http_url = "embedded", "Triton 0 fake", "127.0.0.1:1", "http://127.0.0.1:1"
    repositories, process = (), None

    def __init__(self, log=None):
        self.control, self.log_path, self.alive = FakeControl(), log, True

    @property
    def running(self):
        return self.alive and not self.control.closed

    def load(self, model):
        if model == "broken":
            raise ModelLoadError("model 'broken': <no> file", action="Mend it.", details="line of the log")
        self.control.states[model] = "READY"

    def unload(self, model):
        self.control.states[model] = "UNAVAILABLE"

    def health(self, model):
        return Health(model, ready=True, answers=True)

    def stop(self):
        self.control.closed = True


@pytest.fixture
def live(monkeypatch):
    """Somebody can click."""
    monkeypatch.setattr(panel, "interactive", lambda: True)
    monkeypatch.setattr(panel, "_shown", {})


@pytest.fixture
def server():
    return FakeServer()


@pytest.fixture
def shown(live, server):
    """A live server panel, closed at the end."""
    opened = ServerPanel(server, start=FakeServer)
    opened._repr_mimebundle_()
    yield opened
    opened.close()


def click(row_or_panel, button):
    button.click()
    assert row_or_panel.join(10)


def eventually(condition):
    pause = threading.Event()
    for _ in range(500):
        if condition():
            return True
        pause.wait(0.01)
    return False


def texts(widget):
    own = getattr(widget, "value", "")
    return " ".join([own if isinstance(own, str) else "", *map(texts, getattr(widget, "children", ()))])


class TestStatic:
    @pytest.mark.parametrize(
        "make", [lambda s: ServerPanel(s), lambda s: PredictionPanel(s), lambda s: ProgressPanel()]
    )
    def test_html_and_no_widget_where_nobody_can_click(self, server, make):
        made = make(server)
        bundle = made._repr_mimebundle_()
        assert set(bundle) == {"text/html", "text/plain"}
        assert made._widget is None and made._ticker is None

    def test_the_server_and_its_models(self, server):
        html = ServerPanel(server).html()
        assert "Triton 0 fake" in html and "good" in html and "READY" in html

    def test_without_any_server(self, monkeypatch):
        monkeypatch.setattr(server_view, "servers", list)  # another file's server may run in this process
        assert "No server" in server_panel().html()

    def test_the_newest_server_by_default(self, monkeypatch, server):
        monkeypatch.setattr(server_view, "servers", lambda: [FakeServer(), server])
        assert server_panel().server is server

    def test_a_prediction_with_picture_and_bars(self, server):
        html = PredictionPanel(server, number=3).html()
        assert "Held-out digit 3" in html and html.count("<td") == 64 and "one" in html

    def test_an_error_is_told_in_words(self, server):
        server.control.fails = ServerError("GET: <gone>.", action="Start it.")
        for made in (ServerPanel(server), PredictionPanel(server)):
            assert "GET: &lt;gone&gt;. Start it." in made.html()

    def test_whatever_goes_wrong_there_is_html(self, monkeypatch):
        def fails():
            raise OSError("disk <full>")

        monkeypatch.setattr("tutorial_lib.widgets.progress_view.progress_table", fails)
        assert "OSError: disk &lt;full&gt;" in progress_panel().html()


class TestExportedPage:
    def page(self, bundle):
        cell = new_code_cell("panel", outputs=[new_output("execute_result", data=bundle, execution_count=1)])
        return HTMLExporter().from_notebook_node(new_notebook(cells=[cell]))[0]

    def test_of_a_notebook_saved_in_jupyterlab(self, shown, server):
        bundle = shown._repr_mimebundle_()
        assert VIEW in bundle
        page = self.page(bundle)
        assert "Triton 0 fake" in page and "READY" in page
        assert bundle[VIEW]["model_id"] not in page, "the page would look for a widget that it does not have"

    def test_a_widget_alone_would_show_nothing(self):
        page = self.page(ipywidgets.HTML("<b>lost</b>")._repr_mimebundle_())
        assert "<b>lost</b>" not in page  # so the HTML beside it is needed


class TestServerPanel:
    def test_unload_and_load(self, shown, server):
        row = shown._rows["good"]
        click(shown, row.buttons["unload"])
        assert server.control.states["good"] == "UNAVAILABLE"
        assert "UNAVAILABLE" in texts(row.box)
        assert row.buttons["unload"].disabled and row.buttons["load"].description == "Load"
        click(shown, row.buttons["load"])
        assert "READY" in texts(row.box) and not row.buttons["unload"].disabled

    def test_a_refused_load_is_shown_and_escaped(self, shown):
        click(shown, shown._rows["broken"].buttons["load"])
        said = shown._message.value
        assert "model &#x27;broken&#x27;: &lt;no&gt; file" in said and "line of the log" in said
        assert not shown._rows["broken"].buttons["load"].disabled, "the panel can be used again"

    def test_the_next_click_takes_the_error_away(self, shown):
        click(shown, shown._rows["broken"].buttons["load"])
        click(shown, shown._rows["good"].buttons["check"])
        assert "good answers." in shown._message.value and "refused" not in shown._message.value

    def test_stop_and_start(self, shown, server):
        click(shown, shown._stop_button)
        assert server.control.closed and "stopped" in shown._head.value
        assert shown._stop_button.disabled and not shown._start_button.disabled
        click(shown, shown._start_button)
        assert shown.server is not server and shown.state.running
        assert shown._start_button.disabled

    def test_a_start_that_fails_says_so(self, live, server):
        def refuses():
            raise ServerError("Triton ended while starting.", details="error: bad flag")

        server.stop()
        made = ServerPanel(server, start=refuses)
        assert made.widget
        click(made, made._start_button)
        assert "Triton ended while starting." in made._message.value and "bad flag" in made._message.value
        assert not made._start_button.disabled

    def test_buttons_rest_while_something_is_done(self, live, server):
        begun, go_on = threading.Event(), threading.Event()

        def slow():
            begun.set()
            assert go_on.wait(10)
            return FakeServer()

        server.stop()
        made = ServerPanel(server, start=slow)
        assert made.widget
        made._start_button.click()
        assert begun.wait(10), "a click returns at once: the kernel stays free"
        assert made._start_button.disabled and "Starting" in made._message.value
        go_on.set()
        assert made.join(10) and made.state.running

    def test_a_server_gone_behind_its_back(self, shown, server):
        server.alive = False
        assert eventually(lambda: "gone" in shown._head.value), "the panel looks by itself"
        assert eventually(lambda: "does not answer any more" in shown._problem.value)
        with pytest.raises(ServerError, match="no running server"):
            shown.load("good")

    def test_another_panel_sees_what_one_does(self, shown, server):
        other = ServerPanel(server)
        other.unload("good")
        shown.refresh()
        assert not next(model for model in shown.state.models if model.name == "good").ready

    def test_a_late_look_does_not_replace_a_newer_one(self, server, monkeypatch):
        made = ServerPanel(server)
        begun, go_on = threading.Event(), threading.Event()
        index = server.control.index

        def slow_index():
            answer = index()
            if threading.current_thread().name == "slow":
                begun.set()
                assert go_on.wait(10)
            return answer

        monkeypatch.setattr(server.control, "index", slow_index)
        slow = threading.Thread(target=made.refresh, name="slow")
        slow.start()
        assert begun.wait(10)
        made.unload("good")
        go_on.set()
        slow.join(10)
        assert [model.state for model in made.state.models if model.name == "good"] == ["UNAVAILABLE"]

    def test_refreshing_ends_with_the_panel(self, live, server):
        made = ServerPanel(server)
        made._repr_mimebundle_()
        ticker = made._ticker
        assert ticker.running
        made.close()
        assert not ticker.running

    def test_a_cell_run_again_ends_the_panel_it_showed(self, live, server, monkeypatch):
        monkeypatch.setattr(panel, "_running_cell", lambda: "cell")
        first, second = ServerPanel(server), ServerPanel(server)
        first._repr_mimebundle_()
        ticker = first._ticker
        second._repr_mimebundle_()
        assert not ticker.running and second._ticker.running
        second.close()

    def test_log_text_is_escaped_and_bounded(self, live, tmp_path):
        log = tmp_path / "log"
        log.write_text("I1 start\n" * 50 + "E0101 00:00:00.1 1 a.cc:1] <script>alert(1)</script>\n")
        made = ServerPanel(FakeServer(log), log_lines=4)
        assert made.widget
        assert "<script>" not in made._log.value and "&lt;script&gt;" in made._log.value
        assert made._log.value.count("I1 start") == 3 and markup.RED in made._log.value


class TestState:
    def test_the_tail_of_a_large_log_reads_its_end_only(self, tmp_path):
        log = tmp_path / "log"
        log.write_bytes(b"\xff" * (3 * TAIL_BYTES) + b"\n" + b"x" * 1000 + b"\n| option | 1 |\n+----+\n\nlast\n")
        long, last = tail(log, 5)[-2:]
        assert last == "last" and len(long) <= LINE_LIMIT + 2

    def test_no_log_no_lines(self, tmp_path):
        assert tail(tmp_path / "none", 5) == ()

    def test_versions_of_a_model_are_one_line(self):
        index = [
            {"name": "m", "version": "1", "state": "UNAVAILABLE", "reason": "old"},
            {"name": "m", "version": "2", "state": "READY"},
            {"name": "a"},
        ]
        first, second, third = models_of_index(index, folders=["a", "lost"])
        assert (first.name, first.state) == ("a", "not loaded")
        assert (second.name, second.state) == ("lost", "not loaded"), "Triton drops what it could not read"
        assert (third.name, third.versions, third.state) == ("m", "2", "READY")


class TestPredictionPanel:
    @pytest.fixture
    def made(self, live, server):
        made = PredictionPanel(server)
        made._repr_mimebundle_()
        assert made.join(10)
        yield made
        made.close()

    def test_a_digit_is_asked_for_when_shown(self, made):
        assert "one" in made._result.value and "Held-out digit 0" in made._caption.value

    def test_choosing_shows_the_digit(self, made):
        made._number.value = 5
        assert made.join(10)
        assert np.array_equal(made._drawing.picture, made.images[5]) and "digit 5" in made._caption.value

    def test_drawing_by_click(self, made):
        made.clear()
        made._drawing.cells[8 * 2 + 3].click()
        assert made.join(10)
        assert made.picture[2, 3] == 16 and made.picture.sum() == 16
        assert made._drawing.cells[8 * 2 + 3].style.button_color == "#000000"
        assert "Your drawing" in made._caption.value and "one" in made._result.value
        made._drawing.cells[8 * 2 + 3].click()
        assert made.picture.sum() == 0

    def test_the_digits_of_the_course_are_not_drawn_over(self, made):
        made._drawing.cells[0].click()
        assert made.join(10)
        assert made.images[0][0, 0] == 0

    def test_a_server_that_fails_leaves_no_old_answer(self, made, server):
        server.control.fails = ServerError("Request for unknown model: 'densenet_onnx' is not found")
        made.widget.children[0].children[2].click()  # Ask again
        assert made.join(10)
        assert made._result.value == "" and "unknown model" in made._message.value
        server.control.fails = None
        made.widget.children[0].children[2].click()
        assert made.join(10)
        assert "one" in made._result.value and made._message.value == ""

    def test_answers_that_are_no_labels(self):
        with pytest.raises(ServerError, match="label_filename"):
            answer_of([1.0, 2.0])
        assert answer_of(["2.0:0:a", "0.0:1:b:c"]).labels == ("a", "b:c")

    def test_shares_are_softmax(self):
        shares = answer_of(["1.0:0:a", "0.0:1:b"]).shares
        assert shares[0] == pytest.approx(np.e / (1 + np.e))

    def test_no_server_and_no_such_digit(self, server):
        with pytest.raises(ServerError, match="NoneType.*serve"):
            prediction_panel(None)
        with pytest.raises(ValueError, match="0 to 359"):
            PredictionPanel(server, number=360)


class TestProgressPanel:
    TABLE = pd.DataFrame(
        [("00", "a", RIGHT, 2, 1, ""), ("06", "<b>", WRONG, 1, 1, ""), ("06", "c", NOT_ATTEMPTED, 0, 0, "")],
        columns=list(COLUMNS),
    )

    def test_one_line_each_and_refresh(self, live, monkeypatch):
        tables = [self.TABLE.iloc[:1], self.TABLE]
        monkeypatch.setattr("tutorial_lib.widgets.progress_view.progress_table", lambda: tables[0])
        made = progress_panel()
        made._repr_mimebundle_()
        assert made.join(10) and "1 of 1" in made._shown.value
        tables.pop(0)
        made.widget.children[-1].click()
        assert made.join(10)
        assert "1 of 3" in made._shown.value and "&lt;b&gt;" in made._shown.value and "<b>" not in made._shown.value


class TestJobs:
    def test_errors_go_to_whoever_shows_them_and_work_goes_on(self):
        failed, done = [], []
        jobs = Jobs(failed=failed.append)
        jobs.submit(lambda: 1 / 0)
        jobs.submit(lambda: done.append(1))
        assert jobs.join(10)
        assert [type(error) for error in failed] == [ZeroDivisionError] and done == [1]

    def test_only_the_newest_waits(self):
        go_on, done = threading.Event(), []
        jobs = Jobs(failed=pytest.fail)
        jobs.submit(lambda: go_on.wait(10))
        for number in range(5):
            jobs.submit(lambda number=number: done.append(number), instead=True)
        go_on.set()
        assert jobs.join(10)
        assert done[-1] == 4 and len(done) <= 2

    def test_a_ticker_calls_again_and_again_until_stopped(self):
        calls = threading.Semaphore(0)
        ticker = Ticker(calls.release, period_s=0.001)
        assert all(calls.acquire(timeout=10) for _ in range(3))
        ticker.stop()
        assert not ticker.running


def test_no_notebook_in_git_has_widget_state():
    from tutorial_lib.runner import available

    for path in available():
        assert "widgets" not in nbformat.read(path, as_version=4).metadata
