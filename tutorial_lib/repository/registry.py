"""The list of lint rules, and how a rule joins it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tutorial_lib.repository.findings import SEVERITIES, Edit

if TYPE_CHECKING:
    from tutorial_lib.repository.view import ModelView, RepositoryView


@dataclass(frozen=True)
class Problem:
    """What a rule reports; the linter adds the rule's own words and the place.

    Attributes:
        subject: the object, such as "input 'image'"; "" for the model itself.
        found: as it stands.
        expected: as it should be.
        fix: the exact edit.
        at: a field of config.pbtxt ("input[0].dims"), or a line number.
        file: relative to the model's folder (the repository's, for a rule about that).
        severity: another than the rule's.
        note: one more sentence.
        model: the folder it is about, for a rule of the repository.
        edits: certain edits of `file`.
        move: a file or folder and its new place, both relative to the repository.
    """

    subject: str
    found: str
    expected: str
    fix: str
    at: str | int = 0
    file: str = "config.pbtxt"
    severity: str = ""
    note: str = ""
    model: str = ""
    edits: tuple[Edit, ...] = ()
    move: tuple[str, str] | None = None


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        check: gives the problems of a model, or of the repository.
        scope: "model", or "repository" for what no single model shows.
    """

    id: str
    severity: str
    why: str
    lesson: str
    scope: str
    check: Callable[[Any], Iterator[Problem]]


RULES: dict[str, Rule] = {}

ModelCheck = Callable[["ModelView"], Iterator[Problem]]
RepositoryCheck = Callable[["RepositoryView"], Iterator[Problem]]


def rule(
    name: str, *, severity: str, why: str, lesson: str, scope: str = "model"
) -> Callable[[ModelCheck | RepositoryCheck], ModelCheck | RepositoryCheck]:
    """Add a function to the rules.

    Args:
        name: the stable id; findings carry it.
        severity: what a problem is, unless it says otherwise.
        why: one sentence on what happens if nothing is changed.
        lesson: notebook and section that teach it, such as "04#fields-question".
    """
    if severity not in SEVERITIES:
        raise ValueError(f"rule {name}: found severity {severity!r}, expected one of {', '.join(SEVERITIES)}.")

    def add(check: ModelCheck | RepositoryCheck) -> ModelCheck | RepositoryCheck:
        if name in RULES:
            raise ValueError(f"rule {name}: it exists already.")
        RULES[name] = Rule(name, severity, why, lesson, scope, check)
        return check

    return add
