"""Checks of the exercises in notebook 07."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.course.checks import exercise, wrong
from tutorial_lib.errors import ModelLoadError, RepositoryError
from tutorial_lib.load import Poisson
from tutorial_lib.load.target import Target
from tutorial_lib.server import Server
from tutorial_lib.simulate import Batching, Service, simulate
from tutorial_lib.tuning import load_config, loaded_back, measure_load, with_settings

RATE_HZ, DURATION_S = 150, 2.0
ATTEMPTS = 3  # a machine that is busy with something else makes a right setting look slow now and then
MEAN_BATCH, P95_LIMIT_MS = 2.0, 80.0
FIXED_MS = 20  # one at a time that is 49 requests/s, a third of what comes


@exercise(
    "07-capacity",
    hints=[
        "how long does one batch take, and how many requests are answered when it ends?",
        "a batch takes fixed_ms + per_request_ms * batch milliseconds; 1000 ms hold so many of them, of `batch` each.",
    ],
)
def check_capacity(capacity: Callable[[float, float, int], float]) -> str:
    """`capacity` must give the most requests per second that one instance answers in full batches.

    The truth is simulated: twice as many callers as a batch holds, so that there is always a full one.

    Args:
        capacity: (fixed_ms, per_request_ms, batch) → requests/s.

    Raises:
        ExerciseError: it gives another number.
    """
    for fixed_ms, per_request_ms, batch in (
        (500 / 9, 400 / 9, 1),
        (500 / 9, 400 / 9, 10),
        (5.0, 0.2, 8),
        (0.0, 4.0, 16),
    ):
        yours = float(capacity(fixed_ms, per_request_ms, batch))
        run = simulate(Batching(batch), Service(fixed_ms, per_request_ms), callers=2 * batch, duration_s=60)
        if abs(yours - run.throughput_rps) > 0.02 * run.throughput_rps:
            note = ""
            if abs(yours * batch - run.throughput_rps) < 0.02 * run.throughput_rps:
                note = "these are batches per second; each answers `batch` requests."
            elif abs(1000 * yours - run.throughput_rps) < 0.02 * run.throughput_rps:
                note = "these are requests per millisecond."
            told = f"{run.throughput_rps:.1f} requests/s for ({fixed_ms:.3g} ms, {per_request_ms:.3g} ms, {batch})"
            raise wrong(f"{yours:.1f} requests/s", told, note)
    return "you know before any measurement what batches can give, and that without a fixed cost they give nothing."


@exercise(
    "07-setting",
    hints=[
        "one at a time, an instance answers 49 of these in a second, and 150 come: what lets one run answer many?",
        "dynamic batching, and a queue delay no longer than it must be: what waits in the queue is part of the p95.",
        'the simplest that works: setting = {"dynamic": True, "queue_delay_us": 0}.',
    ],
)
def check_setting(setting: Mapping[str, object], server: Server, config: ModelConfig, target: Target) -> str:
    """`setting` must make batches of more than 2 on average under load, with a p95 under the limit.

    The model is loaded with the setting, and so much is sent to it; afterwards it is as before.

    Args:
        setting: as `with_settings` takes it.
        server: the running server.
        config: the configuration of the model with a known cost.
        target: where requests go.

    Raises:
        ExerciseError: it does not, is none, or does not load.
    """
    if not isinstance(setting, Mapping):
        raise wrong(repr(setting), 'a dictionary such as {"instances": 2}')
    if "parameters" in setting:
        raise wrong("parameters", "settings of the batcher and of instances", "the model's own cost is given.")
    try:
        changed = with_settings(
            with_settings(config, parameters={"fixed_ms": FIXED_MS, "per_request_ms": 0.5}), **setting
        )
    except (RepositoryError, TypeError) as error:
        raise wrong(repr(setting), "settings of with_settings", str(error)) from error
    with loaded_back(server, config):
        try:
            load_config(server, changed)
        except ModelLoadError as error:
            raise wrong(repr(setting), "settings that load", error.problem) from error
        for _ in range(ATTEMPTS):
            # its first runs fill caches; they are no part of the load
            found = measure_load(
                server, config.name, target,
                arrivals=Poisson(RATE_HZ), duration_s=DURATION_S, warm_up_s=0.3, timeout_s=5,
            )  # fmt: skip
            in_time = found["p95_ms"] <= P95_LIMIT_MS and not found["errors"]  # nan where nothing was answered
            if in_time or found["mean_batch"] <= MEAN_BATCH:
                break
    yours = f"mean batch {found['mean_batch']}, p95 {found['p95_ms']:.0f} ms"
    expected = f"mean batch above {MEAN_BATCH:g}, p95 of at most {P95_LIMIT_MS:g} ms, at {RATE_HZ} requests/s"
    if found["mean_batch"] <= MEAN_BATCH:
        raise wrong(
            yours, expected, "most requests ran alone: is dynamic batching on, or do instances take them one by one?"
        )
    if not in_time:
        raise wrong(yours, expected, "the batches are there, but a request waits too long for its batch.")
    return f"measured just now: {yours}."


@exercise(
    "07-choose",
    hints=[
        "first keep the rows whose p95 is within the limit, then look for the highest throughput among these.",
        "kept = table[table['p95_ms'] <= p95_limit_ms]; kept['throughput_rps'].idxmax() is the index of the best.",
        "idxmax of an empty table fails: return None if kept.empty.",
    ],
)
def check_choose(choose: Callable[[pd.DataFrame, float], object]) -> str:
    """`choose` must give the index of the fastest row within the limit, and None where there is none.

    Args:
        choose: (table, p95_limit_ms) → an index of the table, or None.

    Raises:
        ExerciseError: it chooses another row.
    """
    table = pd.DataFrame(
        {"throughput_rps": [410.0, 520.0, 505.0, 130.0], "p95_ms": [18.0, 75.0, 40.0, 6.0]}, index=[7, 3, 12, 5]
    )
    for limit_ms, expected in ((50.0, 12), (40.0, 12), (100.0, 3), (20.0, 7), (6.0, 5), (1.0, None)):
        yours = choose(table.copy(), limit_ms)
        if yours is not None and not hasattr(yours, "__index__"):
            raise wrong(repr(yours), "one index of the table, or None", "idxmax gives the index.")
        if yours != expected:
            note = ""
            if yours == 3:
                note = "the highest throughput of all, but its p95 breaks the limit."
            elif yours == 5 and expected is not None:
                note = "the lowest p95; asked is the highest throughput that keeps the limit."
            elif expected == 12 and limit_ms == 40:
                note = "a p95 equal to the limit keeps it: <=."
            elif yours in (0, 1, 2):
                note = "this is a position; the table's index is asked."
            told = "None: no row keeps it" if expected is None else f"{expected} ({table.loc[expected].to_dict()})"
            raise wrong(yours, f"{told} at a limit of {limit_ms:g} ms", note)
    return "the fastest setting that keeps the promise, and no answer where there is none."


WRONG = {
    "check_capacity": [
        (
            "def capacity(fixed_ms, per_request_ms, batch):\n    return 1000 / (fixed_ms + per_request_ms * batch)",
            "each answers `batch` requests",
        ),
        (
            "def capacity(fixed_ms, per_request_ms, batch):\n    return batch / (fixed_ms + per_request_ms * batch)",
            "per millisecond",
        ),
        (
            "def capacity(fixed_ms, per_request_ms, batch):\n    return 1000 * batch / (fixed_ms + per_request_ms)",
            "100.0 requests/s",
        ),
    ],
    "check_setting": [
        ('setting = {"dynamic": False, "instances": 4}', "most requests ran alone"),
        ('setting = {"dynamic": True, "queue_delay_us": 200_000}', "waits too long for its batch"),
        ('setting = {"dynamic": True, "delay": 5}', "no such setting"),
    ],
    "check_choose": [
        ("def choose(table, p95_limit_ms):\n    return table['throughput_rps'].idxmax()", "breaks the limit"),
        ("def choose(table, p95_limit_ms):\n    return table['p95_ms'].idxmin()", "the lowest p95"),
        (
            "def choose(table, p95_limit_ms):\n"
            "    kept = table[table['p95_ms'] <= p95_limit_ms]\n"
            "    return kept['throughput_rps'].idxmax()",
            "your line 3, `return kept",
        ),
    ],
}
