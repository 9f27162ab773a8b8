"""The load generator: how fast it is itself, and whether it agrees with perf_analyzer on the same server."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutorial_lib.bench.models import lay_out, make
from tutorial_lib.bench.result import TIE, Result, Target, at_least
from tutorial_lib.cores import on_cores, split_cores
from tutorial_lib.errors import WorkshopError
from tutorial_lib.load import (
    LoadResult,
    PerfReport,
    Poisson,
    fetch_perf_analyzer,
    generator_ceiling,
    run_load,
    run_perf_analyzer,
    triton_target,
)
from tutorial_lib.load.samples import OK
from tutorial_lib.server import serve

CEILING_RPS = 3000.0
# model, protocol, plan: closed loops that fill the server, and an open loop that does not; that one is longer,
# because the p95 of fewer random arrivals says mostly how they fell
CELLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("resnet", "grpc", {"concurrency": 4, "duration_s": 4.0}),
    ("resnet", "http", {"concurrency": 16, "duration_s": 4.0}),
    ("linear", "grpc", {"arrivals": Poisson(300), "duration_s": 12.0}),
)


def run(*, repeats: int, say: Callable[[str], None]) -> Result:
    """The ceiling over gRPC and HTTP, then rounds of both generators in turn."""
    ceilings = {"grpc": [], "http": []}
    for number in range(repeats):
        for protocol, found in ceilings.items():
            found.append(generator_ceiling(protocol))
        say(f"ceiling: round {number + 1} of {repeats}")
    targets = [
        at_least(
            f"ceiling over {protocol}, requests of 64 floats per second",
            [result.throughput_rps for result in found],
            CEILING_RPS,
            note=f"it used {statistics.median(result.generator.cpu_share for result in found):.0%} of a core",
        )
        for protocol, found in ceilings.items()
    ]
    raw: dict[str, Any] = {"ceilings": {name: [r.summary() for r in found] for name, found in ceilings.items()}}
    try:
        say(f"perf_analyzer {fetch_perf_analyzer().version}")
    except WorkshopError as error:
        names = ("answers per second", "p95")
        targets += [
            Target(f"{name} against perf_analyzer", None, TIE, None, at_most=True, note=str(error)) for name in names
        ]
        return Result(targets, raw)
    pairs = _pairs(repeats, say)
    for (model, protocol, _), found in zip(CELLS, pairs, strict=True):
        where = f"{model} over {protocol}, {found[0][0].plan}"
        rates = [ours.throughput_rps / theirs.throughput_rps for ours, theirs in found]
        late = [_p95_from_sending(ours) / theirs.p95_ms for ours, theirs in found]
        targets += [_agreement(f"answers per second, {where}", rates), _agreement(f"p95, {where}", late)]
    raw["pairs"] = [[[ours.summary(), theirs.summary()] for ours, theirs in found] for found in pairs]
    return Result(
        targets,
        raw,
        notes=[
            "Against perf_analyzer the last column is our number over its, less 1; latency from sending, as there.\n"
            + ("The generators have one core, the server the others." if split_cores()[0] else "All share one core.")
        ],
    )


def _pairs(repeats: int, say: Callable[[str], None]) -> list[list[tuple[LoadResult, PerfReport]]]:
    """For each cell the runs of both generators, one pair a round; every other round in the other order.

    The generators have one core and the server the others: perf_analyzer took twice the CPU time for a request (0.17
    against 0.08 ms, 2-core Xeon), and on cores that they share that is taken from the server which is measured.
    """
    ours, theirs = split_cores()
    pairs: list[list[tuple[LoadResult, PerfReport]]] = [[] for _ in CELLS]
    with tempfile.TemporaryDirectory() as place:
        lay_out(Path(place), make(say), sorted({model for model, _, _ in CELLS}), {})
        with serve(Path(place), cores=theirs) as server, on_cores(ours):
            for number in range(repeats):
                for (model, protocol, plan), found in zip(CELLS, pairs, strict=True):
                    target = triton_target(server, model, protocol=protocol)
                    turns: list[Callable[[], Any]] = [
                        lambda target=target, plan=plan: run_load(target, **plan, progress=False),
                        lambda target=target, plan=plan: run_perf_analyzer(target, **plan),
                    ]
                    if number % 2:
                        second, first = turns[1](), turns[0]()
                    else:
                        first, second = turns[0](), turns[1]()
                    found.append((first, second))
                say(f"against perf_analyzer: round {number + 1} of {repeats}")
    return pairs


def _p95_from_sending(result: LoadResult) -> float:
    """p95 in ms as perf_analyzer takes it: its clock starts when it sends, ours when it should have sent."""
    part = result.measured
    answered = part.status == OK
    return float(np.quantile((part.answered_s - part.sent_s)[answered], 0.95) * 1000)


def _agreement(name: str, ratios: Sequence[float]) -> Target:
    """How far the median of the paired ratios is from 1."""
    value = abs(statistics.median(ratios) - 1)
    interval = (min(ratios) - 1, max(ratios) - 1)
    note = "a pair measures minutes of this machine, too: run it again when nothing else runs"
    return Target(f"{name}: difference to perf_analyzer", value, TIE, value <= TIE, interval, at_most=True, note=note)
