"""What a check is made of."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Sequence

from tutorial_lib.doctor.report import CheckResult, Status

COMMAND_TIMEOUT_S = 10

Verdict = tuple[Status, str] | tuple[Status, str, str]  # status, found, and what to do


def check(name: str) -> Callable[[Callable[[], Verdict]], Callable[[], CheckResult]]:
    """Make a check of a function that returns status, found and fix.

    A check that breaks says so as a warning: the others are worth having all the same.

    Args:
        name: the line's name in the report.
    """

    def decorate(function: Callable[[], Verdict]) -> Callable[[], CheckResult]:
        @functools.wraps(function)
        def run() -> CheckResult:
            try:
                return CheckResult(name, *function())
            except Exception as error:
                return CheckResult(name, Status.WARN, f"could not be checked ({type(error).__name__}: {error})")

        return run

    return decorate


def run(command: Sequence[str]) -> tuple[int, str, str]:
    """Run a short command.

    Returns:
        Its exit code, output and errors; code -1 when it cannot be started or does not end in time.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return -1, "", f"{command[0]} did not answer within {COMMAND_TIMEOUT_S} s"
    except OSError as error:
        return -1, "", f"{command[0]}: {error.strerror or error}"
    return done.returncode, done.stdout, done.stderr
