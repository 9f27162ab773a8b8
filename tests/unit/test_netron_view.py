from __future__ import annotations

import logging
import socket
import urllib.request

import pytest
from test_onnx_file import write

from tutorial_lib.course.record import RECORDS_VARIABLE
from tutorial_lib.errors import ExportError, PortInUseError
from tutorial_lib.export.netron_view import show_netron, stop_netron


@pytest.fixture
def path(tmp_path):
    yield write(tmp_path / "m.onnx")
    stop_netron()


def get(url: str) -> bytes:
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5).read()


def test_serves_the_page_and_the_file_on_the_loopback_address_only(path):
    view = show_netron(path, browser=True)
    assert view.url.startswith("http://127.0.0.1:") and view.running
    assert b"netron" in get(view.url).lower()
    assert get(f"{view.url}/data/m.onnx") == path.read_bytes()
    assert view.url in view._repr_mimebundle_()["text/html"]
    view.stop()
    assert not view.running
    with pytest.raises(OSError):
        get(view.url)


def test_the_page_may_ask_no_other_host(path):
    view = show_netron(path, browser=True)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(view.url, timeout=5) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self' ") and "*" not in policy and "http" not in policy


def test_calling_twice_replaces_the_first(path, tmp_path):
    first = show_netron(path, browser=True)
    second = show_netron(write(tmp_path / "other.onnx"), browser=True)
    assert second.running and get(f"{second.url}/data/other.onnx")
    assert first.url == second.url or not first.running


def test_without_a_browser_there_is_a_picture_and_no_server_left(path, monkeypatch):
    monkeypatch.setenv(RECORDS_VARIABLE, "somewhere")
    view = show_netron(path)
    shown = view._repr_mimebundle_()
    assert shown["image/png"].startswith(b"\x89PNG") and "text/html" not in shown
    assert not view.running
    view.stop()


def test_a_port_of_choice_and_a_taken_one(path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=str(port)):
            show_netron(path, port, browser=True)
    assert show_netron(path, port, browser=True).url == f"http://127.0.0.1:{port}"


def test_logging_of_the_process_stays_as_it_was(path):
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    show_netron(path, browser=True).stop()
    assert (root.level, list(root.handlers)) == before


def test_a_file_that_is_no_onnx(tmp_path):
    with pytest.raises(ExportError):
        show_netron(tmp_path / "none.onnx")
