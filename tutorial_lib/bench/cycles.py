"""Does a server give back what a model took? 200 times loaded, asked and unloaded; what is left after each.

The server is started as `serve()` always does, with two malloc arenas. By default glibc opens one for each thread that
asks at a bad moment, up to eight a core, and every load brings new threads: the same memory, spread ever wider, looks
like a leak for hundreds of loads (0.2 MiB per 100 cycles on the machine this was written on).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tutorial_lib.bench.result import Result, Target
from tutorial_lib.errors import ServerError
from tutorial_lib.server import Server, serve
from tutorial_lib.server.footprint import Footprint, footprint

CONFIG = """
backend: "onnxruntime"
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1024 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1024 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
MODELS = 1  # loaded side by side
BLOCKS = 10
T_95 = 2.306  # Student's t for 10 points and a straight line, 8 degrees of freedom, two-sided 95 %
GONE_WITHIN_S = 30.0
UNITS = {"memory_mib": "MiB", "shared_mib": "MiB", "handles": "", "processes": ""}  # what may be left


def run(*, repeats: int, say: Callable[[str], None], cycles: int = 200, settled: int = 50) -> Result:
    """Load, ask and unload until `cycles` models have come and gone, and fit a line to what is left.

    Args:
        repeats: not used: one run is `cycles` measurements.
        say: told how far it is.
        cycles: models loaded and unloaded in all.
        settled: cycles left out first, in which allocators and thread pools grow to their size.
    """
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder)
        names = [f"cycle_{number}" for number in range(MODELS)]
        for name in names:
            write_model(repository / name)
        with serve(repository, models=[]) as server:
            left = []
            for number, found in enumerate(rounds(server, names, cycles // MODELS)):
                left.append(found)
                if number % 20 == 0:
                    done = (number + 1) * MODELS
                    say(f"{done} of {cycles} cycles: {found.memory_mib:.1f} MiB, {found.handles} handles")
    kept = left[settled // MODELS :]
    targets = [trend(name, [getattr(found, name) for found in kept]) for name in UNITS]
    return Result(targets, {"left": [asdict(found) for found in left], "models_side_by_side": MODELS})


def rounds(server: Server, names: Sequence[str], count: int) -> Iterator[Footprint]:
    """Let all models come and go together, `count` times; what is left each time."""
    with ThreadPoolExecutor(len(names)) as pool:
        for _ in range(count):
            list(pool.map(lambda name: cycle(server, name), names))
            yield footprint(server.process.pid, server.region_prefix)


def cycle(server: Server, name: str) -> None:
    """Load a model, get an answer, unload it and wait until it is gone.

    Raises:
        ServerError: it does not answer, or does not go.
    """
    server.load(name)
    health = server.health(name)
    if not health:
        raise ServerError(f"model '{name}': {health.detail}.")
    server.unload(name)
    deadline = time.monotonic() + GONE_WITHIN_S
    while any(item.get("state") != "UNAVAILABLE" for item in server.control.index() if item["name"] == name):
        if time.monotonic() > deadline:
            raise ServerError(f"model '{name}': still not unloaded after {GONE_WITHIN_S:g} s.")
        time.sleep(0.01)


def trend(name: str, values: Sequence[float]) -> Target:
    """Slope per 100 cycles with its 95 % interval; met when the interval does not lie above 0.

    Neighbouring values hang together, which would make an ordinary interval far too narrow; so the line
    goes through the medians of ten blocks.
    """
    blocks = [statistics.median(block) for block in np.array_split(np.asarray(values, float), BLOCKS)]
    x = np.arange(BLOCKS) * len(values) * MODELS / BLOCKS / 100  # hundreds of cycles
    slope, start = np.polyfit(x, blocks, 1)
    residuals = np.asarray(blocks) - (start + slope * x)
    error = float(np.sqrt((residuals**2).sum() / (BLOCKS - 2) / ((x - x.mean()) ** 2).sum()))
    low, high = slope - T_95 * error, slope + T_95 * error
    unit = UNITS[name]
    return Target(
        f"{name.removesuffix('_mib')} left per 100 cycles{', ' * bool(unit)}{unit}",
        round(float(slope), 9),
        0.0,
        bool(low <= 1e-6),
        (round(float(low), 9), round(float(high), 9)),
        at_most=True,
        note="The 95 % interval lies above it: each load leaves something behind.",
    )


def write_model(folder: Path) -> None:
    """A model of 4 MB of weights: x [n, 1024] → y = x·w."""
    weights = np.random.default_rng(0).random((1024, 1024), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1024])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1024])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    (folder / "1").mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "1" / "model.onnx")
    (folder / "config.pbtxt").write_text(CONFIG)
