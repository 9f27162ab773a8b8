"""Which cores a server may use."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from tutorial_lib import cli_gateway, cores
from tutorial_lib.cores import checked_cores, on_cores, split_cores, under_sched_batch
from tutorial_lib.errors import ServerError
from tutorial_lib.server.options import ServerOptions
from tutorial_lib.versions import cpu_count

OPTIONS = {
    "model": ["m"], "triton": "", "port": None, "scaling": "NONE", "max_in_flight": 8, "max_body_mib": 1.0,
    "max_pixels": 100, "timeout_s": 1.0,
}  # fmt: skip


@pytest.fixture
def usable(monkeypatch):
    """Four cores, one of the machine's not among them."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 0, 2, 3}, raising=False)
    monkeypatch.setattr(cores, "cpu_count", lambda: 4)


def test_cores_are_sorted_and_each_counts_once(usable):
    assert checked_cores([3, 0, 3]) == (0, 3)
    assert checked_cores(iter({5})) == (5,)
    assert checked_cores(np.arange(2, 4)) == (2, 3)
    assert checked_cores(None) is None


@pytest.mark.parametrize(
    "given", [[], [1], [0, -1], 0, "0", [True], [0.0], [None], [[0]], [0, "2"], range(10**12),
     itertools.repeat(1), itertools.repeat(0), [0] * 4096 + ["x"]],
    ids=lambda given: repr(given)[:30],
)  # fmt: skip
def test_what_are_no_cores_of_this_process_is_named(usable, given):
    with pytest.raises(ServerError, match="expected numbers of 0, 2, 3, 5") as caught:
        checked_cores(given)
    assert "cores=[0]" in caught.value.action and len(caught.value.problem) < 200


@pytest.mark.parametrize("given", [(), (-1,), ("0",), "0,1", (True,)], ids=repr)
def test_options_hold_numbers_only(given):
    with pytest.raises(ServerError, match="expected numbers from 0 on"):
        ServerOptions(repositories=(Path("/m"),), cores=given)


def test_a_system_that_cannot_say_is_named(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert checked_cores(None) is None
    with pytest.raises(ServerError, match="without CPU affinity"):
        checked_cores([0])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_children_get_the_cores_and_this_thread_gets_its_own_back():
    before = os.sched_getaffinity(0)
    one = (max(before),)
    with pytest.raises(KeyError), on_cores(one):
        asked = [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"]
        assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split() == [str(*one)]
        assert cpu_count() == 1
        raise KeyError
    with on_cores(None):
        assert os.sched_getaffinity(0) == before
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="this system has no such policy")
def test_children_get_the_policy_and_this_thread_gets_its_own_back():
    before = os.sched_getscheduler(0)
    asked = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0) == os.SCHED_BATCH)"]
    with pytest.raises(KeyError), under_sched_batch(True):
        assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "True\n"
        raise KeyError
    assert os.sched_getscheduler(0) == before
    with under_sched_batch(False):
        assert os.sched_getscheduler(0) == before


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="this system has no such policy")
def test_who_may_not_change_the_policy_or_has_one_of_its_own_is_told(monkeypatch):
    refused = MagicMock(side_effect=PermissionError(1, "not permitted"))
    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with pytest.raises(ServerError, match="may not change its policy: not permitted"), under_sched_batch(True):
        pytest.fail("nothing starts")
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_RR)
    with pytest.raises(ServerError, match="a process under policy 2, expected"), under_sched_batch(True):
        pytest.fail("nothing starts")
    assert refused.call_count == 1


def test_a_system_without_policies_is_told(monkeypatch):
    monkeypatch.delattr(os, "SCHED_BATCH", raising=False)
    with pytest.raises(ServerError, match="sched_batch: found a system without such policies"), under_sched_batch(True):
        pytest.fail("nothing starts")


@pytest.mark.parametrize("given", ["no", 1, None, "batch"], ids=repr)
def test_the_policy_is_wanted_or_not(given):
    with pytest.raises(ServerError, match="sched_batch: found .*, expected True or False"):
        ServerOptions(repositories=(Path("/m"),), sched_batch=given)


def test_a_gateway_gets_one_core_and_triton_the_others(usable, monkeypatch):
    assert split_cores() == ((0,), (2, 3, 5))
    monkeypatch.setattr(cores, "cpu_count", lambda: 2)  # a quota: four cores, and the time of two
    assert split_cores() == ((0,), (2,))
    monkeypatch.setattr(cores, "cpu_count", lambda: 1)
    assert split_cores() == (None, None)


@pytest.fixture
def started(monkeypatch):
    """What `./workshop gateway` starts, and with which cores; it is interrupted at once."""
    seen = {}

    def start(name):
        def stand_in(*_, cores, **__):
            seen[name] = cores
            server = MagicMock(grpc_address="127.0.0.1:9")
            server.__enter__.return_value = server
            return server

        return stand_in

    monkeypatch.setattr("tutorial_lib.server.serve", start("triton"))
    monkeypatch.setattr("tutorial_lib.gateway.start_gateway", start("gateway"))
    monkeypatch.setattr("tutorial_lib.course.catch_up.catch_up", MagicMock())
    monkeypatch.setattr("tutorial_lib.cli._signalled", lambda: nullcontext(lambda _: True))
    return seen


def test_the_command_gives_each_its_own(started, usable, capsys):
    cli_gateway.gateway(**OPTIONS, own_cores=True)
    assert started == {"triton": (2, 3, 5), "gateway": (0,)} and "--own-cores" not in capsys.readouterr().out
    cli_gateway.gateway(**OPTIONS, own_cores=False)
    assert started == {"triton": None, "gateway": None}


def test_the_command_says_where_there_is_nothing_to_share_out(started, usable, monkeypatch, capsys):
    monkeypatch.setattr(cores, "cpu_count", lambda: 1)
    cli_gateway.gateway(**OPTIONS, own_cores=True)
    assert started == {"triton": None, "gateway": None} and "there is one core" in capsys.readouterr().out
    with pytest.raises(ServerError, match="found --triton with it"):
        cli_gateway.gateway(**OPTIONS | {"triton": "127.0.0.1:8001"}, own_cores=True)
