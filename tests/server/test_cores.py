"""A server and a gateway on cores of their own."""

from __future__ import annotations

import os

import psutil
import pytest

from tests.server.conftest import write_echo
from tutorial_lib.errors import ServerError
from tutorial_lib.gateway import start_gateway
from tutorial_lib.server import serve


def cores_of(pid: int) -> list[set[int]]:
    """Where each thread of a process and of its children may run."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return [os.sched_getaffinity(thread.id) for process in processes for thread in process.threads()]


def test_triton_and_its_instances_keep_to_their_core(tmp_path):
    before, core = os.sched_getaffinity(0), max(os.sched_getaffinity(0))
    repository = write_echo(tmp_path)
    with serve(repository, cores=[core]) as server:
        assert server.label.endswith("embedded · CPU ×1")
        assert serve(repository, cores=(core, core)) is server
        assert psutil.Process(server.process.pid).children(recursive=True), "the model's instance"
        assert all(cores == {core} for cores in cores_of(server.process.pid))
        assert server.health("echo")
        server.unload("echo")
        server.load("echo")
        assert all(cores == {core} for cores in cores_of(server.process.pid)), "a model loaded later, too"
    assert os.sched_getaffinity(0) == before


def test_a_gateway_keeps_to_its_core():
    core = min(os.sched_getaffinity(0))
    with start_gateway("127.0.0.1:9", models=["echo"], cores=[core]) as gateway:
        assert gateway.label == "gateway · CPU ×1"
        assert start_gateway("127.0.0.1:9", models=["echo"], cores=[core]) is gateway
        assert all(cores == {core} for cores in cores_of(gateway.pid))


@pytest.mark.parametrize(
    "start", [lambda cores: serve(cores=cores), lambda cores: start_gateway("127.0.0.1:9", cores=cores)]
)
def test_cores_that_are_not_there_start_nothing(start):
    with pytest.raises(ServerError, match="cores: found \\[4095\\]"):
        start([4095])
