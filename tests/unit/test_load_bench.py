"""The arithmetic of `./workshop bench load`; what it measures is not tested, it is measured."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tutorial_lib.bench import load as bench
from tutorial_lib.errors import SetupError
from tutorial_lib.load import Samples


def ours(rps, p95_ms, *, late_ms=5.0):
    """A run whose requests all took `p95_ms` from sending, and went out late."""
    intended = np.arange(10.0)
    sent = intended + late_ms / 1000
    part = Samples(intended, sent, sent + p95_ms / 1000, np.zeros(10, np.int8), np.full(10, -1))
    made = SimpleNamespace(throughput_rps=rps, measured=part, plan="4 users", summary=lambda: {})
    made.generator = SimpleNamespace(cpu_share=0.5)
    return made


def theirs(rps, p95_ms):
    return SimpleNamespace(throughput_rps=rps, p95_ms=p95_ms, summary=lambda: {})


@pytest.fixture
def ceiling(monkeypatch):
    monkeypatch.setattr(bench, "generator_ceiling", lambda protocol: ours({"grpc": 5000, "http": 2000}[protocol], 1))


def test_a_ceiling_below_the_target_is_missed_and_without_perf_analyzer_nothing_is_claimed(ceiling, monkeypatch):
    def none():
        raise SetupError("perf_analyzer: found none")

    monkeypatch.setattr(bench, "fetch_perf_analyzer", none)
    result = bench.run(repeats=2, say=lambda _: None)
    assert [target.met for target in result.targets] == [True, False, None, None]
    assert "50% of a core" in result.targets[1].note and "found none" in result.targets[2].note
    assert not result.met


def test_pairs_are_compared_round_by_round(ceiling, monkeypatch):
    monkeypatch.setattr(bench, "fetch_perf_analyzer", lambda: SimpleNamespace(version="2.51.0"))
    even = [(ours(110, 10), theirs(100, 10)), (ours(220, 20), theirs(200, 20)), (ours(50, 30), theirs(100, 10))]
    monkeypatch.setattr(bench, "_pairs", lambda *_: [even] * len(bench.CELLS))
    result = bench.run(repeats=3, say=lambda _: None)
    rates, p95 = result.targets[2:4]
    assert rates.value == pytest.approx(0.10) and rates.met and rates.interval == pytest.approx((-0.5, 0.1))
    # 5 ms late each, which perf_analyzer would not count either
    assert p95.value == pytest.approx(0.0, abs=1e-6) and p95.met and p95.interval == pytest.approx((0, 2))
