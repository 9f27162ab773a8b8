"""A server and a gateway on cores of their own, and a server under SCHED_BATCH."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TypeVar

import psutil
import pytest

from tests.server.conftest import write_echo
from tutorial_lib.errors import ServerError
from tutorial_lib.gateway import start_gateway
from tutorial_lib.server import serve

T = TypeVar("T")


def of_all_threads(pid: int, ask: Callable[[int], T]) -> set[T]:
    """What the threads of a process and of its children have, all together."""
    found = set()
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            for thread in process.threads():
                with contextlib.suppress(ProcessLookupError):  # threads come and go
                    found.add(ask(thread.id))
    return found


def cores_of(pid: int) -> set[int]:
    return set().union(*of_all_threads(pid, lambda thread: frozenset(os.sched_getaffinity(thread))))


def test_triton_and_its_instances_keep_to_their_core(tmp_path):
    before, core = os.sched_getaffinity(0), max(os.sched_getaffinity(0))
    repository = write_echo(tmp_path)
    with serve(repository, cores=[core]) as server:
        assert server.label.endswith("embedded · CPU ×1")
        assert serve(repository, cores=(core, core)) is server
        assert psutil.Process(server.process.pid).children(recursive=True), "the model's instance"
        assert cores_of(server.process.pid) == {core}
        assert server.health("echo")
        server.unload("echo")
        server.load("echo")
        assert cores_of(server.process.pid) == {core}, "a model loaded later, too"
    assert os.sched_getaffinity(0) == before


def test_a_gateway_keeps_to_its_core():
    core = min(os.sched_getaffinity(0))
    with start_gateway("127.0.0.1:9", models=["echo"], cores=[core]) as gateway:
        assert gateway.label == "gateway · CPU ×1"
        assert start_gateway("127.0.0.1:9", models=["echo"], cores=[core]) is gateway
        assert cores_of(gateway.pid) == {core}


@pytest.mark.parametrize(
    "start", [lambda cores: serve(cores=cores), lambda cores: start_gateway("127.0.0.1:9", cores=cores)]
)
def test_cores_that_are_not_there_start_nothing(start):
    children = psutil.Process().children()
    with pytest.raises(ServerError, match="cores: found \\[4095\\]"):
        start([4095])
    assert psutil.Process().children() == children


def test_sched_batch_holds_for_every_thread_and_for_models_loaded_later(tmp_path):
    repository, before = write_echo(tmp_path), os.sched_getscheduler(0)
    with serve(repository, sched_batch=True) as server, serve(repository) as other:
        assert server is not other and serve(repository, sched_batch=True) is server
        assert os.sched_getscheduler(0) == before, "of this process"
        server.unload("echo")
        server.load("echo")
        assert server.health("echo")
        assert psutil.Process(server.process.pid).children(recursive=True), "the model's instance"
        assert of_all_threads(server.process.pid, os.sched_getscheduler) == {os.SCHED_BATCH}
        assert of_all_threads(other.process.pid, os.sched_getscheduler) == {before}


@pytest.mark.parametrize(("name", "value"), [("cores", [0]), ("sched_batch", True)])
def test_how_a_server_that_runs_already_has_its_cores_is_not_ours_to_choose(shared_server, name, value):
    with pytest.raises(ServerError, match=f"{name}: found with url"):
        serve(url=shared_server.http_address, **{name: value})
