"""The checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable

from tutorial_lib.doctor.report import CheckResult

CHECKS: tuple[Callable[[], CheckResult], ...] = ()
