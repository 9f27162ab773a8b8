"""NVIDIA's perf_analyzer as a second opinion: find it, run it on the same target, read its report.

It is found on PATH (as in the Triton SDK image), at $WORKSHOP_PERF_ANALYZER, or in the workspace's cache, into which
`fetch_perf_analyzer` puts the one of an older tritonclient wheel: newer ones need glibc 2.38.
"""

from __future__ import annotations

import base64
import csv
import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tutorial_lib.errors import LoadError, ServerError, SetupError
from tutorial_lib.load.arrivals import Arrivals, Every, Poisson, Users
from tutorial_lib.load.checks import number, whole
from tutorial_lib.load.shares import ServerShare
from tutorial_lib.load.target import GrpcTarget, HttpTarget, Target
from tutorial_lib.load.tensors import each, wire
from tutorial_lib.paths import workspace
from tutorial_lib.server.control import Control

VARIABLE = "WORKSHOP_PERF_ANALYZER"
NAME = "perf_analyzer"
WINDOWS = 3  # it wants three that agree; here they are the run
_PERCENTILES = {"p50_ms": "p50 latency", "p90_ms": "p90 latency", "p95_ms": "p95 latency", "p99_ms": "p99 latency"}
_PARTS = {
    "queue_ms": "Server Queue",
    "compute_input_ms": "Server Compute Input",
    "compute_infer_ms": "Server Compute Infer",
    "compute_output_ms": "Server Compute Output",
}


@dataclass(frozen=True)
class PerfAnalyzer:
    """A perf_analyzer that runs here.

    Attributes:
        path: the program.
        version: its own word.
        libraries: folders its libraries are in.
    """

    path: Path
    version: str
    libraries: tuple[Path, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """The variables it needs."""
        search = [*map(str, self.libraries), os.environ.get("LD_LIBRARY_PATH", "")]
        return os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, search))}


@dataclass(frozen=True)
class PerfReport:
    """What perf_analyzer measured; the names are those of `LoadResult`. Latencies start when it sent a request.

    Attributes:
        server: Triton's own times per request; its counts are not in the report and 0.
        command: what was run.
    """

    target: str
    plan: str
    label: str
    throughput_rps: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    server: ServerShare
    version: str
    command: tuple[str, ...] = field(repr=False)

    def summary(self) -> dict[str, Any]:
        """The row of a table, as far as the report goes."""
        names = ("target", "plan", "throughput_rps", *_PERCENTILES)
        row = {name: getattr(self, name) for name in names}
        return row | {"queue_ms": self.server.queue_ms, "infer_ms": self.server.compute_infer_ms, "label": self.label}

    def __str__(self) -> str:
        numbers = " · ".join(f"{name[:3]} {getattr(self, name):.1f}" for name in _PERCENTILES)
        head = f"{self.target}, {self.plan} · {self.label} · perf_analyzer {self.version}"
        return f"{head}\n{self.throughput_rps:.1f} answers/s · {numbers} ms"


def find_perf_analyzer() -> PerfAnalyzer | None:
    """The perf_analyzer of this machine; None if there is none that runs."""
    cached = workspace().cache / NAME
    places = [(os.environ.get(VARIABLE), ()), (shutil.which(NAME), ()), (cached / NAME, (cached / "lib",))]
    for path, libraries in places:
        if path and Path(path).is_file() and (version := _version(Path(path), libraries)):
            return PerfAnalyzer(Path(path), version, libraries)
    return None


def require_perf_analyzer() -> PerfAnalyzer:
    """The perf_analyzer of this machine.

    Raises:
        SetupError: there is none that runs.
    """
    if found := find_perf_analyzer():
        return found
    raise SetupError(
        f"perf_analyzer: found none that runs, neither on PATH nor at ${VARIABLE} nor in {workspace().cache / NAME}.",
        action="fetch_perf_analyzer() of tutorial_lib.load gets one (x86-64); the image "
        "nvcr.io/nvidia/tritonserver:24.10-py3-sdk has it on PATH.",
    )


def run_perf_analyzer(
    target: Target,
    *,
    arrivals: Arrivals | None = None,
    users: Users | None = None,
    concurrency: int | None = None,
    duration_s: float = 10.0,
    seed: int = 0,
) -> PerfReport:
    """Load a Triton model with perf_analyzer, the requests and the plan as `run_load` has them.

    Args:
        target: a Triton model; its inputs are given to perf_analyzer as they are.
        arrivals: open loop; `Every` and `Poisson` are made by perf_analyzer itself, others from their times.
        users: closed loop; users who think are refused.
        concurrency: closed loop.
        duration_s: how long to measure, in three windows.
        seed: of the times of other patterns.

    Raises:
        LoadError: it cannot do this, or failed; with what it said.
        SetupError: there is no perf_analyzer here.
    """
    if not isinstance(target, GrpcTarget | HttpTarget) or not target.http_url:
        raise LoadError(
            f"{target.name}: perf_analyzer loads models of a Triton whose HTTP address is known.",
            action="Make the target with triton_target(server, …).",
        )
    if users is not None and (users.think_s or users.per_s):
        raise LoadError("perf_analyzer: it has no users who think or join.", action="Give concurrency or a pattern.")
    concurrency = users.count if users is not None and concurrency is None else concurrency
    found = require_perf_analyzer()
    number("duration_s", duration_s, high=3600)
    batch, data = _input_data(target)
    prepared = target.prepare()
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder)
        (files / "data.json").write_text(json.dumps({"data": data}))
        plan, flags = _plan_flags(arrivals, concurrency, duration_s, seed, files / "intervals.txt")
        command = [str(found.path), "-m", target.model, *(["-x", target.version] if target.version else [])]
        command += ["-u", f"{prepared.host}:{prepared.port}", "-i", "http" if prepared.kind == "http" else "grpc"]
        command += ["--streaming"] * (prepared.kind == "stream") + ["--input-data", str(files / "data.json")]
        command += ["-b", str(batch), "-p", str(math.ceil(duration_s * 1000 / WINDOWS)), "-r", str(WINDOWS)]
        command += ["-s", "999", "-f", str(files / "report.csv"), *flags]
        row = _run(found, command, files / "report.csv", 60 + 4 * duration_s)
    share = {name: float(row[column]) / 1000 for name, column in _PARTS.items() if column in row}
    server = ServerShare(requests=0, failed=0, executions=0, mean_batch=math.nan, **dict.fromkeys(_PARTS, 0.0) | share)
    percentiles = {name: float(row[column]) / 1000 for name, column in _PERCENTILES.items()}
    rate = float(row["Inferences/Second"]) / batch
    named = {"target": target.name, "plan": plan, "label": target.label, "version": found.version}
    return PerfReport(throughput_rps=rate, server=server, command=tuple(command), **named, **percentiles)


def _plan_flags(
    arrivals: Arrivals | None, concurrency: int | None, duration_s: float, seed: int, intervals: Path
) -> tuple[str, list[str]]:
    if (arrivals is None) == (concurrency is None):
        raise LoadError("load plan: expected one of arrivals and concurrency for perf_analyzer.")
    if concurrency is not None:
        return str(Users(whole("concurrency", concurrency, high=20_000))), ["--concurrency-range", str(concurrency)]
    if isinstance(arrivals, Every | Poisson):
        kind = "constant" if isinstance(arrivals, Every) else "poisson"
        return str(arrivals), ["--request-rate-range", f"{arrivals.rate_hz:g}", "--request-distribution", kind]
    gaps_us = np.diff(arrivals.times(duration_s, seed=seed)) * 1e6
    if not len(gaps_us):
        raise LoadError(f"{arrivals}: found one request in {duration_s:g} s, expected two or more.")
    intervals.write_text("\n".join(str(round(gap)) for gap in gaps_us) + "\n")
    return str(arrivals), ["--request-intervals", str(intervals)]


def _input_data(target: GrpcTarget | HttpTarget) -> tuple[int, list[dict[str, Any]]]:
    """The batch size, and each sample as perf_analyzer's data file has it."""
    control = Control(target.http_url)
    try:
        batched = int(control.config(target.model).get("max_batch_size") or 0) > 0
    except ServerError as error:
        raise LoadError(f"{target.name}: {error.problem}", action=error.action) from error
    finally:
        control.close()
    sizes = {len(array) for tensors in each(target.inputs) for array in tensors.values()} if batched else {1}
    if len(sizes) != 1:
        raise LoadError(f"perf_analyzer: found batches of {sorted(sizes)}, expected one size for all requests.")
    (batch,) = sizes
    data = []
    for tensors in each(target.inputs):
        for index in range(batch):
            part = {name: array[index] if batched else array for name, array in tensors.items()}
            data.append({name: _described(name, array) for name, array in part.items()})
    return batch, data


def _described(name: str, array: np.ndarray) -> dict[str, Any]:
    kind, shape, raw = wire(name, array)
    if kind == "BYTES":
        texts = [item.decode() if isinstance(item, bytes) else str(item) for item in np.asarray(array).ravel()]
        return {"content": texts, "shape": shape or [1]}
    return {"content": {"b64": base64.b64encode(raw).decode()}, "shape": shape or [1]}


def _run(found: PerfAnalyzer, command: list[str], report: Path, timeout_s: float) -> Mapping[str, str]:
    """Run it and read the one row of its report."""
    try:
        done = subprocess.run(
            command, env=found.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"perf_analyzer: not ready after {timeout_s:g} s; ended.") from error
    try:
        with report.open(newline="") as file:
            rows = list(csv.DictReader(line for line in file if line.strip()))
        return rows[0]
    except (OSError, IndexError) as error:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise LoadError(f"perf_analyzer: no report (status {done.returncode}).", details=said) from error


def _version(path: Path, libraries: tuple[Path, ...]) -> str:
    environment = PerfAnalyzer(path, "", libraries).environment
    try:
        asked = subprocess.run(
            [str(path), "--version"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = (asked.stdout + asked.stderr).split()  # it says so on standard error
    return words[words.index("Version") + 1] if asked.returncode == 0 and "Version" in words[:-1] else ""
