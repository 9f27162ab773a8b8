"""`./workshop load` with a server that is stood in for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tutorial_lib import cli, cli_load, load
from tutorial_lib.errors import LoadError
from tutorial_lib.load import Bursts, EndpointTarget, Every, KnownServer, LoadResult, Poisson, Replay, Users
from tutorial_lib.paths import WORKSPACE_VARIABLE

NOTHING = (None, None, 1.0, None, None, None, None, None)


@pytest.fixture
def known(tmp_path, monkeypatch):
    """The command line sends to a server of 2 ms instead of a Triton."""
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    asked = {}
    with KnownServer(0.002, servers=4) as server:
        monkeypatch.setattr(cli_load, "_server", lambda *_: server)
        server.__enter__ = lambda: server

        def target(_, model, inputs, **options):
            asked.update(model=model, inputs=inputs, **options)
            return EndpointTarget(server.url + model, bodies=[b"x"], label="known")

        monkeypatch.setattr(load, "triton_target", target)
        monkeypatch.setattr(KnownServer, "__exit__", lambda *_: None)
        yield asked
        server.stop()


def invoke(*arguments):
    return CliRunner().invoke(cli.app, ["load", *arguments], prog_name="./workshop")


def test_a_run_is_printed_and_written(known, tmp_path):
    told = invoke("double", "--rate", "100", "--duration-s", "1", "--csv", str(tmp_path / "a.csv"), "--shape", "x:1,3")
    assert told.exit_code == 0, told.output
    assert "POST /double, Poisson, 100/s · known" in told.output and "answers/s · p50" in told.output
    assert LoadResult.from_csv(tmp_path / "a.csv").answered > 50
    assert known["shapes"] == {"x": (1, 3)} and known["protocol"] == "grpc"


def test_inputs_are_read_from_a_file(known, tmp_path):
    np.savez(tmp_path / "inputs.npz", x=np.ones((2, 3), np.float32))
    told = invoke("double", "--concurrency", "1", "--duration-s", "0.3", "--inputs", str(tmp_path / "inputs.npz"))
    assert told.exit_code == 0 and known["inputs"]["x"].shape == (2, 3)


def test_saturation_is_a_table(known):
    told = invoke("double", "--saturate", "--duration-s", "0.4", "--p95-limit-ms", "2000")
    assert told.exit_code == 0
    assert "concurrency" in told.output and "answers/s with" in told.output


class Known:
    """A result, or a saturation, as the command asks it."""

    duration_s, ended_early = 1.0, ""

    def __init__(self, **said):
        self.__dict__.update(said)

    def to_csv(self): ...

    to_json = to_csv

    def frame(self):
        names = ["concurrency", "good", "throughput_rps", "p50_ms", "p95_ms", "p99_ms", "mean_batch"]
        return pd.DataFrame([[1.0] * len(names)], columns=names)


@pytest.mark.parametrize(("complete", "code"), [(True, 0), (False, 1)])
def test_the_status_is_of_the_whole_run(known, monkeypatch, complete, code):
    monkeypatch.setattr(load, "run_load", lambda *_, **__: Known(complete=complete, answered=0, requests=0))
    assert invoke("double").exit_code == code


@pytest.mark.parametrize(
    ("good", "ended_early", "code"), [((True, False), "", 0), ((False,), "", 1), ((True,), "the server has gone", 1)]
)
def test_the_status_of_a_search(known, monkeypatch, good, ended_early, code):
    monkeypatch.setattr(load, "find_saturation", lambda *_, **__: Known(good=good, ended_early=ended_early))
    assert invoke("double", "--saturate").exit_code == code


@pytest.mark.parametrize(
    ("given", "plan"),
    [
        ({}, {"concurrency": 16}),
        ({0: 4}, {"concurrency": 4}),
        ({1: 300}, {"users": Users(300, think_s=1.0)}),
        ({1: 400, 3: 1.0}, {"users": Users(400, think_s=1.0, per_s=1.0)}),
        ({4: 50.0}, {"arrivals": Poisson(50.0)}),
        ({5: 30.0}, {"arrivals": Every(0.030)}),
        ({6: "2"}, {"arrivals": Bursts(5, every_s=0.030, jitter_s=0.005)}),
        ({6: "typical"}, {"arrivals": Bursts((1, 20), every_s=0.020, jitter_s=0.010)}),
    ],
)
def test_flags_are_plans(given, plan):
    arguments = [given.get(index, value) for index, value in enumerate(NOTHING)]
    assert cli_load._plan(*arguments, saturate=False) == plan


def test_a_trace_is_a_plan(tmp_path):
    (tmp_path / "trace.csv").write_text("0\n1\n")
    plan = cli_load._plan(*NOTHING[:7], tmp_path / "trace.csv", saturate=False)
    assert isinstance(plan["arrivals"], Replay)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rate", "5", "--users", "3"), "found --users and --rate, expected one"),
        (("--join", "1"), "--join: it belongs to --users"),
        (("--p95-limit-ms", "5"), "--p95-limit-ms: it belongs to --saturate"),
        (("--saturate", "--csv", "a.csv"), "--saturate: it goes with none of"),
        (("--users", "3", "--perf-analyzer"), "--perf-analyzer: it has no users who think"),
        (("--shape", "x"), "--shape: found 'x', expected INPUT:1,2,3"),
        (("--shape", "x:1,-2"), "--shape: found 'x:1,-2'"),
        (("--pattern", "5"), "arrival pattern: found 5"),
        (("--rate", "-5"), "Poisson.rate_hz: found -5"),
        (("--concurrency", "0"), "concurrency: found 0"),
    ],
)
def test_what_makes_no_sense_is_said_before_or_at_the_run(known, arguments, said):
    told = invoke("double", *arguments)
    assert isinstance(told.exception, LoadError) and said in str(told.exception)
