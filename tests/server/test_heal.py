"""A stub killed with -9 under load: health reports it, heal mends it, nothing hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter

import httpx
import pytest

from tests.server.conftest import save_double, wait_until
from tutorial_lib.server import serve
from tutorial_lib.server.heal import instances

ANSWER_WITHIN_S = 45.0  # under heavy load; alone it takes 5
QUESTION = {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1.0, 2.0, 3.0]}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("heal")
    for name, count in (("one", 1), ("two", 2)):
        save_double(root / name / "1" / "model.onnx")
        (root / name / "config.pbtxt").write_text(
            f'backend: "onnxruntime" max_batch_size: 4 instance_group [ {{ count: {count} kind: KIND_CPU }} ] '
            'input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ] '
            'output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]'
        )
    (root / "pipeline" / "1").mkdir(parents=True)
    (root / "pipeline" / "config.pbtxt").write_text(
        'platform: "ensemble" max_batch_size: 4 input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ] '
        'output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ] ensemble_scheduling { step [ { model_name: "one" '
        'model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } ] }'
    )
    with serve(root) as running:
        yield running


class Load:
    """Clients that ask one after another until told to stop."""

    def __init__(self, server, model: str, clients: int = 4) -> None:
        self.answers: list[tuple[float, int, str]] = []  # seconds, status, error
        self._stop = threading.Event()
        self._url, self._model = server.http_url, model
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(clients)]

    def _ask(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60, trust_env=False) as client:
            while not self._stop.is_set():
                started = time.monotonic()
                answer = client.post(f"/v2/models/{self._model}/infer", json=QUESTION)
                error = "" if answer.status_code == 200 else answer.json()["error"]
                self.answers.append((time.monotonic() - started, answer.status_code, error))

    def wait_for(self, count: int, status: int) -> None:
        """Until so many more answers of a status have come."""
        start, deadline = len(self.answers), time.monotonic() + ANSWER_WITHIN_S
        while sum(found == status for _, found, _ in self.answers[start:]) < count:
            assert time.monotonic() < deadline, f"{Counter(found for _, found, _ in self.answers[start:])}"
            threading.Event().wait(0.02)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(ANSWER_WITHIN_S)
        assert not any(thread.is_alive() for thread in self._threads), "a request hangs"


def test_a_killed_stub_is_reported_and_healed(server):
    with Load(server, "one") as load:
        load.wait_for(20, status=200)
        os.kill(instances(server, "one")[0].pid, signal.SIGKILL)
        load.wait_for(1, status=500)
        health = server.health("one", timeout_s=ANSWER_WITHIN_S)  # it stands in line behind the clients
        assert health.ready and not health.answers and "is not healthy" in health.detail
        healing = server.heal("one")
        assert healing and not healing.before and healing.dead == 1
        assert healing.reloaded
        load.wait_for(20, status=200)
    assert server.health("one") and server.health("pipeline") and len(instances(server, "one")) == 1
    assert max(seconds for seconds, _, _ in load.answers) < ANSWER_WITHIN_S
    errors = {error for _, status, error in load.answers if status != 200}
    assert all("is not healthy" in error or "unknown model" in error or "not ready" in error for error in errors), (
        errors
    )


def test_one_of_two_instances(server):
    """The other one answers the health check; every other request fails all the same."""
    killed, other = instances(server, "two")
    killed.kill()
    wait_until(lambda: killed not in instances(server, "two"))
    healing = server.heal("two")
    assert healing and healing.dead == 1 and healing.reloaded
    assert len(instances(server, "two")) == 2 and other not in instances(server, "two"), (
        "the old version is still there"
    )
    with Load(server, "two", clients=2) as load:
        load.wait_for(20, status=200)
    assert {status for _, status, _ in load.answers} == {200}


def test_a_healthy_model_is_left_alone(server):
    before = [process.pid for process in instances(server, "two")]
    healing = server.heal("two")
    assert healing and not healing.reloaded and healing.dead == 0
    assert [process.pid for process in instances(server, "two")] == before
    assert not server.heal("pipeline").reloaded
