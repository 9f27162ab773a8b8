"""The commands that stay in the foreground: JupyterLab and the server, started and ended as a person does."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.notebooks.test_run import processes_naming, wait_for
from tutorial_lib.errors import PortInUseError
from tutorial_lib.paths import CHECKOUT, WORKSPACE_VARIABLE
from tutorial_lib.runner import lab

CONFIG = """
backend: "python"
max_batch_size: 8
input [{ name: "x" data_type: TYPE_FP32 dims: [ 4 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ 4 ] }]
"""
MODEL = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        given = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", values)]) for values in given]
"""


@pytest.fixture
def start(tmp_path):
    """Start a command and wait until it says how to stop it; its processes must be gone afterwards."""
    started = []

    def workshop(*arguments):
        output = tmp_path / f"output-{len(started)}"
        with output.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tutorial_lib", *arguments],
                cwd=CHECKOUT,
                env=os.environ | {WORKSPACE_VARIABLE: str(tmp_path / "workspace"), "HOME": "/nowhere/at/all"},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        started.append(process)
        wait_for(lambda: process.poll() is not None or "Ctrl-C" in output.read_text(), what="the start")
        return process, output.read_text()

    yield workshop
    for process in started:
        process.kill()
        process.wait()
    wait_for(lambda: not processes_naming(str(tmp_path / "workspace")), what="the end of all processes")


def child_with(word, parent):
    """The child that has the word on its command line; one that is just being started has none yet."""
    children = psutil.Process(parent).children
    (found,) = wait_for(lambda: [child for child in children() if word in child.cmdline()], what=f"a child {word}")
    return found


def ask(url, token, path, **body):
    """Jupyter's REST interface with a token."""
    base = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    method = "POST" if body else "GET"
    headers = {"Authorization": f"token {token}"} if token else {}
    return httpx.request(method, f"{base}/api/{path}", headers=headers, json=body or None, trust_env=False, timeout=30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_lab_has_a_token_the_right_kernel_and_ends_with_its_kernels(start, number):
    process, told = start("lab", "--no-browser")
    url, token = re.search(r"(http://127\.0\.0\.1:\d+/lab\S*?)\?token=(\w+)", told).groups()
    assert ask(url, "", "contents").status_code == 403
    assert "notebooks" in [entry["name"] for entry in ask(url, token, "contents").json()["content"]]
    specs = ask(url, token, "kernelspecs").json()["kernelspecs"]
    assert specs["python3"]["spec"]["argv"][0] == sys.executable
    assert ask(url, token, "kernels", name="python3").status_code == 201
    server = child_with("jupyterlab", process.pid)
    kernel = child_with("ipykernel_launcher", server.pid)
    listening = {entry.laddr.ip for entry in server.net_connections() if entry.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
    process.send_signal(number)
    assert process.wait(timeout=40) == (0 if number == signal.SIGINT else -9)
    wait_for(lambda: not server.is_running() and not kernel.is_running(), what="the end of Jupyter and its kernel")


def test_a_taken_port_is_avoided_or_refused_if_it_was_given():
    with socket.socket() as taken:
        taken.bind((lab.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert lab._choose((port, 0)) != port
        with pytest.raises(PortInUseError, match=f"port {port}"), lab.lab(port=port):
            raise AssertionError("it started")
    assert lab._choose((port,)) == port


def test_a_port_taken_at_the_last_moment_is_given_up_for_another(monkeypatch, tmp_path):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    choose, chosen = lab._choose, []
    with socket.socket() as taken:
        taken.bind((lab.HOST, 0))
        taken.listen()

        def late(candidates):
            chosen.append(choose(candidates) if chosen else taken.getsockname()[1])
            return chosen[-1]

        monkeypatch.setattr(lab, "_choose", late)
        with lab.lab() as running:
            assert f":{chosen[-1]}/" in running.url and running.process.poll() is None
    assert len(chosen) == 2 and running.process.poll() is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_where_it_is_and_stops_on_a_signal(start, tmp_path, number):
    version = tmp_path / "repository" / "echo" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(MODEL)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    process, told = start("serve", str(tmp_path / "repository"))
    address = re.search(r"HTTP +(127\.0\.0\.1:\d+)", told)[1]
    assert told.startswith("Triton 2.")
    assert re.search(r"model +echo 1 READY", told)
    assert httpx.get(f"http://{address}/v2/models/echo/ready", trust_env=False).status_code == 200
    log = re.search(r"log +(\S+)", told)[1]
    assert os.path.exists(log)
    process.send_signal(number)
    assert process.wait(timeout=30) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{address}/v2", trust_env=False)


def test_serve_refuses_what_is_not_there_in_one_sentence(start):
    process, told = start("serve", "/no/such/repository")
    assert process.wait() == 1
    assert told.startswith("RepositoryError: model repository /no/such/repository")
    assert "Traceback" not in told
