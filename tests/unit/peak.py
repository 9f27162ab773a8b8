"""The most memory a process has held."""

from __future__ import annotations

import subprocess
import sys

from tutorial_lib.paths import CHECKOUT

# getrusage's ru_maxrss of a child begins at its parent's: /proc forgets that with exec
PEAK = """
def peak_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
"""


def run_measured(code: str, *arguments: str) -> str:
    """What a Python of its own prints; `peak_kib()` is there to be called."""
    command = [sys.executable, "-c", PEAK + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
