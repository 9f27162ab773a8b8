"""The command lines of the processes that run here."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from tutorial_lib.server.command_lines import command_lines


def started():
    return subprocess.Popen(["tail", "-f", os.devnull], stdout=subprocess.DEVNULL)


def test_a_program_is_seen_from_its_first_moment(monkeypatch):
    """One look at the process alone, as soon as it is started: then some have no command line yet."""
    missed = 0
    for _ in range(500):
        with started() as process:
            only = psutil.Process(process.pid)
            only.info = only.as_dict(["pid", "cmdline"])
            monkeypatch.setattr(psutil, "process_iter", lambda _, only=only: [only])
            missed += list(command_lines()) != [(process.pid, ["tail", "-f", os.devnull])]
            process.kill()
    assert not missed


def test_who_has_no_command_line_is_left_out_and_not_waited_for():
    with started() as process:
        assert dict(command_lines())[process.pid] == ["tail", "-f", os.devnull]
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process.pid not in dict(command_lines())  # a zombie until the block ends


def test_this_very_process_is_among_them():
    assert dict(command_lines())[os.getpid()][0] in (sys.executable, psutil.Process().cmdline()[0])
