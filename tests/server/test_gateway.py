"""The gateway and the naive app as processes: their answers, what happens when Triton goes, and how they end."""

from __future__ import annotations

import base64
import concurrent.futures
import io
import json
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import httpx
import numpy as np
import psutil
import pytest
from onnx import TensorProto, helper
from PIL import Image

from tests.server.conftest import save_onnx
from tutorial_lib.errors import PortInUseError, ServerError
from tutorial_lib.gateway import start_gateway
from tutorial_lib.naive import start_naive
from tutorial_lib.server import serve
from tutorial_lib.web import start_app

LABELS = ("red", "green: leaf", "blue")
SLOW_S = 2.5
ATTEMPTS = 3  # a machine that is busy with other tests stalls anybody now and then; the blocking app stalls always
SLOW_MODEL = f"""
import threading
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            sent = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            if sent.max() > 0:
                threading.Event().wait({SLOW_S})
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", sent.mean(axis=(2, 3)))]))
        return answers
"""
TENSORS = """
input [ {{ name: "x" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, {side}, {side} ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" }} ]
"""


def write_models(repository):
    """`colour`: the mean of each channel. `slow`: the same in Python; it thinks about all but zeros.

    `crowded` is `slow` with a queue that holds one request, and forgets it after a while.
    """
    save_onnx(
        repository / "colour" / "1" / "model.onnx",
        [helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)],
        [("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [("y", TensorProto.FLOAT, ["batch", 3])],
    )
    queue = "max_queue_size: 1 timeout_action: REJECT allow_timeout_override: true"
    more = {"crowded": f"max_batch_size: 1\ndynamic_batching {{ default_queue_policy {{ {queue} }} }}"}
    for name in ("slow", "crowded"):
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "1" / "model.py").write_text(SLOW_MODEL)
    for name, backend in (("colour", "onnxruntime"), ("slow", "python"), ("crowded", "python")):
        config = f'backend: "{backend}"\n{more.get(name, "max_batch_size: 8")}\n{TENSORS.format(side=8)}'
        (repository / name / "config.pbtxt").write_text(config)
        (repository / name / "labels.txt").write_text("\n".join(LABELS))
    return repository


def picture(width=8, height=8, seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def png(image):
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def client_of(server):
    return httpx.Client(base_url=server.url, timeout=20, trust_env=False)


def post(client, content, path="/predict", **options):
    return client.post(path, content=content, headers={"content-type": "image/png"}, **options)


def failed(answer):
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "action"} and error["message"]
    return answer.status_code, error["code"]


@pytest.fixture(scope="module")
def triton(tmp_path_factory):
    with serve(write_models(tmp_path_factory.mktemp("gateway"))) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(triton):
    with start_gateway(triton, models=["colour", "slow"], max_in_flight=64) as server:
        yield server


@pytest.fixture
def client(gateway):
    with client_of(gateway) as opened:
        yield opened


@pytest.mark.parametrize("scaling", ["INCEPTION", "IMAGENET", "NONE"])
def test_classes_scores_and_labels_are_those_of_the_model(client, scaling):
    image = picture()
    pixels = np.asarray(image, np.float64)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    scaled = {"INCEPTION": pixels / 127.5 - 1, "IMAGENET": (pixels / 255 - mean) / std, "NONE": pixels}[scaling]
    scores = scaled.mean(axis=(0, 1))  # (3,)
    answer = post(client, png(image), f"/v1/models/colour/classify?top_k=3&scaling={scaling}").json()
    found = answer["classes"]
    assert [entry["class_id"] for entry in found] == list(np.argsort(-scores))
    np.testing.assert_allclose([entry["score"] for entry in found], np.sort(scores)[::-1], rtol=1e-4, atol=1e-5)
    assert [entry["class_name"] for entry in found] == [LABELS[index] for index in np.argsort(-scores)]


def test_any_size_and_format_is_brought_to_the_models(client):
    expected = post(client, png(picture())).json()["class_name"]
    for form in ("PNG", "JPEG", "WEBP"):
        buffer = io.BytesIO()
        picture().resize((300, 200), Image.Resampling.NEAREST).save(buffer, form)
        text = base64.b64encode(buffer.getvalue()).decode()
        assert client.post("/predict", json={"image": text}).json()["class_name"] == expected


def test_models_are_described_and_others_refused(client):
    described = {entry["model"]: entry for entry in client.get("/v1/models").json()["models"]}
    assert described["colour"]["size"] == {"width": 8, "height": 8}
    assert (described["slow"]["layout"], described["slow"]["classes"]) == ("NCHW", 3)
    assert failed(post(client, png(picture()), "/v1/models/colours/classify")) == (404, "unknown_model")


def test_a_model_that_triton_has_not_loaded_is_not_the_clients_fault(triton):
    with start_gateway(triton, models=["colour", "absent"]) as server, client_of(server) as client:
        answer = post(client, png(picture()), "/v1/models/absent/classify")
        assert failed(answer) == (503, "model_not_loaded") and answer.headers["retry-after"]
        assert client.get("/health/ready").status_code == 503


def test_a_deadline_travels_to_the_model_and_back(client):
    begin = time.monotonic()
    answer = post(client, png(picture()), "/v1/models/slow/classify?timeout_ms=200")
    assert failed(answer) == (504, "deadline_exceeded")
    assert time.monotonic() - begin < SLOW_S


def longest_health_s(server, health, path):
    """The longest that health took while one slow request was under way."""
    longest = 0.0
    with client_of(server) as client, client_of(server) as other, concurrent.futures.ThreadPoolExecutor(1) as pool:
        body = {"image": base64.b64encode(png(picture())).decode()}
        working = pool.submit(client.post, path, json=body)
        while not working.done():
            begin = time.monotonic()
            assert other.get(health).status_code == 200
            longest = max(longest, time.monotonic() - begin)
        assert working.result().status_code == 200
    return longest


@pytest.mark.parametrize(("variant", "stalls"), [("blocking", True), ("threads", False)])
def test_only_the_blocking_app_stalls_its_health(variant, stalls):
    with start_naive(variant, weights="tests.server.slow_network:slow", labels=LABELS, side=8) as server:
        looks = (longest_health_s(server, "/health", "/predict") > SLOW_S / 2 for _ in range(ATTEMPTS))
        assert all(looks) == stalls


def test_the_gateway_does_not_stall_while_a_model_works(gateway):
    path = "/v1/models/slow/classify?timeout_ms=18000"
    assert any(longest_health_s(gateway, "/health/live", path) < SLOW_S / 2 for _ in range(ATTEMPTS))


def test_more_than_the_limit_is_refused_and_all_are_answered(triton):
    with (
        start_gateway(triton, models=["slow"], max_in_flight=2, default_timeout_s=18) as server,
        client_of(server) as client,
    ):
        post(client, png(Image.new("RGB", (8, 8))), "/predict")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: post(client, png(picture())), range(8)))
    told = [answer.status_code for answer in answers]
    assert told.count(200) == 2 and told.count(429) == 6
    assert all(answer.headers["retry-after"] for answer in answers if answer.status_code == 429)


def test_triton_s_own_queue_policy_is_told_in_the_same_words(triton):
    def ask(timeout_ms):
        return post(client, png(picture()), f"/predict?timeout_ms={timeout_ms}")

    def ask_until_queued(timeout_ms):  # the queue has one place, which the other one leaves only a moment later
        while (answer := ask(timeout_ms)).status_code == 429:
            continue
        return answer

    with start_gateway(triton, models=["crowded"]) as server, client_of(server) as client:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(ask, [18_000] * 6))
        told = [failed(answer) if answer.status_code != 200 else 200 for answer in answers]
        assert 200 in told and (429, "queue_full") in told
        assert set(told) == {200, (429, "queue_full")}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:  # the second waits in the queue until its time is over
            first, second = pool.submit(ask_until_queued, 18_000), pool.submit(ask_until_queued, 500)
            told = sorted((first.result().status_code, second.result().status_code))
        assert told in ([200, 504], [504, 504])


def exchange(server, data):
    """Send raw bytes, and read until the server closes."""
    with socket.create_connection((urlsplit(server.url).hostname, urlsplit(server.url).port), timeout=20) as raw:
        raw.sendall(data)
        told = b""
        while part := raw.recv(65536):
            told += part
    head, _, body = told.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def test_a_client_that_stops_sending_is_told_and_let_go(triton):
    with start_gateway(triton, models=["colour"], body_timeout_s=0.3) as server:
        head = b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: image/png\r\ncontent-length: 1000\r\n\r\n"
        assert exchange(server, head + b"0" * 10) == (408, "slow_client")


def test_what_is_no_http_and_an_endless_head_are_refused(gateway):
    assert exchange(gateway, b"\x16\x03\x01 hello\r\n\r\n") == (400, "not_http")
    endless = b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: %s\r\n" % (n, b"y" * 1000) for n in range(200))
    assert exchange(gateway, endless) == (431, "head_too_large")


def resident_mib(server):
    return psutil.Process(server.pid).memory_info().rss / 2**20


def test_memory_stays_bounded_whatever_is_sent(triton):
    bomb = io.BytesIO()
    Image.new("1", (14_000, 14_000)).save(bomb, "PNG")
    large = png(Image.new("RGB", (2000, 1900)))  # allowed, and 11 MiB once decoded
    limits = {"max_body_mib": 4, "max_buffered_mib": 32, "max_pixels": 4_000_000}
    limits |= {"default_timeout_s": 18, "body_timeout_s": 18}
    with (
        start_gateway(triton, models=["colour"], **limits) as server,
        client_of(server) as client,
        concurrent.futures.ThreadPoolExecutor(16) as pool,
    ):
        assert post(client, large).status_code == 200
        before = resident_mib(server)
        bodies = [b"0" * (12 * 2**20), bomb.getvalue(), large, b'{"image": "' + b"A" * (3 * 2**20)] * 8
        told = {answer.status_code for answer in pool.map(lambda body: post(client, body), bodies)}
        assert told <= {200, 413, 422, 429} and {200, 413, 422} <= told
        # what may be buffered, twice over (base64 and its bytes), and two decoded pictures
        assert resident_mib(server) - before < 2 * 32 + 2 * 24 + 40
        assert post(client, png(picture())).status_code == 200


def test_triton_gone_and_back_again(tmp_path):
    repository = write_models(tmp_path / "models")
    first = serve(repository, models=["colour"])
    port = int(first.grpc_address.rpartition(":")[2])
    with start_gateway(first, models=["colour"], health_timeout_s=18) as server, client_of(server) as client:
        assert client.get("/health/ready").json() == {"status": "ready", "models": {"colour": ""}}
        triton = psutil.Process(first.process.pid)  # looked up while it lives: afterwards there may be none to find
        triton.kill()
        triton.wait(10)
        answer = post(client, png(picture()))
        assert failed(answer) == (503, "triton_unavailable") and answer.headers["retry-after"]
        assert client.get("/health/live").status_code == 200
        deadline = time.monotonic() + 5
        while client.get("/health/ready").status_code == 200:  # the last answer may be a second old
            assert time.monotonic() < deadline
        first.stop()
        with serve(repository, models=["colour"], grpc_port=port):
            deadline = time.monotonic() + 60
            while client.get("/health/ready").status_code != 200:
                assert time.monotonic() < deadline
            assert post(client, png(picture())).status_code == 200


def test_ready_asks_the_model_itself(tmp_path):
    with (
        serve(write_models(tmp_path / "models"), models=["slow"]) as server,
        start_gateway(server, models=["slow"], health_age_s=0, health_timeout_s=18) as gateway,
        client_of(gateway) as client,
    ):
        assert client.get("/health/ready").status_code == 200
        for process in psutil.Process(server.process.pid).children():
            process.kill()
        told = client.get("/health/ready")
        assert server.ready("slow"), "Triton itself still says ready"
        assert told.status_code == 503 and told.json()["models"]["slow"]
        assert failed(post(client, png(picture())))[0] in (502, 503, 504)


def test_a_gateway_starts_without_triton_and_says_so():
    with start_gateway("127.0.0.1:9", models=["colour"]) as server, client_of(server) as client:
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 503
        assert failed(post(client, png(picture()))) == (503, "triton_unavailable")


def test_the_same_start_gives_the_same_server_and_a_taken_port_is_named(triton, gateway):
    assert start_gateway(triton, models=["colour", "slow"], max_in_flight=64) is gateway
    with pytest.raises(PortInUseError, match="is taken"):
        start_gateway(triton, models=["colour"], port=urlsplit(gateway.url).port)


def test_what_cannot_start_says_why():
    with pytest.raises(ServerError, match="expected one of blocking"):
        start_naive("fast")
    with pytest.raises(ServerError, match="catch_up"):
        start_naive(weights="/nowhere/model.safetensors")
    with pytest.raises(ServerError, match="workers"):
        start_app("x", "a:b", settings={}, health="/", workers=0)
    with pytest.raises(ServerError, match="ended while starting") as caught:
        start_naive(weights="tests.server.slow_network:fast", labels=LABELS, side=8)
    assert "has no attribute 'fast'" in caught.value.details


OWNER = """
import psutil, sys
from tutorial_lib.naive import start_naive
from tutorial_lib.gateway import start_gateway
servers = [start_gateway("127.0.0.1:9"), start_naive("workers", weights="tests.server.slow_network:slow", side=8)]
processes = [p for s in servers for p in (psutil.Process(s.pid), *psutil.Process(s.pid).children(recursive=True))]
print(*(p.pid for p in processes), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["end of input", "kill"])
def test_they_end_with_their_owner_workers_too(how):
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    processes = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
    assert len(processes) >= 4  # the gateway, the naive app and its two workers
    if how == "kill":
        owner.kill()
    else:
        owner.stdin.close()
    owner.wait(timeout=30)
    _, alive = psutil.wait_procs(processes, timeout=20)
    owner.stdout.close()
    assert not alive


def test_the_command_serves_until_it_is_interrupted():
    command = [sys.executable, "-P", "-m", "tutorial_lib", "gateway", "--triton", "127.0.0.1:9", "--model", "a"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    told = [process.stdout.readline() for _ in range(7)]
    (live,) = [line.split()[1].replace("ready", "live") for line in told if line.strip().startswith("health")]
    with httpx.Client(trust_env=False) as client:
        assert client.get(live).status_code == 200
        assert "a" in client.get(live.replace("live", "ready")).json()["models"]
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 0
    process.stdout.close()
    assert children and not psutil.wait_procs(children, timeout=10)[1]


def test_the_command_refuses_before_it_starts_anything():
    command = [sys.executable, "-P", "-m", "tutorial_lib", "gateway", "--max-pixels", "0"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stdout) == (1, "")
    assert "max_pixels 0, expected a number from 1" in told.stderr
