"""A load run in a notebook's kernel, which has an event loop of its own and is interrupted by a signal."""

from __future__ import annotations

import time

import pytest
from jupyter_client.manager import start_new_kernel

from tutorial_lib.load import KnownServer
from tutorial_lib.paths import CHECKOUT, WORKSPACE_VARIABLE

RUN = """
from tutorial_lib.load import EndpointTarget, Every, run_load
result = run_load(EndpointTarget("{url}"), arrivals=Every(0.02), duration_s=60, warm_up_s=0, progress={progress})
"""
SHOW = "print(result.interrupted, result.answered, result.lost, result.duration_s < 60)"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    manager, client = start_new_kernel(cwd=str(CHECKOUT))
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def finish(client, request):
    """The texts and the error of a cell, once it has run."""
    said, error = [], ""
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            said.append(content["text"])
        elif kind == "error":
            error = f"{content['ename']}: {content['evalue']}"
        elif kind == "status" and content["execution_state"] == "idle":
            return "".join(said), error


def test_a_kernel_interrupt_keeps_what_was_measured(kernel):
    manager, client = kernel
    with KnownServer(0.001) as server:
        request = client.execute(RUN.format(url=server.url, progress=True))
        deadline = time.monotonic() + 60
        while len(server.log()) < 30:
            assert time.monotonic() < deadline
        manager.interrupt_kernel()
        assert finish(client, request)[1] == ""
    said, error = finish(client, client.execute(SHOW))
    interrupted, answered, lost, shorter = said.split()
    assert not error and (interrupted, lost, shorter) == ("True", "0", "True") and int(answered) >= 30
    # the kernel's own interrupt works again
    request = client.execute("import threading; print('here', flush=True); threading.Event().wait(60)")
    while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
        continue
    manager.interrupt_kernel()
    assert "KeyboardInterrupt" in finish(client, request)[1]
