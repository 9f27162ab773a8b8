"""The exercises of a notebook and their folded solutions: found, written into a copy, collected as a key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from tutorial_lib.errors import NotebookError

# the three cells of an exercise, in this order, by tag and cell type
CELLS = {"exercise": "code", "check": "code", "solution": "markdown"}
_SOLUTION = re.compile(
    r"\A<details>\s*<summary>Solution</summary>\s*```python\n(?P<code>.*?)\n```\s*</details>\s*\Z", flags=re.S
)
_RESTORE = "Put the notebook's own cell back: git diff notebooks shows what changed."


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
        NotebookError: the cells tagged `exercise`, `check` and `solution` are not one of each, in this
            order, again and again; a tag is on a cell of the wrong type; or a solution is not one
            closed `<details>` with one fenced Python block.
    """
    found = [(tag, place) for place, cell in enumerate(notebook.cells) for tag in tags(cell) if tag in CELLS]
    if [tag for tag, _ in found] != list(CELLS) * (len(found) // 3):
        raise NotebookError(
            f"exercises: found cells tagged {', '.join(f'{tag} ({place + 1})' for tag, place in found)}, "
            "expected exercise, check, solution, exercise, …",
            action=_RESTORE,
        )
    for tag, place in found:
        if notebook.cells[place].cell_type != CELLS[tag]:
            raise NotebookError(f"cell {place + 1}: tagged {tag}, expected a {CELLS[tag]} cell.", action=_RESTORE)
    places = [place for _, place in found]
    return [
        Exercise(stub, check, solution, solution_code(notebook.cells[solution].source, cell=solution + 1))
        for stub, check, solution in zip(places[::3], places[1::3], places[2::3], strict=True)
    ]


def solution_code(source: str, *, cell: int) -> str:
    """The code in a solution cell.

    Args:
        source: the Markdown of the cell.
        cell: its number, from 1, for the error.

    Raises:
        NotebookError: it is not one closed `<details>` with one fenced Python block.
    """
    match = _SOLUTION.match(source.strip())
    if not match or "```" in match["code"]:
        raise NotebookError(f"cell {cell}: expected one <details> with one fenced Python block.", action=_RESTORE)
    return match["code"]
