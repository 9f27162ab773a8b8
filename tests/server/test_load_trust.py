"""The load generator against a server of known constant service time: what it measures is what must come out."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tutorial_lib.load import EndpointTarget, Every, KnownServer, Poisson, Users, run_load

SEED = 7  # the arrivals are the same in every run; only the machine varies
SERVICE_S = 0.060  # long enough that a loaded machine's own delays, a few ms, stay a twentieth of it
DURATION_S = 24
ATTEMPTS = 4


def tried_again(test):
    """Where the machine stands still for a tenth of a second, a run says something about it: then another one."""

    @functools.wraps(test)
    def tried():
        for _ in range(ATTEMPTS - 1):
            try:
                return test()
            except AssertionError:
                continue
        return test()

    return tried


def target(server):
    return EndpointTarget(server.url, bodies=[b"x"], label="known server")


def queue(arrivals_s, service_s):
    """Latencies in ms of a first-come-first-served queue (Lindley's recursion), independent of the server's code."""
    latencies, wait_s = [], 0.0
    for gap_s in np.diff(arrivals_s, prepend=arrivals_s[0]):
        wait_s = max(0.0, wait_s + service_s - gap_s) if latencies else 0.0
        latencies.append(1000 * (wait_s + service_s))
    return np.array(latencies)


def own_delay_ms(result, log):
    """How much of the measured mean is neither waiting nor service: sent late, on the way, noticed late."""
    assert len(log) == len(result.samples)
    return float(np.mean(result.samples.latency_ms) - 1000 * np.mean(log[:, 1] - log[:, 0]))


def quiet_run(duration_s, load):
    """A run to which this machine itself added less than SERVICE_S / 20: a busier moment is measured again."""
    delays = []
    for _ in range(ATTEMPTS):
        with KnownServer(SERVICE_S) as server:
            options = {"duration_s": duration_s, "warm_up_s": 1.0, "seed": SEED, "progress": False}
            result = run_load(target(server), arrivals=Poisson(load / SERVICE_S), **options)
            log = server.log()
        delays.append(own_delay_ms(result, log))
        if delays[-1] < 1000 * SERVICE_S / 20:
            return result, log
    pytest.fail(f"the machine itself added {delays} ms in every attempt")


@pytest.mark.parametrize("load", [0.3, 0.5])
def test_latency_rate_and_number_in_the_system_agree_with_the_formulas(load):
    """Poisson arrivals, constant service, one server (M/D/1): W = D + ρD / 2(1-ρ), and Little's law, L = λW.

    Source: Pollaczek and Khinchine; Little.
    """
    rate_hz = load / SERVICE_S
    result, log = quiet_run(DURATION_S, load)
    assert result.answered == result.requests and result.lost == 0
    formula_ms = 1000 * (SERVICE_S + load * SERVICE_S / (2 * (1 - load)))
    low, high = result.interval("mean_ms", level=0.99)
    assert low < formula_ms < high
    assert high - low < formula_ms, "an interval that wide says nothing"
    slowest, fastest = result.interval("throughput_rps", level=0.99)
    assert slowest < rate_hz < fastest
    # L from the server's own log, sampled in time; λ and W from the client
    begin, end = log[:, 0].min(), log[:, 1].max()
    moments = np.linspace(begin, end, 20_000)
    inside = np.searchsorted(np.sort(log[:, 0]), moments) - np.searchsorted(np.sort(log[:, 1]), moments)
    rate_hz = len(log) / (end - begin)
    assert rate_hz * low / 1000 < inside.mean() < rate_hz * high / 1000


@tried_again
def test_each_latency_is_that_of_the_queue_the_arrivals_make():
    """Sharper than a mean: request by request, against Lindley's recursion on the intended times."""
    result, _ = quiet_run(8, 0.6)
    expected = queue(result.samples.intended_s, SERVICE_S)
    difference = result.samples.latency_ms - expected
    assert np.median(np.abs(difference)) < 1000 * SERVICE_S / 20
    # a request that goes out late into an idle server delays those behind it, but none can be answered early
    assert difference.min() > -0.5
    assert np.corrcoef(result.samples.latency_ms, expected)[0, 1] > 0.95


@tried_again
def test_users_who_never_pause_get_all_a_server_gives():
    """N users, one server: rate 1/D whatever the client does between, latency N·D."""
    service_s, users = 0.020, 4
    with KnownServer(service_s) as server:
        result = run_load(target(server), concurrency=users, duration_s=4, warm_up_s=1, progress=False)
    begin, end = result.window_s
    assert abs(result.throughput_rps - 1 / service_s) * (end - begin) <= 3  # answers on the edges of the window
    assert result.p50_ms == pytest.approx(1000 * users * service_s, rel=0.05)
    in_system = result.throughput_rps * result.mean_ms / 1000
    assert in_system == pytest.approx(users, rel=0.05)


@tried_again
def test_users_who_think_follow_littles_law():
    """N = X (W + Z), with Z the pause."""
    with KnownServer(0.001, servers=50) as server:
        users = Users(40, think_s=0.2)
        result = run_load(target(server), users=users, duration_s=4, progress=False)
    assert result.window_s[0] >= 0.2  # the first pause is warm-up
    assert result.throughput_rps * (result.mean_ms / 1000 + users.think_s) == pytest.approx(users.count, rel=0.05)
    assert set(result.samples.user) == set(range(40))


@tried_again
def test_a_stalled_server_is_charged_with_what_should_have_been_sent():
    """No coordinated omission: 20 requests a second into a server that takes 0.5 s for each."""
    with KnownServer(0.5) as server:
        result = run_load(target(server), arrivals=Every(0.05), duration_s=1, warm_up_s=0, timeout_s=30, progress=False)
    expected = queue(np.arange(20) * 0.05, 0.5)  # 500, 950, 1400, … ms
    assert result.latencies_ms == pytest.approx(expected, abs=100)
    assert result.p50_ms > 4000
    assert not result.steady
