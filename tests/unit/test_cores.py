"""Which cores a server may use."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from tutorial_lib import cores
from tutorial_lib.cores import checked_cores, on_cores, split_cores
from tutorial_lib.errors import ServerError
from tutorial_lib.versions import cpu_count


@pytest.fixture
def usable(monkeypatch):
    """Four cores, one of the machine's not among them."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 0, 2, 3})


def test_cores_are_sorted_and_each_counts_once(usable):
    assert checked_cores([3, 0, 3]) == (0, 3)
    assert checked_cores(iter({5})) == (5,)
    assert checked_cores(None) is None


@pytest.mark.parametrize(
    "given", [[], [1], [0, -1], 0, "0", [True], [0.0], [None], [[0]], [0, "2"], range(10**12), itertools.repeat(1)],
    ids=repr,
)  # fmt: skip
def test_what_are_no_cores_of_this_process_is_named(usable, given):
    with pytest.raises(ServerError, match="expected numbers of 0, 2, 3, 5") as caught:
        checked_cores(given)
    assert "cores=[0]" in caught.value.action and len(caught.value.problem) < 200


def test_a_system_that_cannot_say_is_named(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert checked_cores(None) is None
    with pytest.raises(ServerError, match="without CPU affinity"):
        checked_cores([0])


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


def test_a_gateway_gets_one_core_and_triton_the_others(usable, monkeypatch):
    assert split_cores() == ((0,), (2, 3, 5))
    monkeypatch.setattr(cores, "_usable", lambda: [4])
    assert split_cores() == (None, None)
