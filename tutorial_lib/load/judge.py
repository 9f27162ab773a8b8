"""Which part of a run counts, and whether the generator did its share."""

from __future__ import annotations

import math

import numpy as np

from tutorial_lib.load.arrivals import Arrivals, Users
from tutorial_lib.load.estimate import FEWEST, Steady, find_steady
from tutorial_lib.load.samples import OK, UNSENT, Samples
from tutorial_lib.load.shares import GeneratorShare

FULL_CORE = 0.9  # of a core: a generator that uses more has no time left to be punctual
FULL_TIME = 0.95  # running, or ready to run while others have the cores
LATE_SHARE = 0.1  # of the mean latency
LATE_MS = 0.5  # below, it is what waking a process takes


def judge_window(
    samples: Samples, plan: Arrivals | Users, end_s: float, warm_up_s: float | None
) -> tuple[tuple[float, float], Steady]:
    """The measured window, and whether the run is steady in it.

    Args:
        samples: every request.
        plan: what was carried out; users who still join, or think for the first time, are warm-up.
        end_s: when sending ended.
        warm_up_s: what to leave out; None finds it.
    """
    joining_s = 0.0
    if isinstance(plan, Users):
        joining_s = (plan.count - 1) / plan.per_s if plan.per_s else plan.think_s
    begin_s = min(warm_up_s if warm_up_s is not None else joining_s, end_s)
    if warm_up_s is None and joining_s > 0.8 * end_s:
        return (0.0, end_s), Steady(0, False, "users were still joining")
    part = samples.between(begin_s, end_s)
    answered = part.status == OK
    steady = find_steady(part.latency_ms[answered])
    if warm_up_s is None and np.any(answered):
        begin_s = float(part.intended_s[answered][steady.begin]) if steady.begin else begin_s
    return (begin_s, end_s), steady


def judge_generator(
    samples: Samples, window_s: tuple[float, float], ticks: np.ndarray, *, all_busy: int, whole_run: bool
) -> GeneratorShare:
    """How the generator did.

    Args:
        samples: every request.
        window_s: the measured window.
        ticks: float64 (n, 3): t_s, seconds of CPU used, seconds waited for a core, both since its start.
        all_busy: requests that waited for a connection, because no more were allowed.
        whole_run: whether the run went to its end, so that everything ought to have been sent.
    """
    part = samples.between(*window_s)
    sent = ~np.isnan(part.sent_s)
    late_ms = (part.sent_s - part.intended_s)[sent] * 1000
    late_p50, late_p99 = np.quantile(late_ms, (0.5, 0.99)) if len(late_ms) else (math.nan, math.nan)
    inside = ticks[(ticks[:, 0] >= window_s[0]) & (ticks[:, 0] <= window_s[1])]
    cpu = waited = math.nan
    if len(inside) > 1:
        elapsed, used, idle = inside[-1] - inside[0]
        cpu, waited = float(used / elapsed), float(idle / elapsed)
    limited, note = _verdict(samples, part, late_ms, cpu, waited, whole_run=whole_run)
    if all_busy:
        note = f"{note}; " * bool(note) + f"{all_busy} requests waited because all connections were in use"
    return GeneratorShare(float(late_p50), float(late_p99), cpu, waited, limited, note)


def _verdict(
    samples: Samples, part: Samples, late_ms: np.ndarray, cpu: float, waited: float, *, whole_run: bool
) -> tuple[bool, str]:
    limit = "the generator, not the server, is the limit"
    unsent = samples.count(UNSENT)
    if unsent and whole_run:
        return True, f"{limit}: {unsent} of {len(samples)} requests were not sent in time"
    if cpu >= FULL_CORE:
        return True, f"{limit}: it used {cpu:.0%} of its core"
    if cpu >= FULL_CORE / 2 and cpu + waited >= FULL_TIME:
        return True, f"{limit}: it ran for {cpu:.0%} of the time and waited for a free core for the rest"
    answered = part.latency_ms[part.status == OK]
    late_at_most = max(LATE_MS, LATE_SHARE * answered.mean()) if len(answered) else LATE_MS
    if len(late_ms) >= FEWEST and len(answered) and late_ms.mean() > late_at_most:
        late = f"requests went out {late_ms.mean():.2f} ms late on average, of a latency of {answered.mean():.2f} ms"
        cause = f"; the generator waited for a free core for {waited:.0%} of the time" if waited > 0.05 else ""
        return False, late + cause
    return False, ""
