"""What replacing the naive app brings: requests per second at saturation, and p95 under random arrivals.

All on the machine's cores together: the load generator, the app or the gateway, and Triton.
"""

from __future__ import annotations

import base64
import io
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tutorial_lib.bench import in_process
from tutorial_lib.bench.digits import pictures, trained_resnet
from tutorial_lib.bench.models import make
from tutorial_lib.bench.result import Result, at_least
from tutorial_lib.cores import split_cores, usable_cores
from tutorial_lib.datasets import RAW_MAX, load_digits
from tutorial_lib.gateway import start_gateway
from tutorial_lib.load import EndpointTarget, LoadResult, Poisson, run_load, triton_target
from tutorial_lib.load.target import Target as LoadTarget
from tutorial_lib.models.names import CLASSES, INPUT_NAME
from tutorial_lib.models.resnet import IMAGE_SHAPE
from tutorial_lib.naive import start_naive
from tutorial_lib.repository import add_model
from tutorial_lib.server import serve
from tutorial_lib.versions import cpu_count

if TYPE_CHECKING:
    from torch import nn

LEVELS = (16, 64)
MOST_INSTANCES = 8  # a process each
# of Triton directly, instead of 8: 1.09 times the requests/s over gRPC, 1.05 over HTTP (64 users, paired, 2-core Xeon)
MOST_IN_A_RUN = 16
SECONDS = 1.5
# at 80 % of what a server can do its queue forgets slowly: shorter runs say mostly how their arrivals fell
POISSON_SECONDS = 15.0
SHARE = 0.8  # of the naive app's own maximum, for the random arrivals
MODEL = "resnet"
PICTURES = 64
DIRECT = 7  # times the naive app, asked of Triton without a gateway
NAIVE, NAIVE_ONE, GATEWAY = "naive app", "naive app, one PyTorch thread", "gateway + Triton"
MIXED = "gateway + Triton, all cores for both"
DIRECT_GRPC, DIRECT_HTTP = "Triton directly, gRPC", "Triton directly, HTTP"
OTHER_GRPC, OTHER_HTTP = f"{DIRECT_GRPC}, not under SCHED_BATCH", f"{DIRECT_HTTP}, not under SCHED_BATCH"


def network() -> nn.Module:
    """The bench's trained ResNet, for the naive app."""
    return trained_resnet(make().weights)


def run(*, repeats: int, say: Callable[[str], None]) -> Result:
    """Measure the naive app, the gateway and Triton itself in turn.

    The gateway has one core and its Triton the others, with as many instances; measured once more without that.
    Triton without a gateway has an instance for each core, which a host policy keeps there, and runs under SCHED_BATCH;
    measured once more without that.

    Raises:
        ServerError: one of them does not start.
    """
    made = make(say)
    weights = f"{__name__}:network"
    with (
        tempfile.TemporaryDirectory() as place,
        start_naive(weights=weights, labels=CLASSES, side=IMAGE_SHAPE[1], threads=None) as naive,
        start_naive(weights=weights, labels=CLASSES, side=IMAGE_SHAPE[1], threads=1) as naive_one,
    ):
        ours, theirs = split_cores()
        count = min(cpu_count(), MOST_INSTANCES)
        apart, mixed, alone = (Path(place) / name for name in ("apart", "mixed", "alone"))
        add_model(made.onnx, apart, name=MODEL, instances=min(len(theirs), count) if theirs else count)
        add_model(made.onnx, mixed, name=MODEL, instances=count)
        add_model(made.onnx, alone, name=MODEL, max_batch_size=MOST_IN_A_RUN)
        on_each_core = _one_on_each_core(alone / MODEL / "config.pbtxt")
        with (
            serve(apart, cores=theirs) as behind,
            serve(mixed) as shared,
            serve(alone, extra_arguments=on_each_core, sched_batch=True) as server,
            serve(alone, extra_arguments=on_each_core) as other,
            start_gateway(behind, models=[MODEL], cores=ours) as gateway,
            start_gateway(shared, models=[MODEL]) as gateway_mixed,
        ):
            images = load_digits().test_images[:PICTURES]
            bodies = [json.dumps({"image": base64.b64encode(_png(image)).decode()}).encode() for image in images]
            tensors = [{INPUT_NAME: tensor[None]} for tensor in pictures(images)]
            targets: dict[str, LoadTarget] = {
                NAIVE: EndpointTarget(f"{naive.url}/predict", bodies=bodies, label=naive.label),
                NAIVE_ONE: EndpointTarget(f"{naive_one.url}/predict", bodies=bodies, label=naive_one.label),
                GATEWAY: EndpointTarget(
                    f"{gateway.url}/predict", bodies=bodies, label=f"{gateway.label}, {behind.label}"
                ),
                MIXED: EndpointTarget(f"{gateway_mixed.url}/predict", bodies=bodies, label=shared.label),
                DIRECT_GRPC: triton_target(server, MODEL, tensors, protocol="grpc"),
                DIRECT_HTTP: triton_target(server, MODEL, tensors, protocol="http"),
                OTHER_GRPC: triton_target(other, MODEL, tensors, protocol="grpc"),
                OTHER_HTTP: triton_target(other, MODEL, tensors, protocol="http"),
            }
            say(server.label)
            return _measured(targets, lambda: _without_server(made.onnx), repeats, say)


def _one_on_each_core(config: Path) -> list[str]:
    """Give the model an instance for each core; the flags that keep it there, in Triton's words a host policy."""
    cores = usable_cores()[:MOST_INSTANCES]
    groups = ", ".join(f'{{ count: 1 kind: KIND_CPU host_policy: "core{core}" }}' for core in cores)
    config.write_text(f"{config.read_text()}\ninstance_group [ {groups} ]\n")
    kept = [f"--host-policy=core{core},cpu-cores={core}-{core}" for core in cores]
    # gRPC requests that are made anew for each call beyond so many; 8 by default
    return [*kept, f"--grpc-infer-allocation-pool-size={max(LEVELS)}"]


def _without_server(onnx: Path) -> float:
    """Pictures per second that ONNX Runtime alone manages on these cores, by the better arrangement."""
    return max(in_process.images_per_s(onnx, seconds=SECONDS / 3, cores=cpu_count()).values())


def _png(image: np.ndarray) -> bytes:
    """A digit as a 64×64 file, light ink on dark paper."""
    from PIL import Image

    buffer = io.BytesIO()
    picture = Image.fromarray(np.rint(image * 255 / RAW_MAX).astype(np.uint8))
    picture.resize(IMAGE_SHAPE[:0:-1], Image.Resampling.BILINEAR).save(buffer, "PNG")
    return buffer.getvalue()


def _measured(
    targets: dict[str, LoadTarget], ceiling: Callable[[], float], repeats: int, say: Callable[[str], None]
) -> Result:
    most: dict[str, list[float]] = {name: [] for name in targets}
    raw: list[dict] = []
    bare: list[float] = []  # no server can give more
    rates: list[float] = []

    def note(name: str, result: LoadResult) -> LoadResult:
        raw.append({"name": name} | result.summary())
        return result

    def maximum(name: str) -> float:
        return max(
            note(name, run_load(targets[name], concurrency=level, duration_s=SECONDS, progress=False)).throughput_rps
            for level in LEVELS
        )

    for number in range(repeats):
        for name in _in_turn(list(targets), number):
            most[name].append(maximum(name))
        bare.append(ceiling())
        say(f"saturation: round {number + 1} of {repeats}")
    middle = {name: statistics.median(values) for name, values in most.items()}
    p95: dict[str, list[float]] = {NAIVE: [], NAIVE_ONE: [], GATEWAY: [], MIXED: []}
    for number in range(repeats):
        # its maximum of this very minute: the machine drifts, and a little less than 80 % is another question
        rates.append(SHARE * maximum(NAIVE))
        for name in _in_turn(list(p95), number):
            arrivals = Poisson(rates[-1])
            result = run_load(targets[name], arrivals=arrivals, duration_s=POISSON_SECONDS, seed=number, progress=False)
            p95[name].append(note(name, result).p95_ms)
        say(f"{arrivals}: round {number + 1} of {repeats}")

    def ratios(ours: list[float], theirs: list[float]) -> list[float]:
        return [a / b for a, b in zip(ours, theirs, strict=True)]

    shares = f"{cpu_count()} cores carry the load generator, the gateway's Python and the model; see the rows."
    batch_http, batch_grpc = ratios(most[DIRECT_HTTP], most[OTHER_HTTP]), ratios(most[DIRECT_GRPC], most[OTHER_GRPC])
    plain_http, plain_grpc = (statistics.median(ratios(most[name], most[NAIVE])) for name in (OTHER_HTTP, OTHER_GRPC))
    tuned = (
        f"an instance kept on each core, runs of at most {MOST_IN_A_RUN}, a pool of {max(LEVELS)} gRPC requests, and "
        "SCHED_BATCH"
    )
    found = [
        at_least(f"{GATEWAY}: times the naive app's requests/s", ratios(most[GATEWAY], most[NAIVE]), 3, note=shares),
        at_least(
            f"p95 of the naive app over that of {GATEWAY}, Poisson at {SHARE:.0%} of the naive app's maximum",
            ratios(p95[NAIVE], p95[GATEWAY]), 5, note=shares,
        ),
        at_least(f"{DIRECT_HTTP}: times", ratios(most[DIRECT_HTTP], most[NAIVE]), DIRECT, note=f"Triton has {tuned}."),
        at_least(f"{DIRECT_GRPC}: times", ratios(most[DIRECT_GRPC], most[NAIVE]), DIRECT, note=f"Triton has {tuned}."),
    ]  # fmt: skip
    notes = ["requests/s at saturation, median of the rounds (lowest … highest):"]
    notes += [f"  {name}: {middle[name]:.0f} ({min(most[name]):.0f} … {max(most[name]):.0f})" for name in targets]
    notes += [f"p95 in ms, Poisson, {min(rates):.0f} to {max(rates):.0f}/s, {SHARE:.0%} of the naive app's maximum:"]
    notes += [
        f"  {name}: {statistics.median(values):.1f} ({min(values):.1f} … {max(values):.1f})"
        for name, values in p95.items()
    ]
    kind = statistics.median(ratios(most[GATEWAY], most[NAIVE_ONE]))
    kind_p95 = statistics.median(ratios(p95[NAIVE_ONE], p95[GATEWAY]))
    notes += [
        "The naive app is as it is published: PyTorch takes all cores for a picture. With one thread it shares them\n"
        f"better; against that kind: {kind:.1f} times the requests/s, p95 {kind_p95:.1f} times lower."
    ]
    gain, gain_p95 = ratios(most[GATEWAY], most[MIXED]), ratios(p95[GATEWAY], p95[MIXED])
    notes += [
        "With more than one core the gateway has one of its own and its Triton the others. Against both on all cores:\n"
        f"requests/s {_times(gain)}, p95 {_times(gain_p95)}.",
        f"Triton directly is set up for this: {tuned}.\nThe naive app, the gateway and its Triton have none of these. "
        f"SCHED_BATCH gives HTTP {_times(batch_http)}, gRPC {_times(batch_grpc)};\n"
        f"without it Triton is at {plain_http:.2f} times the naive app over HTTP and {plain_grpc:.2f} over gRPC.",
    ]
    above = statistics.median(ratios(bare, most[NAIVE]))
    notes += [
        f"ONNX Runtime alone, without any server: {statistics.median(bare):.0f} pictures/s ({min(bare):.0f} … "
        f"{max(bare):.0f}), {above:.1f} times the naive app:\nthe {DIRECT} times asked of Triton are "
        f"{DIRECT / above:.0%} of that; it gave {middle[DIRECT_HTTP] / statistics.median(bare):.0%} over HTTP and "
        f"{middle[DIRECT_GRPC] / statistics.median(bare):.0%} over gRPC."
    ]
    return Result(found, {"runs": raw, "in_process_images_per_s": bare}, notes)


def _times(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} … {max(ratios):.2f})"


def _in_turn(names: list[str], number: int) -> list[str]:
    """Every other round backwards, so that nobody always follows the same neighbour."""
    return names if number % 2 == 0 else names[::-1]
