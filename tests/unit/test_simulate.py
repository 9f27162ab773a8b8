"""The simulator against closed formulas, exact recursions and small cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tutorial_lib.errors import LoadError
from tutorial_lib.repository import parse_config
from tutorial_lib.simulate import Batching, Service, service_of, simulate

ALONE = Batching(max_batch_size=0, dynamic=False)


def at_ms(*times):
    return np.array(times) / 1000


def batches(result):
    """(start in ms, requests) of every batch."""
    return [(round(1000 * batch.start_s, 3), batch.size) for batch in result.batches]


# one at a time: D/D/1, D/D/c, Lindley's recursion, M/D/1, M/D/c


def test_d_d_1_below_capacity_nobody_waits():
    result = simulate(ALONE, Service(5), arrivals_s=at_ms(*range(0, 1000, 10)))
    assert result.queue_ms.max() == 0 and np.allclose(result.latencies_ms, 5, atol=1e-6)
    assert result.busy == pytest.approx(0.5, abs=0.01)


def test_d_d_1_above_capacity_the_queue_grows_by_the_difference():
    result = simulate(ALONE, Service(15), arrivals_s=at_ms(*range(0, 1000, 10)))
    assert np.allclose(result.queue_ms, 5 * np.arange(100), atol=1e-6)


def test_d_d_c_serves_c_at_a_time():
    result = simulate(Batching(0, dynamic=False, instances=3), Service(30), arrivals_s=np.zeros(7))
    assert np.allclose(result.queue_ms, [0, 0, 0, 30, 30, 30, 60])
    assert sorted(batch.instance for batch in result.batches[:3]) == [0, 1, 2]


def test_every_wait_is_that_of_lindleys_recursion():
    times = np.cumsum(np.random.default_rng(1).exponential(0.012, 5000))
    result = simulate(ALONE, Service(9), arrivals_s=times)
    waits = [0.0]
    for gap in np.diff(times):
        waits.append(max(0.0, waits[-1] + 9 - 1000 * gap))
    assert np.allclose(result.queue_ms, waits, atol=1e-3)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.8])
def test_m_d_1_is_pollaczek_and_khinchine(load):
    """Mean wait S·ρ/(2(1−ρ)), within the 99.9 % interval of 20 independent runs."""
    means = []
    for seed in range(20):
        times = np.cumsum(np.random.default_rng(seed).exponential(0.010 / load, 6000))
        means.append(simulate(ALONE, Service(10), arrivals_s=times).queue_ms.mean())
    error = 3.88 * np.std(means, ddof=1) / np.sqrt(len(means))
    assert abs(np.mean(means) - 10 * load / (2 * (1 - load))) < error


def test_m_d_c_with_half_the_load_each_waits_less_than_m_d_1():
    """Crommelin: the mean wait of M/D/2 at ρ = 0.5, computed from its chain."""
    means = []
    for seed in range(20):
        times = np.cumsum(np.random.default_rng(seed).exponential(0.010, 6000))
        means.append(simulate(Batching(0, dynamic=False, instances=2), Service(10), arrivals_s=times).queue_ms.mean())
    error = 3.88 * np.std(means, ddof=1) / np.sqrt(len(means))
    assert abs(np.mean(means) - _m_d_2_wait()) < error


def _m_d_2_wait(load: float = 0.5, service_ms: float = 10.0) -> float:
    """The mean wait of M/D/2 from its chain of states one service time apart, and Little's law."""
    count, arrivals = 80, 2 * load
    poisson = np.exp(-arrivals) * np.cumprod([1.0, *(arrivals / k for k in range(1, count))])
    step = np.zeros((count, count))
    for here in range(count):
        left = max(0, here - 2)
        step[here, left:] = poisson[: count - left]
    step /= step.sum(axis=1, keepdims=True)
    share = np.linalg.matrix_power(step, 4096)[0]
    waiting = (share * np.maximum(np.arange(count) - 2, 0)).sum()
    return waiting / arrivals * service_ms


# batches: closed loops, bulk service


@pytest.mark.parametrize(("callers", "expected"), [(1, 1), (5, 5), (8, 8), (16, 8)])
def test_closed_loop_fills_batches_up_to_the_callers(callers, expected):
    """Once in step, a batch of b takes S(b), and each caller waits callers/b of them."""
    service = Service(4, 0.5)
    result = simulate(Batching(8), service, callers=callers, duration_s=5)
    later = result.between(1, 4)
    assert set(later.sizes) == {expected}
    assert np.allclose(later.latencies_ms, service.ms(expected) * max(1, callers / 8), atol=1e-5)
    assert result.throughput_rps == pytest.approx(1000 * expected / service.ms(expected), rel=0.01)


def test_closed_loop_without_batching_is_one_over_the_service_time():
    result = simulate(ALONE, Service(4), callers=16, duration_s=5)
    assert result.throughput_rps == pytest.approx(250, rel=0.01)
    assert np.allclose(result.between(1, 4).latencies_ms, 64)


def test_littles_law_holds_with_overhead():
    """callers = throughput × latency, overhead being part of the latency."""
    result = simulate(Batching(8), Service(4, 0.5), callers=6, duration_s=20, overhead_ms=3)
    assert result.throughput_rps * result.between(1, 19).mean_ms / 1000 == pytest.approx(6, rel=0.02)


def test_bulk_service_agrees_with_its_markov_chain():
    """Poisson arrivals, batches of up to b as many as there are, constant service: the chain at departures."""
    rate, service_ms, largest = 300.0, 20.0, 8
    times = np.cumsum(np.random.default_rng(3).exponential(1 / rate, 60_000))
    result = simulate(Batching(largest), Service(service_ms), arrivals_s=times)
    found = np.bincount(result.sizes, minlength=largest + 1)[1:] / len(result.batches)
    assert found == pytest.approx(_bulk_sizes(rate * service_ms / 1000, largest), abs=0.015)


def _bulk_sizes(arrivals: float, largest: int) -> np.ndarray:
    """Shares of batch sizes 1 … largest in the stationary state."""
    count = 120
    poisson = np.exp(-arrivals) * np.cumprod([1.0, *(arrivals / k for k in range(1, count))])
    step = np.zeros((count, count))
    for here in range(count):
        left = here - min(max(here, 1), largest) if here else 0  # whoever finds it idle is served alone
        step[here, left:] = poisson[: count - left]
    step /= step.sum(axis=1, keepdims=True)
    share = np.linalg.matrix_power(step, 4096)[0]
    sizes = np.zeros(largest + 1)
    for here, weight in enumerate(share):
        sizes[min(max(here, 1), largest)] += weight
    return sizes[1:]


# the batcher's rules, worked out by hand


def test_without_a_delay_a_lone_request_runs_at_once_and_the_rest_while_it_runs():
    result = simulate(Batching(8), Service(10), arrivals_s=at_ms(0, 2, 4, 6, 11, 12))
    assert batches(result) == [(0, 1), (10, 3), (20, 2)]


def test_a_batch_is_never_larger_than_the_largest():
    result = simulate(Batching(4), Service(10), arrivals_s=at_ms(0, 1, 2, 3, 4, 5, 6))
    assert batches(result) == [(0, 1), (10, 4), (20, 2)]


def test_a_lone_request_waits_the_whole_delay():
    result = simulate(Batching(8, queue_delay_us=3000), Service(10), arrivals_s=at_ms(0, 50))
    assert batches(result) == [(3, 1), (53, 1)]


def test_a_full_batch_does_not_wait():
    result = simulate(Batching(4, queue_delay_us=30_000), Service(10), arrivals_s=at_ms(0, 1, 2, 3, 20))
    assert batches(result) == [(3, 4), (50, 1)]


def test_a_batch_made_ready_while_the_instance_is_busy_stays_as_it_was():
    """Ready at 12 with what had come by then; its slot keeps it from growing, and the next is made when it goes.

    So a delay makes batches smaller here: without it the second one would hold all that came meanwhile.
    """
    arrivals = at_ms(0, 7, 9, 13, 15, 17, 19)
    assert batches(simulate(Batching(8, queue_delay_us=5000), Service(20), arrivals_s=arrivals)) == [
        (5, 1), (25, 2), (45, 4),
    ]  # fmt: skip
    assert batches(simulate(Batching(8), Service(20), arrivals_s=arrivals)) == [(0, 1), (20, 6)]


def test_it_does_what_a_server_was_seen_to_do():
    """Triton 2.51.0, a model that sleeps 20 ms, one request every 4 ms, a delay of 5 ms, at most 8."""
    result = simulate(Batching(8, queue_delay_us=5000), Service(20.7, 0.05), arrivals_s=np.arange(20) * 0.0042)
    assert list(result.sizes) == [2, 2, 4, 8, 2, 2]


def test_a_preferred_size_is_sent_when_it_is_reached():
    """A delay of 30 ms, but three are preferred: the third request ends the wait."""
    result = simulate(Batching(8, True, 30_000, (3,)), Service(10), arrivals_s=at_ms(0, 1, 2, 40))
    assert batches(result) == [(2, 3), (70, 1)]


def test_without_a_delay_preferred_sizes_close_batches_early():
    """Four are preferred: five wait, but the batch closed with the fourth."""
    arrivals = at_ms(0, 1, 2, 3, 4, 5)
    assert batches(simulate(Batching(8, True, 0, (4,)), Service(10), arrivals_s=arrivals)) == [(0, 1), (10, 4), (20, 1)]
    assert batches(simulate(Batching(8), Service(10), arrivals_s=arrivals)) == [(0, 1), (10, 5)]


def test_of_several_preferred_sizes_the_largest_there_is_at_once():
    result = simulate(Batching(8, True, 0, (2, 4)), Service(10), arrivals_s=at_ms(0, 0, 0, 0, 0))
    assert [size for _, size in batches(result)] == [4, 1]


def test_two_instances_share_what_waits():
    result = simulate(Batching(4, instances=2), Service(10), arrivals_s=at_ms(0, 1, 2, 3, 4, 5))
    assert batches(result) == [(0, 1), (1, 1), (10, 4)]
    assert [batch.instance for batch in result.batches] == [0, 1, 0]


def test_batches_close_in_the_order_of_arrival_and_nobody_is_lost():
    chance = np.random.default_rng(5)
    for _ in range(120):
        largest = int(chance.integers(1, 17))
        preferred = tuple(sorted(set(chance.integers(1, largest + 1, chance.integers(0, 4)).tolist())))
        batching = Batching(
            largest, True, int(chance.choice([0, 100, 2000, 20_000])), preferred, int(chance.integers(1, 4))
        )
        times = np.cumsum(chance.exponential(0.002, 300))
        result = simulate(batching, Service(float(chance.uniform(0.5, 30)), 0.1), arrivals_s=times)
        assert result.sizes.sum() == 300 and result.sizes.max() <= largest
        assert (np.diff(result.batch) >= 0).all(), batching
        assert result.queue_ms.min() >= 0
        for row in range(result.instances):
            mine = [batch for batch in result.batches if batch.instance == row]
            assert all(before.end_s <= after.start_s for before, after in zip(mine, mine[1:], strict=False))


# what it is given


def test_a_configuration_says_it_all():
    text = """
        name: "m" max_batch_size: 16
        dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 500 }
        instance_group [ { count: 2 kind: KIND_CPU }, { kind: KIND_CPU } ]
    """
    assert Batching.of(parse_config(text)) == Batching(16, True, 500, (4, 8), 3)
    assert Batching.of(parse_config('name: "m" max_batch_size: 16')) == Batching(16, False)
    assert not Batching.of(parse_config('name: "m" dynamic_batching { }')).dynamic, "without a batch axis"


@pytest.mark.parametrize(
    ("text", "instances"),
    [
        ('backend: "onnxruntime"', 2),
        ('platform: "onnxruntime_onnx"', 2),
        ('backend: "onnxruntime" instance_group [ { } ]', 2),
        ('backend: "onnxruntime" instance_group [ { kind: KIND_CPU }, { count: 3 } ]', 5),
        ('backend: "onnxruntime" instance_group [ { kind: KIND_GPU } ]', 1),
        ('backend: "onnxruntime" instance_group [ { count: 1 } ]', 1),
        ('backend: "pytorch" instance_group [ { kind: KIND_CPU } ]', 1),
        ('backend: "python"', 1),
    ],
)
def test_instances_that_a_configuration_leaves_open_are_as_triton_completes_it(text, instances):
    """tutorial_lib/backends/README.md, "Settings": two on a CPU for ONNX Runtime, one for the others."""
    assert Batching.of(parse_config(text)).instances == instances


def test_a_servers_completed_configuration_is_read_as_it_comes():
    """As `Server.config()` gives it: JSON, with the group that Triton added."""
    completed = {
        "name": "m",
        "backend": "onnxruntime",
        "max_batch_size": 8,
        "dynamic_batching": {"preferred_batch_size": [8], "max_queue_delay_microseconds": 500},
        "instance_group": [{"name": "m", "kind": "KIND_CPU", "count": 2, "gpus": [], "profile": []}],
        "a_field_of_a_later_release": 1,
    }
    assert Batching.of(completed) == Batching(8, True, 500, (8,), 2)
    completed["instance_group"][0]["count"] = 1
    assert Batching.of(completed).instances == 1
    with pytest.raises(LoadError, match="configuration: found what is none"):
        Batching.of({"max_batch_size": "many"})


def stats(*rows):
    zero = {"count": 0, "ns": 0}
    return {
        "name": "m",
        "batch_stats": [
            {"batch_size": size, "compute_input": zero, "compute_output": {"count": runs, "ns": runs * 1_000_000},
             "compute_infer": {"count": runs, "ns": int(runs * (ms - 1) * 1e6)}}
            for size, runs, ms in rows
        ],
    }  # fmt: skip


def test_the_service_time_comes_from_the_statistics():
    found = service_of(stats((1, 10, 6.0), (4, 3, 9.0), (8, 1, 13.0)))
    assert (found.fixed_ms, found.per_request_ms) == pytest.approx((5, 1), rel=1e-6)
    assert service_of(stats((4, 2, 9.0))) == Service(9.0)
    later = service_of(stats((1, 20, 6.0), (8, 4, 13.0)), stats((1, 10, 6.0)))
    assert later.ms(1) == pytest.approx(6) and later.ms(8) == pytest.approx(13)
    assert service_of(stats((1, 5, 8.0), (8, 5, 6.0))).per_request_ms == 0
    assert service_of(stats((1, 5, 1.0), (8, 5, 9.0))).fixed_ms == 0


def test_a_simulation_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("tutorial_lib.simulate.run.MOST_REQUESTS", 500)
    with pytest.raises(LoadError, match="shorter time"):
        simulate(ALONE, Service(1), callers=2, duration_s=10)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Service(-1),
        lambda: Service(0),
        lambda: Service(float("nan")),
        lambda: Service("1"),
        lambda: Service(1, float("inf")),
        lambda: Service(1, None),
        lambda: Batching(queue_delay_us=float("nan")),
        lambda: Batching(queue_delay_us=0.5),
        lambda: Batching(queue_delay_us=10**15),
        lambda: Batching(queue_delay_us="1"),
        lambda: Batching(instances=1.5),
        lambda: Batching(instances=float("nan")),
        lambda: Batching(instances=10**9),
        lambda: Batching(instances=True),
        lambda: Batching(max_batch_size=2.5),
        lambda: Batching(max_batch_size=None),
        lambda: Batching(dynamic="no"),
        lambda: Batching(8, preferred=4),
        lambda: Batching(8, preferred="4"),
        lambda: Batching(8, preferred=(2.5,)),
        lambda: simulate(ALONE, Service(1), callers=1.5),
        lambda: simulate(ALONE, Service(1), callers=float("nan")),
        lambda: simulate(ALONE, Service(1), callers="2"),
        lambda: simulate(ALONE, Service(1), callers=10**9),
        lambda: simulate(ALONE, Service(1), callers=1, duration_s=float("nan")),
        lambda: simulate(ALONE, Service(1), callers=1, duration_s="1"),
        lambda: simulate(ALONE, Service(1), callers=1, overhead_ms="1"),
        lambda: simulate(ALONE, Service(1), callers=1, overhead_ms=1e300),
        lambda: simulate(ALONE, Service(1), arrivals_s=["soon"]),
        lambda: simulate(ALONE, Service(1), arrivals_s=[[0.0], [0.0, 1.0]]),
        lambda: simulate(ALONE, Service(1), arrivals_s=[0.0, 1e300]),
        lambda: Batching(instances=0),
        lambda: Batching(queue_delay_us=-1),
        lambda: Batching(8, preferred=(9,)),
        lambda: Batching(8, preferred=(0,)),
        lambda: simulate(ALONE, Service(1)),
        lambda: simulate(ALONE, Service(1), arrivals_s=[0.0], callers=1),
        lambda: simulate(ALONE, Service(1), arrivals_s=[]),
        lambda: simulate(ALONE, Service(1), arrivals_s=[1.0, 0.5]),
        lambda: simulate(ALONE, Service(1), arrivals_s=[0.0, float("inf")]),
        lambda: simulate(ALONE, Service(1), callers=0),
        lambda: simulate(ALONE, Service(1), callers=1, duration_s=0),
        lambda: simulate(ALONE, Service(1), callers=1, overhead_ms=-1),
        lambda: service_of({"name": "m"}),
    ],
)
def test_what_cannot_be_is_said_in_words(wrong):
    with pytest.raises(LoadError, match="found|tell of no run"):
        wrong()
