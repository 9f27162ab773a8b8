"""Whose time it was: the server's own, and the generator's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerShare:
    """What Triton itself counted during the measured window; times per request, in milliseconds.

    Attributes:
        requests, failed: requests that ended well, and badly.
        executions: runs of the model; requests / executions is the mean batch of requests.
        mean_batch: inferences per execution (a request may carry several).
        queue_ms, compute_input_ms, compute_infer_ms, compute_output_ms: where the time went.
    """

    requests: int
    failed: int
    executions: int
    mean_batch: float
    queue_ms: float
    compute_input_ms: float
    compute_infer_ms: float
    compute_output_ms: float


@dataclass(frozen=True)
class GeneratorShare:
    """How the generator itself did in the measured window.

    Attributes:
        late_p50_ms, late_p99_ms: how long after the intended time requests were sent.
        cpu_share: of one core, what the generator used.
        core_wait_share: of the time, how long it was ready to run and got no core.
        limited: whether it, not the server, set the result.
        note: why; or how much of the latency is its own delay, if that is much.
    """

    late_p50_ms: float
    late_p99_ms: float
    cpu_share: float
    core_wait_share: float
    limited: bool
    note: str = ""
