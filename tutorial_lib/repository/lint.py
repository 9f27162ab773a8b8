"""Check a model repository before a server does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tutorial_lib.errors import RepositoryError
from tutorial_lib.repository import rules  # noqa: F401 - importing it fills RULES
from tutorial_lib.repository.findings import Finding, Findings
from tutorial_lib.repository.registry import RULES, Problem, Rule, rule
from tutorial_lib.repository.view import ModelView, RepositoryView
from tutorial_lib.versions import RELEASES, target

__all__ = ["RULES", "Problem", "Rule", "lint_repository", "model_findings", "open_repository", "rule"]

Tier = Literal["embedded", "container"]


def lint_repository(
    repository: Path | str, *, tier: Tier = "embedded", gpus: int = 0, release: str | None = None
) -> Findings:
    """Everything the rules find in a model repository; nothing in it is run or changed.

    Args:
        repository: the folder that holds the model folders.
        tier: the server it is for: the one of the PyPI wheel, or the NGC container with all of its backends.
        gpus: how many GPUs that server has.
        release: NGC tag of the Triton it is for, such as "24.10"; `$WORKSHOP_TARGET` or 24.10 by default.

    Raises:
        RepositoryError: there is no such folder, it cannot be read, or the release is not known.
    """
    return Findings(_findings(open_repository(repository, tier=tier, gpus=gpus, release=release)))


def open_repository(
    repository: Path | str, *, tier: Tier = "embedded", gpus: int = 0, release: str | None = None
) -> RepositoryView:
    """The repository as the rules see it; arguments and errors as for `lint_repository`."""
    path = Path(repository).expanduser().resolve()
    if not path.is_dir():
        found = "a file" if path.exists() else "nothing there"
        raise RepositoryError(
            f"model repository {str(repository)!r}: found {found}, expected a folder of model folders.",
            action="Give the folder that holds the model folders.",
        )
    if release is not None and release not in RELEASES:
        raise RepositoryError(f"release: found {release!r}, expected one of {', '.join(RELEASES)}.")
    if tier not in ("embedded", "container"):
        raise RepositoryError(f"tier: found {tier!r}, expected 'embedded' or 'container'.")
    view = RepositoryView(path, tier=tier, gpus=gpus, release=RELEASES[release] if release else target())
    if view.listing.problem:
        raise RepositoryError(
            f"model repository {path}: it cannot be read: {view.listing.problem}.",
            action="Check who owns it, and its permissions.",
        )
    return view


def right_level(view: RepositoryView) -> bool:
    """Whether this is the folder of model folders; in another, whatever else is found is no news."""
    return not any((problem.severity or "error") == "error" for problem in RULES["path-level"].check(view))


def _findings(view: RepositoryView) -> Iterator[Finding]:
    for one in RULES.values():
        if one.scope == "repository":
            yield from [_finding(one, problem, None) for problem in one.check(view)]
            if one.id == "path-level" and not right_level(view):
                return
    # steps before the ensembles that use them, which say when a step is broken
    for model in _steps_first(view):
        found = model_findings(model)
        view.errors[model.name] = tuple(dict.fromkeys(one.rule for one in found if one.severity == "error"))
        yield from found


def model_findings(model: ModelView) -> list[Finding]:
    """What the rules find in one model; two versions with the same fault are one finding."""
    checks = [one for one in RULES.values() if one.scope == "model"]
    return list(dict.fromkeys(_finding(one, problem, model) for one in checks for problem in one.check(model)))


def _steps_first(view: RepositoryView) -> list[ModelView]:
    """All models, each behind the steps that it is made of; where these lead in a circle, in any order."""
    order: dict[str, ModelView] = {}
    seen: set[str] = set()
    waiting = list(reversed(view.models.values()))
    while waiting:
        model = waiting.pop()
        steps = (view.models.get(step.model_name) for step in model.config.ensemble_scheduling.step)
        first = [] if model.name in seen else [step for step in steps if step is not None and step.name not in seen]
        seen.add(model.name)
        if first:
            waiting += [model, *first]
        else:
            order[model.name] = model
    return list(order.values())


def _finding(one: Rule, problem: Problem, model: ModelView | None) -> Finding:
    name = problem.model or (model.name if model else "")
    line = problem.at if isinstance(problem.at, int) else model.source.line(problem.at) if model else 0
    inner = problem.file
    file = f"{model.name}/{inner}".rstrip("/") if model else inner
    subject = ", ".join(part for part in (f"model '{name}'" if name else "", problem.subject) if part) or "repository"
    message = f"{subject}: found {problem.found}; expected {problem.expected}."
    return Finding(
        rule=one.id,
        severity=problem.severity or one.severity,
        model=name,
        file=file,
        line=line,
        message=f"{message} {problem.note}".strip(),
        found=problem.found,
        expected=problem.expected,
        fix=problem.fix,
        why=one.why,
        lesson=one.lesson,
        edits=problem.edits,
        move=problem.move,
    )
