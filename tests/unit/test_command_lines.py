"""The command lines of the processes that run here."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from unittest.mock import MagicMock

import psutil
import pytest

from tutorial_lib.server import command_lines as module
from tutorial_lib.server.command_lines import command_lines

LINE = ["tail", "-f", os.devnull]


@contextmanager
def started():
    with subprocess.Popen(LINE, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def only(monkeypatch):
    """Makes one process the only one, as psutil shows it in the first look."""

    def show(process, first):
        process.info = {"pid": process.pid, "cmdline": first}
        monkeypatch.setattr(psutil, "process_iter", lambda _: [process])
        return process

    return show


def test_programs_are_seen_from_their_first_moment(only):
    """One look at each alone, as soon as it is started: then some have no command line yet."""
    for _ in range(300):
        with started() as process:
            newborn = psutil.Process(process.pid)
            only(newborn, newborn.cmdline())
            assert list(command_lines()) == [(process.pid, LINE)]


def test_a_program_without_a_line_is_asked_again(only):
    newborn = only(MagicMock(pid=7, **{"exe.return_value": "/bin/x", "cmdline.side_effect": [[], [], ["x"]]}), [])
    assert list(command_lines()) == [(7, ["x"])] and newborn.cmdline.call_count == 3


def test_one_that_never_has_a_line_is_not_waited_for_for_ever(only, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    wordless = only(MagicMock(pid=7, **{"exe.return_value": "/bin/x", "cmdline.return_value": []}), [])
    assert list(command_lines()) == [] and wordless.cmdline.called


@pytest.mark.parametrize("first", [[], None], ids=["thread", "zombie"])
def test_kernel_threads_and_zombies_are_not_asked_again(only, first):
    other = only(MagicMock(pid=7, **{"exe.return_value": ""}), first)
    assert list(command_lines()) == [] and not other.cmdline.called


@pytest.mark.parametrize(
    "error", [psutil.NoSuchProcess(7), psutil.AccessDenied(7)], ids=lambda error: type(error).__name__
)
def test_one_that_ends_meanwhile_or_is_another_users_is_left_out(only, error):
    only(MagicMock(pid=7, **{"exe.side_effect": error}), [])
    assert list(command_lines()) == []


def test_processes_of_this_machine_are_among_them_until_they_end():
    with started() as process:
        assert dict(command_lines())[process.pid] == LINE
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process.pid not in dict(command_lines())  # a zombie until the block ends
