"""Whatever ends the owner, nothing of its server stays: no process, no shared memory, no port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.server.conftest import write_echo
from tutorial_lib.paths import CHECKOUT
from tutorial_lib.server import serve, servers
from tutorial_lib.server.ports import is_free
from tutorial_lib.server.process import STOP_TIMEOUT_S
from tutorial_lib.server.supervisor import SHARED_MEMORY, sweep

GONE_WITHIN_S = 60

OWNER = """
import ctypes, json, os, signal, sys, threading
import psutil
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, also by children
from tutorial_lib.server import serve
server = serve(sys.argv[1])
assert server.health("echo")
regions = [name for name in os.listdir("/dev/shm") if name.startswith(server.region_prefix)]
supervisor = psutil.Process(server.process.pid).parent()
print(json.dumps({
    "pids": [supervisor.pid, server.process.pid, *(child.pid for child in supervisor.children(recursive=True))],
    "supervisor": supervisor.pid, "server": server.process.pid, "prefix": server.region_prefix,
    "regions": regions, "port": int(server.http_address.rpartition(":")[2]),
}), flush=True)
end = sys.argv[2]
if end == "return":
    sys.exit(0)
if end == "exception":
    raise ValueError("a learner's mistake")
if end == "exit":
    os._exit(3)
if end == "segfault":
    ctypes.string_at(0)
if end == "fork":  # a child that outlives us and holds every inheritable and forked descriptor
    if os.fork() == 0:
        threading.Event().wait(600)
    os._exit(0)
threading.Event().wait(600)
"""


def gone(state: dict) -> bool:
    regions = list(SHARED_MEMORY.glob(f"{state['prefix']}*"))
    return not any(map(lives, state["pids"])) and not regions and is_free(state["port"])


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition, timeout_s: float = GONE_WITHIN_S) -> bool:
    deadline = time.monotonic() + timeout_s
    while not (met := condition()) and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    return met


@pytest.fixture
def owner(tmp_path):
    """Start a process that owns a server; returns it with what it said of its server."""
    repository = write_echo(tmp_path)
    started = []

    def start(end: str) -> tuple[subprocess.Popen, dict]:
        process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(repository), end],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=CHECKOUT, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        line = process.stdout.readline()
        assert line, "the owner ended before its server ran"
        state = json.loads(line)
        assert state["regions"], "the prefix names no region: this test could not fail"
        return process, state

    yield start
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        finally:
            process.wait()


@pytest.mark.parametrize("end", ["return", "exception", "exit", "segfault", "fork"])
def test_owner_ends(owner, end):
    process, state = owner(end)
    process.wait(30)
    assert wait_until(lambda: gone(state)), f"left after '{end}': {state}"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_owner_is_killed(owner, number):
    process, state = owner("sleep")
    process.send_signal(number)
    process.wait(30)
    assert wait_until(lambda: gone(state))


def test_a_server_that_ignores_sigterm_is_killed(owner):
    process, state = owner("sleep")
    os.kill(state["server"], signal.SIGSTOP)
    process.kill()
    assert wait_until(lambda: gone(state))


def test_supervisor_and_owner_are_killed_and_the_next_start_sweeps(owner):
    process, state = owner("sleep")
    os.kill(state["supervisor"], signal.SIGKILL)
    process.kill()
    process.wait()
    assert wait_until(lambda: not psutil.pid_exists(state["server"]))
    sweep()
    assert wait_until(lambda: gone(state))


def test_sweep_leaves_a_living_server_alone(shared_server):
    before = list(SHARED_MEMORY.glob(f"{shared_server.region_prefix}*"))
    sweep()
    assert before and list(SHARED_MEMORY.glob(f"{shared_server.region_prefix}*")) == before
    assert shared_server.health("echo")


def test_stop_leaves_nothing_and_can_be_called_twice(tmp_path):
    server = serve(write_echo(tmp_path))
    supervisor = psutil.Process(server.process.pid).parent()
    family = [supervisor, *supervisor.children(recursive=True)]
    port = int(server.http_address.rpartition(":")[2])
    server.stop()
    server.stop()
    assert not server.running and server not in servers() and is_free(port)
    assert not [process for process in family if process.is_running()]
    assert not list(SHARED_MEMORY.glob(f"{server.region_prefix}*"))


def test_stop_while_a_forked_child_holds_the_pipe(tmp_path):
    server = serve(write_echo(tmp_path))
    release, hold = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hold)
        os.read(release, 1)  # until the test lets go
        os._exit(0)
    try:
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < STOP_TIMEOUT_S
        assert not list(SHARED_MEMORY.glob(f"{server.region_prefix}*"))
    finally:
        os.close(hold)
        os.close(release)
        os.waitpid(child, 0)


def test_context_exit_on_an_exception(tmp_path):
    with pytest.raises(ZeroDivisionError), serve(write_echo(tmp_path)) as server:
        _ = 1 / 0
    assert not server.running


def test_kernel_killed(tmp_path):
    """The real thing: a Jupyter kernel that owns a server and is killed with -9."""
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import KernelManager

    manager = KernelManager()
    manager._kernel_spec = KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    manager.start_kernel(cwd=str(CHECKOUT))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        path = tmp_path / "state.json"
        code = OWNER.replace("sys.argv[1]", repr(str(write_echo(tmp_path / "models")))).partition("end = ")[0]
        code = code.replace("}), flush=True)", "}), file=open(" + repr(str(path)) + ", 'w'), flush=True)")
        reply = client.execute_interactive(code, timeout=60, output_hook=lambda _: None)
        assert reply["content"]["status"] == "ok", reply["content"]
        state = json.loads(Path(path).read_text())
        assert not gone(state)
        manager.provisioner.process.send_signal(signal.SIGKILL)
        assert wait_until(lambda: gone(state))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
