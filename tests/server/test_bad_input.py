"""Requests of unusual size, and what a server keeps of models that came and went."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from onnx import TensorProto

from tests.server.conformance.channels import ask, said
from tests.server.conformance.row import double, graph, node, numbers
from tutorial_lib.server import serve
from tutorial_lib.server.footprint import footprint

FLOAT = TensorProto.FLOAT
ELEMENTS = 25_000_000  # 100 MB of FP32
CYCLES, SETTLED = 6, 3
GONE_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("bad-input")
    graph([node("ReduceMax", "x", "y", axes=[1], keepdims=1)], [("x", FLOAT, ["n", "t"])], [("y", FLOAT, ["n", 1])])(
        root / "largest"
    )
    double(["n", 3])(root / "double")
    with serve(root) as running:
        yield running


@pytest.mark.parametrize("channel", ["grpc", "http", "shared-memory"])
def test_a_request_of_100_mb(server, channel):
    x = np.zeros((1, ELEMENTS), np.float32)
    x[0, -1] = 7
    assert ask(server, "largest", {"x": x}, ("y",), channel=channel)["y"].tolist() == [[7.0]]
    assert np.array_equal(ask(server, "double", {"x": numbers(1, 3)}, ("y",), channel=channel)["y"], 2 * numbers(1, 3))


def test_100_mb_of_the_wrong_shape_are_refused(server):
    x = np.zeros((ELEMENTS // 3, 3), np.float32)
    assert "batch-size must be <= 4" in said(lambda: ask(server, "double", {"x": x}, ("y",), channel="http"))
    assert server.health("double")


def test_loading_and_unloading_leaves_nothing(server):
    """The short form of `./workshop bench cycles`: handles, regions and processes are those of before."""
    left = []
    for _ in range(CYCLES):
        server.load("double")
        assert server.health("double")
        server.unload("double")
        deadline = time.monotonic() + GONE_WITHIN_S
        while any(item["name"] == "double" and item.get("state") != "UNAVAILABLE" for item in server.control.index()):
            assert time.monotonic() < deadline
            threading.Event().wait(0.02)
        found = footprint(server.process.pid, server.region_prefix)
        left.append((found.handles, found.shared_mib, found.processes))
    assert len(set(left[SETTLED:])) == 1, left


def test_unloading_frees_memory(server):
    """The weights of a model are in its process, which ends, and so is the region its requests went through."""
    ask(server, "largest", {"x": np.zeros((1, ELEMENTS), np.float32)}, ("y",), channel="http")
    assert footprint(server.process.pid, server.region_prefix).shared_mib > 95
    for name in ("largest", "double"):
        server.unload(name)
    deadline = time.monotonic() + GONE_WITHIN_S
    while (now := footprint(server.process.pid, server.region_prefix)).processes or now.shared_mib >= 1:
        assert time.monotonic() < deadline, now
        threading.Event().wait(0.02)
