"""Intervals and the steady part."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tutorial_lib.load.estimate import (
    batch_means,
    find_steady,
    mean_interval,
    quantile_interval,
    rate_interval,
    student_t,
)


def autocorrelated(random, count, *, memory=0.8):
    """A first-order autoregressive series of mean 10 and standard deviation 1."""
    noise = random.normal(0, math.sqrt(1 - memory**2), count)
    values = np.empty(count)
    values[0] = random.normal()
    for index in range(1, count):
        values[index] = memory * values[index - 1] + noise[index]
    return values + 10


def test_student_t_is_scipys():
    assert student_t(0.99, 19) == pytest.approx(stats.t.ppf(0.995, 19))


def test_batch_means_of_what_does_not_divide():
    assert batch_means(np.arange(7.0), 3).tolist() == [0.5, 2.5, 5.0]


def coverage(interval, true_value, *, runs=300, count=4000, memory=0.8):
    random = np.random.default_rng(1)
    inside = 0
    for _ in range(runs):
        low, high = interval(autocorrelated(random, count, memory=memory))
        inside += low <= true_value <= high
    return inside / runs


@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_intervals_cover_the_truth_as_often_as_they_say(memory):
    """With neighbours alike, formulas for independent values would cover about half as often."""
    mean = coverage(lambda values: mean_interval(values, 0.95), 10.0, memory=memory)
    high = coverage(lambda values: quantile_interval(values, 0.95, 0.95), stats.norm.ppf(0.95) + 10, memory=memory)
    assert 0.91 <= mean <= 0.99
    assert 0.90 <= high <= 1.0


def test_too_few_values_give_no_interval():
    few = np.ones(39)
    assert all(math.isnan(end) for end in (*mean_interval(few, 0.95), *quantile_interval(few, 0.5, 0.95)))
    assert all(math.isnan(end) for end in rate_interval(few, 0, 1, 0.95))
    low, high = quantile_interval(np.arange(60.0), 0.99, 0.95)
    assert math.isfinite(low) and math.isnan(high), "the upper end lies beyond the data"


def test_the_rate_of_poisson_events():
    random = np.random.default_rng(2)
    inside = 0
    for _ in range(200):
        times = np.sort(random.uniform(0, 10, random.poisson(500)))
        low, high = rate_interval(times, 0, 10, 0.95)
        inside += low <= 50 <= high
    assert 0.90 <= inside / 200 <= 0.99


def test_a_warm_up_is_cut_and_no_more():
    random = np.random.default_rng(3)
    warm = np.linspace(300, 10, 150) + random.normal(0, 1, 150)
    found = find_steady(np.r_[warm, random.normal(10, 1, 1000)])
    assert found.steady and 130 <= found.begin <= 180
    settled = find_steady(random.normal(10, 1, 1000))
    assert settled.steady and settled.begin < 200


def test_a_queue_that_grows_is_not_steady():
    found = find_steady(np.linspace(10, 900, 600) + np.random.default_rng(4).normal(0, 5, 600))
    assert not found.steady and "requests come faster than they are answered" in found.note


def test_one_stall_late_in_the_run_is_not_a_warm_up():
    values = np.random.default_rng(5).normal(10, 1, 1000)
    values[700] = 2000
    found = find_steady(values)
    assert found.steady and found.begin < 200


@pytest.mark.parametrize("values", [[], [1.0] * 39])
def test_too_few_answers_cannot_be_judged(values):
    found = find_steady(np.array(values))
    assert not found.steady and "too few" in found.note


def test_constant_latencies_are_steady():
    assert find_steady(np.full(200, 5.0)).steady
