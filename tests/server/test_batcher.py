"""The real batcher against the simulator, and timelines from a real trace.

The model waits behind a gate until all requests are queued, so that what it makes of them does not depend on how
quick this machine is.
"""

from __future__ import annotations

import os
import threading
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from google.protobuf import json_format

from tests.server.conftest import wait_until, write_echo
from tutorial_lib.errors import ModelLoadError, ServerError
from tutorial_lib.repository import read_config
from tutorial_lib.server import serve
from tutorial_lib.simulate import Batching, Service, simulate
from tutorial_lib.timeline import timeline_of, trace_arguments, traced
from tutorial_lib.tuning import load_config, loaded_back, run_sweep, with_settings

GATED = """
import json
import pathlib

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.gate = pathlib.Path(json.loads(args["model_config"])["parameters"]["gate"]["string_value"])
        self.open = False

    def execute(self, requests):
        self.gate.with_suffix(".busy").touch()
        if not self.open:
            self.gate.read_text()  # a FIFO: waits until somebody writes into it
        self.open = True
        size = np.full((1, 1), len(requests), np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", size)]) for _ in requests]
"""
CONFIG = """
name: "gated" backend: "python" max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
dynamic_batching { }
"""
LIMIT_S = 20


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = write_echo(tmp_path_factory.mktemp("batcher"))
    (path / "gated" / "1").mkdir(parents=True)
    (path / "gated" / "1" / "model.py").write_text(GATED)
    (path / "gated" / "config.pbtxt").write_text(CONFIG)
    return path


TRIES = 3  # on a busy machine Triton now and then hands on a part of what waits before the gate is open


@pytest.fixture(scope="module")
def server(repository):
    with serve(repository, models=["echo"], extra_arguments=trace_arguments()) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with triton_grpc.InferenceServerClient(server.grpc_address) as made:
        yield made


def pending(server) -> int:
    """How many requests the model's batcher holds, by Triton's own gauge."""
    with urllib.request.urlopen(server.metrics_url, timeout=LIMIT_S) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith('nv_inference_pending_request_count{model="gated"')]
    return int(float(found[0].split()[-1])) if found else 0


def sizes_behind_the_gate(server, client, gate, count) -> list[int]:
    """Queue `count` requests one by one while the first holds the only instance, then open the gate."""
    tensor = triton_grpc.InferInput("x", [1, 1], "FP32").set_data_from_numpy(np.zeros((1, 1), np.float32))
    answers: dict[int, float] = {}
    done = threading.Semaphore(0)

    def answered(number, result, error):
        answers[number] = -1 if error else float(result.as_numpy("y")[0, 0])
        done.release()

    for number in range(count):
        client.async_infer("gated", [tensor], lambda result, error, number=number: answered(number, result, error))
        if number == 0:  # the first is with the model before the others come, which wait
            wait_until(gate.with_suffix(".busy").exists)
        wait_until(lambda number=number: pending(server) == number)
    gate.write_text("open")
    assert all(done.acquire(timeout=LIMIT_S) for _ in range(count))
    sizes, number = [], 0
    while number < count:
        sizes.append(int(answers[number]))
        number += sizes[-1]
    return sizes


@pytest.mark.parametrize(
    "settings",
    [{}, {"preferred": [4]}, {"preferred": [2, 4]}, {"preferred": [3, 8]}, {"max_batch_size": 4}, {"dynamic": False}],
    ids=str,
)
def test_batches_are_those_of_the_simulator(server, client, repository, tmp_path, settings):
    """13 requests come while the only instance is busy: which batches become of them, request by request?"""
    arrivals = np.concatenate([[0.0], 0.1 + 0.001 * np.arange(13)])
    found = []
    for number in range(TRIES):
        gate = tmp_path / f"gate{number}"
        os.mkfifo(gate)
        config = with_settings(read_config(repository / "gated"), parameters={"gate": gate}, **settings)
        load_config(server, config)
        found.append(sizes_behind_the_gate(server, client, gate, 14))
        expected = simulate(Batching.of(config), Service(1000), arrivals_s=arrivals).sizes.tolist()
        if found[-1] == expected:
            return
    raise AssertionError(f"found {found}, expected {expected}")


def test_the_trace_tells_what_the_statistics_tell(server, client, repository, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    load_config(server, with_settings(read_config(repository / "gated"), parameters={"gate": gate}))
    before = server.statistics("gated")
    with traced(server, "gated") as trace:
        found = sizes_behind_the_gate(server, client, gate, 9)
        # Triton counts, and traces, after it has answered
        wait_until(lambda: server.statistics("gated")["execution_count"] - before["execution_count"] >= len(found))
    after = server.statistics("gated")
    timeline = trace.timeline
    assert timeline.sizes.tolist() == found and found[0] == 1 and sum(found) == 9
    assert len(timeline.batches) == after["execution_count"] - before["execution_count"]
    queued_ms = (after["inference_stats"]["queue"]["ns"] - before["inference_stats"]["queue"]["ns"]) / 1e6
    assert timeline.queue_ms.sum() == pytest.approx(queued_ms, rel=0.2, abs=5)
    assert timeline.instances == 1 and (timeline.queue_ms >= 0).all() and trace.unfinished == 0
    assert trace.label == server.label


def test_a_trace_is_bounded_and_leaves_nothing(server, client, scratch_workspace):
    tensor = triton_grpc.InferInput("SENT", [1, 1], "FP32").set_data_from_numpy(np.zeros((1, 1), np.float32))
    with traced(server, "echo", limit=3) as trace:
        for _ in range(7):
            client.infer("echo", [tensor])
    assert len(trace.requests) == 3 and timeline_of(trace.requests).mean_batch == 1
    with traced(server, "echo") as empty:
        pass
    assert empty.requests == []
    with pytest.raises(RuntimeError), traced(server, "echo"):
        raise RuntimeError("the block failed")
    client.infer("echo", [tensor])
    assert not list((scratch_workspace / "cache" / "traces").iterdir())
    assert server.control.trace_settings()["trace_level"] == ["OFF"]


@pytest.mark.parametrize("limit", [0, -1, 10**9])
def test_a_limit_that_is_none(server, limit):
    with pytest.raises(ValueError, match="limit: found"), traced(server, "echo", limit=limit):
        pass


def test_a_server_without_a_place_for_a_trace_says_what_to_do(shared_server):
    with pytest.raises(ServerError, match="trace_arguments"), traced(shared_server, "echo"):
        pass


def test_a_configuration_holds_without_its_file_and_goes_back(server, repository):
    config = read_config(repository / "echo")
    config.name = "echo"
    written = (repository / "echo" / "config.pbtxt").read_text()
    with loaded_back(server, config):
        load_config(server, with_settings(config, instances=2, queue_delay_us=700))
        told = server.config("echo")
        assert told["instance_group"][0]["count"] == 2
        assert told["dynamic_batching"]["max_queue_delay_microseconds"] == 700
        assert Batching.of(told) == Batching(8, True, 700, (8,), 2), "Triton completes the preferred sizes, too"
        with pytest.raises(ModelLoadError):
            load_config(server, with_settings(config, preferred=[64]))
    assert server.health("echo") and "dynamic_batching" not in server.config("echo")
    assert (repository / "echo" / "config.pbtxt").read_text() == written
    server.load("echo", config=json_format.MessageToJson(with_settings(config, instances=3)))
    assert server.config("echo")["instance_group"][0]["count"] == 3
    load_config(server, config)


def test_a_sweep_on_a_real_server_with_a_setting_it_refuses(server, repository):
    config = read_config(repository / "echo")
    config.name = "echo"

    def measure():
        told = server.config("echo")
        return {"loaded": told["instance_group"][0]["count"], "throughput_rps": 1.0, "p95_ms": 1.0}

    grid = {"instances": [1, 2], "preferred": [[4], [64]]}
    swept = run_sweep(server, config, grid, measure, about="counting", progress=False)
    assert swept.complete and swept.table["loaded"].tolist()[::2] == [1, 2]
    assert swept.table["error"][1] and swept.table["error"][3] and server.health("echo")
