"""The line through what a server keeps: slope and interval against closed formulas."""

from __future__ import annotations

import numpy as np
import pytest

from tutorial_lib.bench.cycles import MODELS, trend


def test_a_constant_has_no_trend():
    found = trend("handles", [68] * 150)
    assert (
        found.met and found.value == pytest.approx(0, abs=1e-12) and found.interval == pytest.approx((0, 0), abs=1e-9)
    )


def test_a_leak_is_found_with_its_slope():
    noise = np.random.default_rng(0).normal(0, 0.2, 150)
    leak = 0.01  # MiB a cycle
    found = trend("memory_mib", leak * np.arange(150) + noise)
    assert not found.met and found.interval[0] <= leak * 100 / MODELS <= found.interval[1]


def test_noise_is_no_trend_and_rarely_taken_for_one():
    random = np.random.default_rng(1)
    above = sum(not trend("memory_mib", random.normal(8, 0.2, 150)).met for _ in range(200))
    assert above <= 200 * 0.06, "one side of a 95 % interval: 2.5 % are expected"


def test_less_and_less_is_no_leak():
    assert trend("memory_mib", np.linspace(9, 8, 150)).met
