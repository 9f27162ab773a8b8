"""The arithmetic of the gateway's bench, on runs whose numbers are made up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tutorial_lib.bench import gateway
from tutorial_lib.load import Poisson
from tutorial_lib.repository.config import parse_config

RPS = {
    gateway.NAIVE: 100.0, gateway.NAIVE_ONE: 120.0, gateway.GATEWAY: 350.0, gateway.MIXED: 280.0,
    gateway.DIRECT_GRPC: 650.0, gateway.DIRECT_HTTP: 900.0, gateway.OTHER_GRPC: 520.0, gateway.OTHER_HTTP: 800.0,
}  # fmt: skip
P95 = {gateway.NAIVE: 40.0, gateway.NAIVE_ONE: 30.0, gateway.GATEWAY: 5.0, gateway.MIXED: 6.0}


@pytest.fixture
def runs(monkeypatch):
    asked = []

    def run_load(target, *, concurrency=None, arrivals=None, **_):
        asked.append((target, concurrency or arrivals))
        # 64 users get a little less than 16 do
        rate = RPS[target] * (0.9 if concurrency == 64 else 1.0)
        return SimpleNamespace(throughput_rps=rate, p95_ms=P95.get(target, 0.0), summary=lambda: {"rps": rate})

    monkeypatch.setattr(gateway, "run_load", run_load)
    return asked


def test_targets_are_ratios_to_the_published_app(runs):
    result = gateway._measured({name: name for name in RPS}, lambda: 1400.0, 3, lambda _: None)
    ours, p95, http, grpc = result.targets
    assert (ours.value, ours.target, ours.met) == (3.5, 3, True)
    assert (p95.value, p95.target, p95.met) == (8.0, 5, True)
    assert (http.value, http.met) == (9.0, True) and "runs of at most 16" in http.note and "SCHED_BATCH" in grpc.note
    assert (grpc.value, grpc.target, grpc.met) == (6.5, 7, False)
    assert not result.met and len(result.raw["runs"]) == 3 * (len(RPS) * 2 + 2 + 4)


def test_arrivals_are_at_a_share_of_the_apps_own_maximum_and_the_kinder_app_is_told(runs):
    result = gateway._measured({name: name for name in RPS}, lambda: 1400.0, 1, lambda _: None)
    assert {plan for _, plan in runs if isinstance(plan, Poisson)} == {Poisson(80.0)}
    assert "2.9 times the requests/s, p95 6.0 times lower" in result.notes[-4]


def test_what_cores_of_their_own_bring_is_told(runs):
    result = gateway._measured({name: name for name in RPS}, lambda: 1400.0, 3, lambda _: None)
    assert "requests/s 1.25 times (1.25 … 1.25), p95 0.83 times (0.83 … 0.83)" in result.notes[-3]


def test_what_triton_directly_owes_to_its_policy_is_told(runs):
    result = gateway._measured({name: name for name in RPS}, lambda: 1400.0, 3, lambda _: None)
    assert "SCHED_BATCH gives HTTP 1.12 times (1.12 … 1.12), gRPC 1.25 times (1.25 … 1.25)" in result.notes[-2]
    assert "without it Triton is at 8.00 times the naive app over HTTP and 5.20 over gRPC" in result.notes[-2]


def test_what_is_asked_is_set_against_what_no_server_can_pass(runs):
    result = gateway._measured({name: name for name in RPS}, lambda: 1400.0, 2, lambda _: None)
    assert "1400 pictures/s (1400 … 1400), 14.0 times the naive app" in result.notes[-1]
    assert "are 50% of that; it gave 64% over HTTP and 46% over gRPC" in result.notes[-1]
    assert result.raw["in_process_images_per_s"] == [1400.0, 1400.0]


def test_arrivals_follow_a_machine_that_drifts(runs, monkeypatch):
    def say(what):
        if what == "saturation: round 2 of 2":
            monkeypatch.setitem(RPS, gateway.NAIVE, 50.0)

    gateway._measured({name: name for name in RPS}, lambda: 1400.0, 2, say)
    assert {plan for _, plan in runs if isinstance(plan, Poisson)} == {Poisson(40.0)}


def test_each_core_gets_an_instance_that_stays_there(tmp_path, monkeypatch):
    monkeypatch.setattr(gateway, "usable_cores", lambda: [5, 7])
    config = tmp_path / "config.pbtxt"
    config.write_text('name: "m"')
    flags = gateway._one_on_each_core(config)
    assert flags[:2] == ["--host-policy=core5,cpu-cores=5-5", "--host-policy=core7,cpu-cores=7-7"]
    groups = parse_config(config.read_text()).instance_group
    assert [(group.count, group.host_policy) for group in groups] == [(1, "core5"), (1, "core7")]


def test_every_other_round_goes_backwards(runs):
    gateway._measured({name: name for name in RPS}, lambda: 1400.0, 2, lambda _: None)
    first = [target for target, plan in runs if plan == 16]
    assert first == [*RPS, *reversed(RPS), gateway.NAIVE, gateway.NAIVE]
