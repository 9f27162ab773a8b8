"""What takes several requests, or flags of the server, to see: batches, cache, rate limit, cancelling, defaults."""

from __future__ import annotations

import queue
import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpc
from onnx import TensorProto

from tests.server.conformance.channels import ask
from tests.server.conformance.row import Make, double, entry, graph, io, node, numbers, same, text
from tests.server.conformance.rows import BY_NAME
from tests.server.conftest import wait_until
from tutorial_lib.server import Server, serve
from tutorial_lib.server.heal import instances

FLOAT, BOOL, STRING = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.STRING
ONE = "instance_group [ { count: 1 kind: KIND_CPU } ]"
DELAY = f"max_batch_size: 8 dynamic_batching {{ max_queue_delay_microseconds: 300000 }} {ONE}"
SIDE = 600
ATTEMPTS = 3


def products(count: int = 40) -> Make:
    """x [n, 600, 600] → y = x, after products with a unit matrix, 40 of which take about half a second on one core."""
    names = ["x", *(f"h{number}" for number in range(1, count)), "y"]
    nodes = [node("MatMul", f"{a} one", b) for a, b in zip(names, names[1:], strict=False)]
    shape = ["n", SIDE, SIDE]
    return graph(nodes, [("x", FLOAT, shape)], [("y", FLOAT, shape)], {"one": np.eye(SIDE, dtype=np.float32)})


def limited(count: int) -> str:
    resource = f'rate_limiter {{ resources [ {{ name: "R" count: {count} }} ] }}'
    return f"instance_group [ {{ count: 1 kind: KIND_CPU {resource} }} ]"


THREADS = 'parameters { key: "intra_op_thread_count" value { string_value: "1" } }'
MODELS = {
    "mixed": (double(["n", "t"]), DELAY),
    "words": (same(["n", 1], STRING), DELAY),
    "scalar": (
        graph([node("Mul", "x k", "y")], [("x", FLOAT, ["n", 3]), ("k", FLOAT, [])], [("y", FLOAT, ["n", 3])]),
        io([entry("x", "FP32", [3]), entry("k", "FP32", [1])], [entry("y", "FP32", [3])]) + DELAY,
    ),
    "two_outputs": (
        graph(
            [node("Add", "x x", "y"), node("Neg", "x", "z")],
            [("x", FLOAT, ["n", 3])],
            [("y", FLOAT, ["n", 3]), ("z", FLOAT, ["n", 3])],
        ),
        DELAY,
    ),
    "cached": (double(["n", 3]), f"response_cache {{ enable: true }} {ONE}"),
    "defaults": (double(["n", 3]), ""),
    "pair": (double(["n", 3]), "instance_group [ { count: 2 kind: KIND_CPU } ]"),
    "patient": (
        double(["n", 3]),
        f"max_batch_size: 8 dynamic_batching {{ max_queue_delay_microseconds: 10000000 }} {ONE}",
    ),
    "slow": (products(160), f"max_batch_size: 1 dynamic_batching {{ }} {ONE} {THREADS}"),
    "limited_a": (products(), f"max_batch_size: 1 {limited(1)} {THREADS}"),
    "limited_b": (products(), f"max_batch_size: 1 {limited(1)} {THREADS}"),
    "limited_too_much": (double(["n", 3]), limited(9)),
    "sequence": (
        graph(
            [node("Where", "START x zero", "y")],
            [("x", FLOAT, ["n", 1]), ("START", BOOL, ["n", 1])],
            [("y", FLOAT, ["n", 1])],
            {"zero": np.zeros(1, np.float32)},
        ),
        io([entry("x", "FP32", [1])], [entry("y", "FP32", [1])]) + "max_batch_size: 4 sequence_batching { control_input"
        ' [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START bool_false_true: [ false, true ] } ] } ] }',
    ),
}
FLAGS = ("--cache-config=local,size=1048576", "--rate-limit=execution_count", "--rate-limit-resource=R:1")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Server:
    root = tmp_path_factory.mktemp("scheduling")
    for name, (make, config) in MODELS.items():
        (root / name / "1").mkdir(parents=True)
        make(root / name)
        (root / name / "config.pbtxt").write_text(f'backend: "onnxruntime"\n{config}\n')
    BY_NAME["ragged_scatter"].write(root)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one is not to load
        running = serve(root, extra_arguments=FLAGS, backend_config={("onnxruntime", "default-max-batch-size"): "7"})
    with running:
        yield running


def together(server: Server, model: str, feeds: list[dict], outputs: tuple = ("y",)) -> list[dict[str, np.ndarray]]:
    """Answers to requests that arrive at the same moment."""
    ready = threading.Barrier(len(feeds))

    def one(given: dict) -> dict[str, np.ndarray]:
        ready.wait(30)
        return ask(server, model, given, outputs, channel="grpc")

    with ThreadPoolExecutor(len(feeds)) as pool:
        return list(pool.map(one, feeds))


def executions(server: Server, model: str) -> int:
    return int(server.statistics(model)["execution_count"])


def test_shapes_that_differ_are_run_apart_and_equal_ones_together(server):
    feeds = [{"x": numbers(1, length, seed=number)} for number, length in enumerate((3, 3, 5, 3))]
    for given, found in zip(feeds, together(server, "mixed", feeds), strict=True):
        assert np.array_equal(found["y"], given["x"] * 2)
    assert executions(server, "mixed") < len(feeds)


def test_strings_are_batched(server):
    feeds = [{"x": text(word, shape=(1, 1))} for word in ("eins", "zwei", "größe")]
    found = together(server, "words", feeds)
    assert [item["y"].tolist() for item in found] == [given["x"].tolist() for given in feeds]
    assert executions(server, "words") < len(feeds)


def test_a_scalar_is_never_shared_between_clients(server):
    feeds = [{"x": np.ones((1, 3), np.float32), "k": np.array([[k]], np.float32)} for k in (2, 3, 5)]
    found = together(server, "scalar", feeds)
    assert [item["y"].tolist() for item in found] == [[[k] * 3] for k in (2, 3, 5)]


def test_each_request_of_a_batch_gets_the_outputs_it_asked_for(server):
    x = numbers(1, 3)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda name: ask(server, "two_outputs", {"x": x}, (name,), channel="http"), ("y", "z")))
    assert np.array_equal(answers[0]["y"], 2 * x) and np.array_equal(answers[1]["z"], -x)


def test_ragged_requests_share_a_batch(server):
    before = executions(server, "ragged_scatter")
    feeds = [{"x": numbers(rows, length, seed=length)} for rows, length in ((1, 2), (1, 5), (2, 3))]
    found = together(server, "ragged_scatter", feeds, ("y", "seen"))
    for given, item in zip(feeds, found, strict=True):
        rows, length = given["x"].shape
        assert np.array_equal(item["y"], given["x"] * 2)
        assert item["seen"].tolist() == [[length]] * rows
    assert executions(server, "ragged_scatter") - before < len(feeds)


def test_the_cache_answers_a_repeated_request(server):
    for _ in range(3):
        assert np.array_equal(
            ask(server, "cached", {"x": numbers(2, 3)}, ("y",), channel="http")["y"], numbers(2, 3) * 2
        )
    statistics = server.statistics("cached")
    assert statistics["inference_stats"]["cache_hit"]["count"] == 2 and statistics["execution_count"] == 1


def test_the_default_batch_size_of_the_command_line(server):
    assert server.config("defaults")["max_batch_size"] == 7
    assert "autofilled max_batch_size to 7 for model 'defaults'" in server.process.log_text()


@pytest.mark.parametrize(
    ("flag", "size"), [("onnxruntime,default-max-batch-size=0", 0), ("default-max-batch-size=1", 1)]
)
def test_a_default_batch_size_that_turns_batching_off(tmp_path, flag, size):
    double(["n", 3])(tmp_path / "bare")
    with serve(tmp_path, extra_arguments=("--backend-config", flag)) as server:
        config = server.config("bare")
        assert config["max_batch_size"] == size and "dynamic_batching" not in config
        assert [int(dim) for dim in config["input"][0]["dims"]] == ([3] if size else [-1, 3])


def test_instances_are_processes_of_their_own(server):
    assert len(instances(server, "pair")) == 2 and len(instances(server, "cached")) == 1


def test_the_rate_limiter_lets_one_of_two_models_run(server):
    x = {"x": np.ones((1, SIDE, SIDE), np.float32)}
    names = ("limited_a", "limited_b")

    def spent() -> np.ndarray:
        """Per model: requests, ns in the queue, ns of computing."""
        found = [server.statistics(name)["inference_stats"] for name in names]
        return np.array(
            [[item["success"]["count"], item["queue"]["ns"], item["compute_infer"]["ns"]] for item in found]
        )

    for _ in range(ATTEMPTS):  # the second may be late, when the first is done
        before = spent()
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda name: ask(server, name, x, ("y",), channel="grpc"), names))
        assert all(np.array_equal(item["y"], x["x"]) for item in found)
        wait_until(lambda: (spent() - before)[:, 0].min() >= 1)  # noqa: B023
        _, waited, computed = (spent() - before).T
        if waited.max() > 0.5 * computed.min():
            return
    raise AssertionError("they ran side by side")


def test_the_rate_limiter_refuses_what_can_never_run(server):
    entry = next(item for item in server.control.index() if item["name"] == "limited_too_much")
    assert entry["state"] == "UNAVAILABLE" and "which will prevent scheduling" in entry["reason"]


def pending(metrics: httpx.Client, server: Server, model: str) -> int:
    """Requests in the model's queue."""
    text = metrics.get(server.metrics_url).text
    found = re.search(rf'^nv_inference_pending_request_count{{model="{model}",version="1"}} (\d+)', text, re.M)
    return int(found[1]) if found else 0


def cancelled(server: Server, model: str, shape: tuple[int, ...], *, sent: int, waiting: int, cancel: int) -> list[str]:
    """What `sent` clients are told when the first `cancel` of them give up once `waiting` requests are queued."""
    tensor = grpc.InferInput("x", list(shape), "FP32")
    tensor.set_data_from_numpy(np.ones(shape, np.float32))
    told: queue.Queue[str] = queue.Queue()
    with grpc.InferenceServerClient(server.grpc_address) as client, httpx.Client(trust_env=False) as metrics:
        calls = [client.async_infer(model, [tensor], lambda result, error: told.put(str(error))) for _ in range(sent)]
        wait_until(lambda: pending(metrics, server, model) == waiting)
        for call in calls[:cancel]:
            call.cancel()
        return [told.get(timeout=60) for _ in calls]


def test_a_request_cancelled_while_its_batch_is_collected_is_not_computed(server):
    told = cancelled(server, "patient", (1, 3), sent=3, waiting=3, cancel=2)
    assert sum("ancelled" in error for error in told) == 2 and told.count("None") == 1
    wait_until(lambda: server.statistics("patient")["execution_count"])  # counted after all else
    assert server.statistics("patient")["inference_count"] == 1


def test_a_request_handed_to_an_instance_is_computed_even_when_cancelled(server):
    told = cancelled(server, "slow", (1, SIDE, SIDE), sent=3, waiting=2, cancel=3)
    assert all("ancelled" in error for error in told), "the clients are let go at once"
    # what still waited comes before this one
    x = np.ones((1, SIDE, SIDE), np.float32)
    assert np.array_equal(ask(server, "slow", {"x": x}, ("y",), channel="grpc")["y"], x)
    wait_until(lambda: server.statistics("slow")["execution_count"] >= 4)
    assert server.statistics("slow")["inference_count"] == 4


def test_sequence_controls_reach_the_model(server):
    with grpc.InferenceServerClient(server.grpc_address) as client:
        x = grpc.InferInput("x", [1, 1], "FP32")
        x.set_data_from_numpy(np.array([[4]], np.float32))
        answers = [
            client.infer("sequence", [x], sequence_id=7, sequence_start=start, sequence_end=not start).as_numpy("y")
            for start in (True, False)
        ]
    assert [item.tolist() for item in answers] == [[[4.0]], [[0.0]]]
