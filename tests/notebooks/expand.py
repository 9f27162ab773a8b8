"""Exercises expanded in place, so that one execution of a notebook tries every answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

INJECTED = "injected"
PLANTED = "planted"
_SOLUTION = re.compile(
    r"\A<details>\s*<summary>Solution</summary>\s*```python\n(?P<code>.*?)\n```\s*</details>\s*\Z", flags=re.S
)


@dataclass(frozen=True)
class Exercise:
    """The three cells of an exercise, by their positions in the notebook.

    Attributes:
        stub: code cell that assigns `...`.
        check: code cell that makes one check call.
        solution: Markdown cell with the solution folded away.
        code: the solution's code.
    """

    stub: int
    check: int
    solution: int
    code: str


def tags(cell: NotebookNode) -> Sequence[str]:
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def exercises(notebook: NotebookNode) -> list[Exercise]:
    """Find the exercises of a notebook.

    Raises:
        ValueError: the cells tagged `exercise`, `check` and `solution` are not one of each, in this
            order, again and again; a tag is on a cell of the wrong type; or a solution is not one
            closed `<details>` with one fenced Python block.
    """
    wanted = {"exercise": "code", "check": "code", "solution": "markdown"}
    found = [(tag, place) for place, cell in enumerate(notebook.cells) for tag in tags(cell) if tag in wanted]
    if [tag for tag, _ in found] != list(wanted) * (len(found) // 3):
        raise ValueError(f"found {[tag for tag, _ in found]}, expected exercise, check, solution, exercise, …")
    for tag, place in found:
        if notebook.cells[place].cell_type != wanted[tag]:
            raise ValueError(f"cell {place + 1}: tagged {tag}, expected a {wanted[tag]} cell")
    places = [place for _, place in found]
    result = []
    for stub, check, solution in zip(places[::3], places[1::3], places[2::3], strict=True):
        match = _SOLUTION.match(notebook.cells[solution].source.strip())
        if not match or "```" in match["code"]:
            raise ValueError(f"cell {solution + 1}: expected one <details> with one fenced Python block")
        result.append(Exercise(stub, check, solution, match["code"]))
    return result


def expand(notebook: NotebookNode, *, variants: Mapping[str, Sequence[str]] | None = None) -> NotebookNode:
    """A copy of the notebook in which every exercise is also answered.

    After each exercise come, for every planted answer, its code and the check again, which must refuse
    it; then the solution's code and the check again, which must pass.

    Args:
        notebook: a notebook as in git.
        variants: the id of a stub cell → wrong answers to plant there.

    Raises:
        ValueError: as `exercises`.
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
