"""Panels on a real server: what a click does, and what the panel shows when the server changes by itself."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.server.conftest import save_onnx, write_echo
from tutorial_lib.errors import ModelLoadError
from tutorial_lib.models.names import CLASSES, INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.paths import REFERENCE_REPOSITORY
from tutorial_lib.server import serve, stop_all
from tutorial_lib.widgets import PredictionPanel, ServerPanel


@pytest.fixture
def repository(tmp_path):
    """`echo`, which works, and `broken`, which does not."""
    write_echo(tmp_path / "repository")
    broken = write_echo(tmp_path / "repository", "broken") / "broken" / "1" / "model.py"
    broken.write_text("raise RuntimeError('on <purpose>')\n")
    yield tmp_path / "repository"
    stop_all()


@pytest.fixture
def server(repository):
    return serve(repository, models=["echo"])


def state_of(panel, name):
    return next(model.state for model in panel.state.models if model.name == name)


def eventually(panel, condition):
    pause = threading.Event()
    for _ in range(200):
        panel.refresh()
        if condition():
            return True
        pause.wait(0.05)
    return False


def test_load_and_unload_down_to_the_last_model(server):
    panel = ServerPanel(server)
    assert (state_of(panel, "echo"), state_of(panel, "broken")) == ("READY", "not loaded")
    panel.unload("echo")
    assert eventually(panel, lambda: state_of(panel, "echo") == "UNAVAILABLE")
    assert panel.state.running and not panel.state.problem
    panel.load("echo")
    assert state_of(panel, "echo") == "READY" and server.health("echo")


def test_a_broken_model_says_why_and_harms_nothing(server):
    panel = ServerPanel(server)
    with pytest.raises(ModelLoadError, match="on <purpose>"):
        panel.load("broken")
    assert state_of(panel, "broken") != "READY" and state_of(panel, "echo") == "READY"
    assert "on &lt;purpose&gt;" in panel.html()


def test_check_asks_the_model_itself(server):
    panel = ServerPanel(server)
    assert panel.check("echo") == "echo answers."


def test_start_again_brings_back_the_models_and_the_cell_finds_the_same_server(server, repository):
    panel = ServerPanel(server)
    panel.stop()
    assert not panel.state.running and not server.running
    again = panel.start()
    assert again is not server and state_of(panel, "echo") == "READY" and state_of(panel, "broken") != "READY"
    assert serve(repository, models=["echo"]) is again


def test_two_panels_follow_one_server(server):
    one, other = ServerPanel(server), ServerPanel(server)
    one.stop()
    other.refresh()
    assert not other.state.running and "stopped" in other.state.title
    started = one.start()
    other.refresh()
    assert other.server is started and other.state.running


def test_killed_behind_its_back(server):
    panel = ServerPanel(server)
    os.kill(server.process.pid, signal.SIGKILL)
    assert eventually(panel, lambda: not panel.state.running)
    assert "ended without being stopped" in panel.state.problem
    assert panel.start().health("echo")


def test_stopped_at_the_moment_of_a_look(server):
    panel = ServerPanel(server)
    seen = []
    looking = threading.Thread(target=lambda: [seen.append(panel.refresh()) for _ in range(100)])
    looking.start()
    server.stop()
    looking.join(30)
    assert len(seen) == 100 and panel.message == "", "a look never fails, whenever it happens"
    assert not panel.state.running


def test_attached_is_let_go_and_found_again(server):
    attached = serve(url=server.http_url)
    panel = ServerPanel(attached)
    panel.stop()
    assert not panel.state.running and server.running
    assert panel.start().tier == "attached" and panel.state.running


def test_the_log_grows_in_the_panel(server):
    panel = ServerPanel(server)
    panel.load("echo")
    assert any("successfully loaded 'echo'" in line for line in panel.state.log)


def test_a_prediction_asks_the_server(tmp_path):
    """A model that scores the classes by the ink of the picture's first ten columns: the answer is known."""
    pick = np.zeros((3 * 32 * 32, 10), np.float32)
    for label in range(10):
        pick[16 * 32 + label, label] = 1  # row 16 of the first channel
    config = (REFERENCE_REPOSITORY / MODEL_NAME / "config.pbtxt").read_text()
    folder = tmp_path / "repository" / MODEL_NAME
    save_onnx(
        folder / "1" / "model.onnx",
        [
            helper.make_node("Flatten", [INPUT_NAME], ["flat"]),
            helper.make_node("MatMul", ["flat", "pick"], [OUTPUT_NAME]),
        ],
        [(INPUT_NAME, TensorProto.FLOAT, ["batch", 3, 32, 32])],
        [(OUTPUT_NAME, TensorProto.FLOAT, ["batch", 10])],
        {"pick": pick},
    )
    (folder / "config.pbtxt").write_text(config)
    (folder / "labels.txt").write_text("\n".join(CLASSES) + "\n")
    with serve(folder.parent, models=[MODEL_NAME]) as server:
        panel = PredictionPanel(server)
        panel.clear()
        panel.picture[4, 1] = 16  # columns 4 to 7 of the tensor get the most of it
        answer = panel.ask()
        assert answer.labels[0] in ("four", "five", "six", "seven") and sum(answer.shares) == pytest.approx(1)
        assert len(answer.labels) == 10
        server.unload(MODEL_NAME)
        assert eventually(ServerPanel(server), lambda: not server.ready(MODEL_NAME))
        assert MODEL_NAME in panel.html() and "border-left" in panel.html()
    assert "was stopped" in panel.html()
