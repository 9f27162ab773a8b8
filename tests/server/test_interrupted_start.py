"""Ctrl-C and SIGTERM while `./workshop serve` or `lab` is still starting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from tests.server.conftest import ECHO_MODEL, write_echo
from tutorial_lib.paths import CHECKOUT, WORKSPACE_VARIABLE
from tutorial_lib.server.supervisor import TERM_WAIT_S

STARTED_WITHIN_S = 120
ENDED_WITHIN_S = TERM_WAIT_S + 54  # Triton ends only when a model has loaded, or is killed after TERM_WAIT_S


def wait_for(found, timeout_s: float = STARTED_WITHIN_S):
    deadline = time.monotonic() + timeout_s
    while not (value := found()) and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    return value


@pytest.fixture
def start(tmp_path):
    """Start the command line; what a failed test leaves is killed."""
    processes = []

    def started(*arguments: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-m", "tutorial_lib", *arguments],
            cwd=CHECKOUT, env=os.environ | {WORKSPACE_VARIABLE: str(tmp_path / "workspace")}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        processes.append(process)
        return process

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def status(process: subprocess.Popen) -> int:
    """The exit status as a shell shows it.

    A Python started with -m that is interrupted while it runs code from a text, as dataclasses do when they are
    imported, ends by the signal itself, whatever becomes of its KeyboardInterrupt.
    """
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def family(process: subprocess.Popen, word: str) -> list[psutil.Process]:
    """The process's descendants, once one of them names `word` on its command line."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
        return below if any(word in " ".join(child.cmdline()) for child in below) else []
    except psutil.Error:
        return []


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_server_that_is_loading(tmp_path, start, number, expected):
    repository = write_echo(tmp_path / "models")
    (repository / "echo" / "1" / "model.py").write_text("import threading\nthreading.Event().wait(600)\n" + ECHO_MODEL)
    process = start("serve", str(repository))
    below = wait_for(lambda: family(process, "triton_python_backend_stub"))
    assert below, "it never came to loading the model"
    process.send_signal(number)
    out, err = process.communicate(timeout=ENDED_WITHIN_S)
    assert status(process) == expected and "Traceback" not in err and "Ctrl-C" not in out
    assert wait_for(lambda: not any(child.is_running() for child in below))


def test_the_status_is_the_shells():
    code = "import os, signal as s; s.signal(s.SIGINT, s.default_int_handler); os.kill(os.getpid(), s.SIGINT)"
    ended = subprocess.Popen([sys.executable, "-c", f"exec({code!r})"], stderr=subprocess.DEVNULL)
    ended.wait(STARTED_WITHIN_S)
    assert ended.returncode == -signal.SIGINT and status(ended) == 130
    assert subprocess.run(["bash", "-c", f'{sys.executable} -c "{code}" 2>/dev/null; exit $?']).returncode == 130


def test_a_laboratory_that_is_starting(start):
    process = start("lab", "--no-browser")
    below = wait_for(lambda: family(process, "jupyterlab"))
    assert below, "it never came to starting JupyterLab"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=ENDED_WITHIN_S)
    assert status(process) == 130 and "Traceback" not in err and "JupyterLab:" not in out
    assert wait_for(lambda: not any(child.is_running() for child in below))
