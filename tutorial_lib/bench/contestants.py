"""Servers that are compared: each is started, asked whether it answers right, and then put under load."""

from __future__ import annotations

import base64
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import httpx
import numpy as np
import tritonclient.http as triton_http

from tutorial_lib.errors import ServerError
from tutorial_lib.load import EndpointTarget, GrpcTarget, HttpTarget, run_load, run_perf_analyzer
from tutorial_lib.paths import CHECKOUT, workspace
from tutorial_lib.server.ports import LOOPBACK, choose
from tutorial_lib.server.process import ServerProcess

START_TIMEOUT_S = 90.0
POLL_S = 0.05
STEADY_S = 1.2  # three windows of perf_analyzer; of 84 ms each it once called them unsteady and gave no report


@dataclass(frozen=True)
class Sample:
    """One measurement of one contestant.

    Attributes:
        generator_us: core time the load generator took for a request; NaN for a run too short to watch it.
    """

    rps: float
    p50_ms: float
    p95_ms: float
    errors: int
    generator_us: float


@dataclass(frozen=True)
class Contestant:
    """A way to get one picture's scores over HTTP.

    Attributes:
        address: host and port.
        path, headers, body: the request, the same each time.
        scores: an answer's body → float32 (10,).
    """

    name: str
    address: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    scores: Callable[[httpx.Response], np.ndarray]

    def ask(self, timeout_s: float = 30.0) -> np.ndarray:
        """One request, through an ordinary client.

        Raises:
            ServerError: the answer is no 200.
            httpx.HTTPError: nothing answers.
        """
        url = f"http://{self.address}{self.path}"
        # as everywhere on loopback: a proxy must not stand between
        told = dict(self.headers)
        answer = httpx.post(url, content=self.body, headers=told, timeout=timeout_s, trust_env=False)
        if answer.status_code != 200:
            raise ServerError(f"{self.name}: found status {answer.status_code}: {answer.text[:300]}")
        return np.asarray(self.scores(answer), np.float32).ravel()

    def measure(self, concurrency: int, *, seconds: float, warm_up_s: float = 0.3) -> Sample:
        """Keep `concurrency` requests under way, from the load generator's own process.

        Raises:
            LoadError: nothing listens there.
            ServerError: not one request was answered.
        """
        target = EndpointTarget(f"http://{self.address}{self.path}", bodies=[self.body], headers=self.headers)
        found = run_load(
            target, concurrency=concurrency, duration_s=seconds + warm_up_s, warm_up_s=warm_up_s, progress=False
        )
        if not found.answered:
            raise ServerError(f"{self.name}: no request of {concurrency} at a time was answered in {seconds:g} s.")
        return Sample(
            rps=found.throughput_rps,
            p50_ms=found.p50_ms,
            p95_ms=found.p95_ms,
            errors=found.failed,
            generator_us=found.generator.cpu_share / found.throughput_rps * 1e6,
        )


@dataclass(frozen=True)
class DrivenByPerfAnalyzer:
    """A model of a Triton under the load of NVIDIA's own generator, which cannot ask the FastAPI apps."""

    name: str
    target: HttpTarget | GrpcTarget

    def measure(self, concurrency: int, *, seconds: float, warm_up_s: float = 0.3) -> Sample:
        """As `Contestant.measure`, but never shorter than perf_analyzer finds steady.

        Raises:
            LoadError: perf_analyzer failed, as it does where requests fail.
            SetupError: there is none here.
        """
        duration_s = max(seconds + warm_up_s, STEADY_S)
        found = run_perf_analyzer(self.target, concurrency=concurrency, duration_s=duration_s)
        return Sample(found.throughput_rps, found.p50_ms, found.p95_ms, errors=0, generator_us=math.nan)


def triton(name: str, address: str, model: str, array: np.ndarray, *, input_name: str, output_name: str) -> Contestant:
    """A model of a Triton, asked with binary tensors.

    Args:
        array: FP32 (1, …).
    """
    tensor = triton_http.InferInput(input_name, list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    wanted = [triton_http.InferRequestedOutput(output_name)]
    body, size = triton_http.InferenceServerClient.generate_request_body([tensor], outputs=wanted)

    def scores(answer: httpx.Response) -> np.ndarray:
        header = int(answer.headers["Inference-Header-Content-Length"])
        parsed = triton_http.InferenceServerClient.parse_response_body(answer.content, header_length=header)
        return parsed.as_numpy(output_name)

    headers = {"Inference-Header-Content-Length": str(size), "Content-Type": "application/octet-stream"}
    return Contestant(name, address, f"/v2/models/{model}/infer", headers, body, scores)


def raw(name: str, address: str, array: np.ndarray, *, path: str = "/predict") -> Contestant:
    """A server that takes and gives FP32 bytes."""
    headers = {"Content-Type": "application/octet-stream"}
    return Contestant(name, address, path, headers, array.tobytes(), lambda answer: np.frombuffer(answer.content, "f4"))


def json_base64(
    name: str, address: str, array: np.ndarray, *, path: str = "/predict", question: Callable[[str], object]
) -> Contestant:
    """A server that takes base64 inside JSON and answers with JSON, somewhere in which are the ten scores."""
    body = json.dumps(question(base64.b64encode(array.tobytes()).decode())).encode()
    return Contestant(
        name, address, path, {"Content-Type": "application/json"}, body, lambda answer: _numbers(answer.json())
    )


def _numbers(value: object) -> list[float]:
    """Every number in a JSON value that is not part of a shape or parameters."""
    if isinstance(value, dict):
        return [n for key, part in value.items() if key not in ("shape", "parameters") for n in _numbers(part)]
    if isinstance(value, list):
        return [n for part in value for n in _numbers(part)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


class App:
    """Another server as a child process that ends with its owner; a context manager.

    Args:
        command: its command line; "{port}" becomes a free port.
        environment: on top of this process's own.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        ports = choose({"BENCH_PORT": None, "BENCH_PORT_2": None, "BENCH_PORT_3": None})  # some want three
        self.port = ports["BENCH_PORT"]
        self.address = f"{LOOPBACK}:{self.port}"
        self._process = ServerProcess(
            [part.replace("{port}", str(self.port)) for part in command],
            environment=os.environ
            | {"PYTHONPATH": str(CHECKOUT)}
            | {name: str(port) for name, port in ports.items()}
            | dict(environment),
            log=workspace().logs / f"bench-{name}-{os.getpid()}.log",
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, contestant: Contestant, expected: np.ndarray, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return once it answers with the right scores.

        Raises:
            ServerError: it ended, or did not answer in time, or answers something else.
        """
        deadline, last = time.monotonic() + timeout_s, "no answer"
        while time.monotonic() < deadline:
            if not self._process.running:
                raise ServerError(f"{self.name}: it ended while starting.", details=self._process.log_text()[-1500:])
            try:
                check(contestant, expected)
                return
            except (httpx.HTTPError, ServerError) as error:
                last = str(error)
            time.sleep(POLL_S)
        raise ServerError(f"{self.name}: no right answer within {timeout_s:g} s; at last: {last}",
                          details=self._process.log_text()[-1500:])  # fmt: skip

    def stop(self) -> None:
        self._process.stop()

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def uvicorn(name: str, app: str, *, workers: int, environment: Mapping[str, str]) -> App:
    """An ASGI app of `tutorial_lib.bench.apps`."""
    command = [sys.executable, "-P", "-m", "uvicorn", f"tutorial_lib.bench.apps.{app}:app", "--host", LOOPBACK]
    command += ["--port", "{port}", "--workers", str(workers), "--log-level", "warning", "--no-access-log"]
    return App(name, command, environment)


def check(contestant: Contestant, expected: np.ndarray, *, tolerance: float = 1e-2) -> None:
    """Refuse a contestant that answers something else: a wrong answer is quick to give.

    Raises:
        ServerError: the scores differ.
    """
    found = contestant.ask()
    if found.shape != expected.shape or not np.allclose(found, expected, atol=tolerance, rtol=tolerance):
        raise ServerError(f"{contestant.name}: found the scores {found[:10]}, expected {expected}.")
