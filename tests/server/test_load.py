"""Load runs against a real Triton."""

from __future__ import annotations

import numpy as np
import pytest

from tests.server.conftest import wait_until
from tutorial_lib.errors import LoadError, ServerError
from tutorial_lib.load import Every, Poisson, run_load, triton_target

SENT = {"SENT": np.arange(64, dtype=np.float32)[None]}  # (1, 64)


@pytest.mark.parametrize("protocol", ["grpc", "stream", "http"])
def test_every_request_is_answered_and_triton_counts_the_same(shared_server, protocol):
    def count():
        return shared_server.statistics("echo")["inference_stats"]["success"]["count"]

    before = count()
    target = triton_target(shared_server, "echo", SENT, protocol=protocol)
    result = run_load(target, arrivals=Poisson(100), duration_s=60, limit=200, warm_up_s=0, progress=False)
    wait_until(lambda: count() - before >= result.answered)  # Triton counts after it has answered
    counted = count() - before
    assert result.answered == result.requests == len(result.samples) == counted == 200
    assert (result.errors, result.timeouts, result.lost, result.unsent) == (0, 0, 0, 0)
    assert result.server.requests == counted and result.server.failed == 0
    assert result.label == shared_server.label
    # Triton's own time is part of what the client waits
    own = result.server.queue_ms + result.server.compute_infer_ms
    assert 0 < own < result.mean_ms


@pytest.mark.parametrize("protocol", ["grpc", "stream", "http"])
def test_what_triton_refuses_is_an_error_in_its_words(shared_server, protocol):
    wrong = triton_target(shared_server, "echo", {"NOBODY": SENT["SENT"]}, protocol=protocol)
    result = run_load(wrong, arrivals=Every(0.02), duration_s=60, limit=25, warm_up_s=0, progress=False)
    assert result.errors == result.requests == 25 and not result.answered
    assert "NOBODY" in next(iter(result.error_messages))
    assert "no answers" in str(result)


@pytest.mark.parametrize("protocol", ["grpc", "stream", "http"])
def test_large_tensors_pass_both_ways(shared_server, protocol):
    """1.2 MB each: more than one HTTP/2 frame, and more than a window."""
    target = triton_target(shared_server, "echo", {"SENT": np.ones((1, 300_000), np.float32)}, protocol=protocol)
    result = run_load(target, concurrency=3, duration_s=60, limit=9, warm_up_s=0, progress=False)
    assert result.answered == len(result.samples) == 9 and result.lost == 0


def test_inputs_are_made_up_from_the_metadata(shared_server):
    target = triton_target(shared_server, "double", batch=4)
    assert target.inputs["x"].shape == (4, 3) and target.inputs["x"].dtype == np.float32
    result = run_load(target, concurrency=2, duration_s=0.5, warm_up_s=0, progress=False)
    assert result.answered == len(result.samples) > 0
    assert result.server.mean_batch >= 4
    with pytest.raises(LoadError, match=r"input 'SENT': found the shape \[1, -1\].*shapes="):
        triton_target(shared_server, "echo")
    assert triton_target(shared_server, "echo", shapes={"SENT": (2, 5)}).inputs["SENT"].shape == (2, 5)
    with pytest.raises(LoadError, match="no input 'SEND'; it has SENT"):
        triton_target(shared_server, "echo", shapes={"SEND": (2, 5)})


def test_inputs_are_sent_in_turn(shared_server):
    """Two requests, one of them wrong: every second fails."""
    several = [SENT, {"NOBODY": SENT["SENT"]}]
    result = run_load(
        triton_target(shared_server, "echo", several), arrivals=Every(0.02), duration_s=60, limit=20, progress=False
    )
    assert result.samples.status.tolist() == [0, 1] * 10


def test_an_unknown_model_and_protocol_are_refused_before_the_run(shared_server):
    with pytest.raises(ServerError, match="nobody"):
        triton_target(shared_server, "nobody")
    with pytest.raises(LoadError, match="protocol: found 'soap', expected one of grpc, stream, http"):
        triton_target(shared_server, "echo", SENT, protocol="soap")
