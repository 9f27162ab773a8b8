"""Exercises expanded in place, so that one execution of a notebook tries every answer."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from copy import deepcopy

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from tutorial_lib.course.solutions import Exercise, exercises, tags

__all__ = ["INJECTED", "PLANTED", "Exercise", "assigned", "exercises", "expand", "tags"]

INJECTED = "injected"
PLANTED = "planted"


def expand(notebook: NotebookNode, *, variants: Mapping[str, Sequence[str]] | None = None) -> NotebookNode:
    """A copy of the notebook in which every exercise is also answered.

    After each exercise come, for every planted answer, its code and the check again, which must refuse
    it; then the solution's code and the check again, which must pass.

    Args:
        notebook: a notebook as in git.
        variants: the id of a stub cell → wrong answers to plant there.

    Raises:
        NotebookError: as `exercises`.
    """
    copy = deepcopy(notebook)
    for exercise in reversed(exercises(notebook)):  # from the end: earlier positions stay right
        stub, check = notebook.cells[exercise.stub], notebook.cells[exercise.check]
        added = []
        for number, answer in enumerate((variants or {}).get(stub.id, ())):
            added += [
                _injected(answer, f"{stub.id}-planted-{number}"),
                # papermill goes on after an error in a cell with this tag
                _injected(check.source, f"{check.id}-planted-{number}", PLANTED, "raises-exception"),
            ]
        added += [_injected(exercise.code, f"{stub.id}-solved"), _injected(check.source, f"{check.id}-solved")]
        copy.cells[exercise.solution + 1 : exercise.solution + 1] = added
    return copy


def _injected(source: str, identity: str, *more_tags: str) -> NotebookNode:
    return new_code_cell(source, id=identity[-64:], metadata={"tags": [INJECTED, *more_tags]})


def assigned(source: str) -> set[str]:
    """Names that a cell assigns or defines at its top level."""
    names: set[str] = set()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names |= {
                node.id
                for target in targets
                for node in ast.walk(target)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
    return names
