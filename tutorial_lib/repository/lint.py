"""Check a model repository before a server does."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tutorial_lib.repository import rules  # noqa: F401 - importing it fills RULES
from tutorial_lib.repository.findings import Findings
from tutorial_lib.repository.registry import RULES, Problem, Rule, rule

__all__ = ["RULES", "Problem", "Rule", "lint_repository", "rule"]

Tier = Literal["embedded", "container"]


def lint_repository(
    repository: Path | str, *, tier: Tier = "embedded", gpus: int = 0, release: str | None = None
) -> Findings:
    """Everything the rules find in a model repository."""
    return Findings()
