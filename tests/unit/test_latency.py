from __future__ import annotations

import threading

import numpy as np
import pytest

from tutorial_lib.export.latency import latency_table, latency_under_callers


def test_table_measures_what_the_engines_take_and_takes_turns():
    turns = []

    def engine(name, seconds):
        def run(batch):
            turns.append((name, len(batch)))
            threading.Event().wait(seconds)

        return run

    engines = {"slow": engine("slow", 0.008), "fast": engine("fast", 0.002)}
    table = latency_table(engines, np.zeros((4, 1)), batches=(1, 4), rounds=5, progress=False)
    slow = table.query("engine == 'slow' and batch == 4").iloc[0]
    assert 8 <= slow["median_ms"] < 3000 and slow["p95_ms"] >= slow["median_ms"]
    assert slow["images_per_s"] == pytest.approx(4000 / slow["median_ms"])
    assert turns[:4] == [("slow", 1), ("fast", 1), ("slow", 4), ("fast", 4)]


def test_too_few_images():
    with pytest.raises(ValueError, match="at least 8"):
        latency_table({"x": len}, np.zeros((4, 1)), batches=(8,), progress=False)


def test_callers_really_call_at_the_same_time():
    together, inside, lock, all_there = [], set(), threading.Lock(), threading.Barrier(4, timeout=60)

    def call():
        me = threading.get_ident()
        with lock:
            inside.add(me)
            together.append(len(inside))
        all_there.wait()
        threading.Event().wait(0.01)
        with lock:
            inside.discard(me)

    latencies = latency_under_callers(call, callers=4, calls=12)
    assert len(latencies) == 12 and max(together) == 4 and latencies.min() >= 9


def test_an_error_of_a_caller_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        latency_under_callers(lambda: 1 / 0, callers=2, calls=4)
