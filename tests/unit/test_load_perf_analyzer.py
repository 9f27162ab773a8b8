"""Driving perf_analyzer: found, given the same requests and plan, its report read."""

from __future__ import annotations

import base64
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tutorial_lib.bench import backend
from tutorial_lib.bench.contestants import Contestant
from tutorial_lib.errors import LoadError, SetupError
from tutorial_lib.load import (
    EndpointTarget,
    Every,
    GrpcTarget,
    HttpTarget,
    Poisson,
    Users,
    fetch_perf_analyzer,
    find_perf_analyzer,
    pattern,
    perf_analyzer,
    run_perf_analyzer,
)
from tutorial_lib.load.perf_analyzer import VARIABLE
from tutorial_lib.paths import WORKSPACE_VARIABLE

# what version 2.51.0 wrote for batches of 2
REPORT = (
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
    "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency\n"
    "4,3076.25,2,1374,297,16,748,153,0,1437,5582,7423,10471\n"
)
STAND_IN = f"""#!{sys.executable}
import json, pathlib, sys
if "--version" in sys.argv:
    print("Perf Analyzer Version 2.51.0 (commit unknown)", file=sys.stderr)
    sys.exit(0)
given = dict(zip(sys.argv[1:], sys.argv[2:]))
home = pathlib.Path(__file__).parent
home.joinpath("data.json").write_text(pathlib.Path(given["--input-data"]).read_text())
home.joinpath("arguments.json").write_text(json.dumps(sys.argv[1:]))
if "--request-intervals" in given:
    home.joinpath("intervals.txt").write_text(pathlib.Path(given["--request-intervals"]).read_text())
if given["-m"] == "nobody":
    print("error: failed to get model metadata: no such model")
    sys.exit(99)
pathlib.Path(given["-f"]).write_text({REPORT!r})
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    path = tmp_path / "bin" / "perf_analyzer"
    path.parent.mkdir()
    path.write_text(STAND_IN)
    path.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(path))

    class Control:
        def __init__(self, url): ...
        def close(self): ...
        def config(self, model):
            return {"max_batch_size": 8}

    monkeypatch.setattr(perf_analyzer, "Control", Control)
    return path.parent


def target(name="double", **options):
    inputs = {"x": np.array([[1, 2, 3], [4, 5, 6]], np.float32), "t": np.array([["a"], ["ö"]], np.object_)}
    return GrpcTarget("127.0.0.1:8001", name, inputs, http_url="http://127.0.0.1:8000", label="here", **options)


def test_it_is_found_where_the_variable_says(stand_in):
    found = find_perf_analyzer()
    assert (found.path, found.version) == (stand_in / "perf_analyzer", "2.51.0")
    assert fetch_perf_analyzer() == found


def test_it_drives_where_the_bench_holds_our_server_against_itself(stand_in):
    bench = object.__new__(backend._Bench)
    bench.server = SimpleNamespace(http_url="http://127.0.0.1:8000", http_address="127.0.0.1:8000")
    bench.picture, bench.perf_analyzer = np.zeros((1, 3, 64, 64), np.float32), find_perf_analyzer()
    sample = bench.among_ours("ours", "resnet").measure(16, seconds=1.2)
    assert (sample.rps, sample.p50_ms, sample.p95_ms) == (3076.25, 1.437, 7.423)
    arguments = json.loads((stand_in / "arguments.json").read_text())
    given = dict(zip(arguments, arguments[1:], strict=False))
    assert (given["-m"], given["-i"], given["--concurrency-range"], given["-p"]) == ("resnet", "http", "16", "500")
    bench.among_ours("ours", "resnet").measure(1, seconds=0.2, warm_up_s=0.05)
    assert '"-p", "400"' in (stand_in / "arguments.json").read_text(), "windows too short to be steady"
    bench.perf_analyzer = None
    assert isinstance(bench.among_ours("ours", "resnet"), Contestant), "without it the library's own generator"


def test_one_that_does_not_run_is_none(stand_in):
    (stand_in / "perf_analyzer").write_text("#!/bin/sh\nexit 1\n")
    assert find_perf_analyzer() is None
    with pytest.raises(SetupError, match="found none that runs.*fetch_perf_analyzer"):
        run_perf_analyzer(target(), concurrency=1)


def test_the_same_requests_go_in_and_the_report_comes_out(stand_in):
    report = run_perf_analyzer(target(), concurrency=4, duration_s=3)
    assert report.throughput_rps == pytest.approx(3076.25 / 2)
    assert (report.p50_ms, report.p90_ms, report.p95_ms, report.p99_ms) == (1.437, 5.582, 7.423, 10.471)
    assert (report.server.queue_ms, report.server.compute_infer_ms) == (0.297, 0.748)
    assert "perf_analyzer 2.51.0" in str(report) and report.summary()["label"] == "here"
    arguments = json.loads((stand_in / "arguments.json").read_text())
    given = dict(zip(arguments, arguments[1:], strict=False))
    assert (given["-u"], given["-i"], given["-b"], given["-p"]) == ("127.0.0.1:8001", "grpc", "2", "1000")
    assert given["--concurrency-range"] == "4" and "--streaming" not in arguments
    data = json.loads((stand_in / "data.json").read_text())["data"]
    assert len(data) == 2 and data[1]["t"] == {"content": ["ö"], "shape": [1]}
    sent = base64.b64decode(data[1]["x"]["content"]["b64"])
    assert np.frombuffer(sent, np.float32).tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("arrivals", "flags"),
    [
        (Every.hz(50), ["--request-rate-range", "50", "--request-distribution", "constant"]),
        (Poisson(80), ["--request-rate-range", "80", "--request-distribution", "poisson"]),
    ],
)
def test_rates(stand_in, arrivals, flags):
    run_perf_analyzer(target(streaming=True), arrivals=arrivals)
    arguments = json.loads((stand_in / "arguments.json").read_text())
    assert [flag for flag in arguments if flag in flags] == flags and "--streaming" in arguments


def test_other_patterns_are_given_as_gaps(stand_in):
    run_perf_analyzer(HttpTarget("http://127.0.0.1:8000", "double", {"x": np.zeros((1, 3))}), arrivals=pattern(2))
    gaps = [int(line) for line in (stand_in / "intervals.txt").read_text().split()]
    assert gaps[:4] == [0, 0, 0, 0] and 25_000 <= gaps[4] <= 35_000


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: run_perf_analyzer(EndpointTarget("http://x/"), concurrency=1), "models of a Triton"),
        (lambda: run_perf_analyzer(GrpcTarget("x:1", "m", {}), concurrency=1), "models of a Triton"),
        (lambda: run_perf_analyzer(target()), "expected one of arrivals and concurrency"),
        (lambda: run_perf_analyzer(target(), users=Users(3, think_s=1)), "no users who think"),
        (lambda: run_perf_analyzer(target(), concurrency=0), "concurrency: found 0"),
        (lambda: run_perf_analyzer(target(), concurrency=1, duration_s=0), "duration_s: found 0"),
        (lambda: run_perf_analyzer(target("nobody"), concurrency=1), "no report .status 99.(.|\n)*no such model"),
    ],
)
def test_what_it_cannot_do_is_said(stand_in, make, said):
    with pytest.raises(LoadError, match=said):
        make()
