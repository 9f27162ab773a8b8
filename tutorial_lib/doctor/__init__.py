"""The doctor: looks at this machine and environment and says what to mend."""

from __future__ import annotations

from tutorial_lib.doctor.report import CheckResult, Report, Status

__all__ = ["CheckResult", "Report", "Status", "doctor", "run_checks"]


def run_checks() -> list[CheckResult]:
    """Make every check, each on its own: one that breaks becomes a warning, none hangs."""
    from tutorial_lib.doctor.checks import CHECKS

    return [check() for check in CHECKS]


def doctor() -> Report:
    """The report on this machine: print it in a terminal, or let a notebook show it as a table."""
    return Report(run_checks())
