"""Exercises expanded in place, so that one execution of a notebook tries every answer, and what came of it."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from tutorial_lib.course import checks_break_it
from tutorial_lib.course.checks import course_exercises
from tutorial_lib.course.faults import FAULTS
from tutorial_lib.course.solutions import Exercise, exercises, tags

__all__ = [
    "INJECTED",
    "PLANTED",
    "Exercise",
    "Planted",
    "assigned",
    "complaints",
    "exercises",
    "expand",
    "lab_of",
    "planted",
    "tags",
]

INJECTED = "injected"
PLANTED = "planted"


@dataclass(frozen=True)
class Planted:
    """A wrong answer kept beside the check that must refuse it.

    Attributes:
        code: a cell to run in place of the stub.
        told: what the error must say about it.
        hint: what it must end with: the exercise's next hint.
    """

    code: str
    told: str
    hint: str


def call(source: str) -> tuple[str, str, list[str]]:
    """Module, function and arguments of a check cell's one call."""
    *imports, last = ast.parse(source).body
    names = {name.name: found.module for found in imports if isinstance(found, ast.ImportFrom) for name in found.names}
    if (
        not isinstance(last, ast.Expr)
        or not isinstance(last.value, ast.Call)
        or ast.unparse(last.value.func) not in names
    ):
        raise ValueError(f"check cell: expected an import and one call of what it imports, found {source!r}")
    function = ast.unparse(last.value.func)
    return names[function], function, [ast.unparse(argument) for argument in last.value.args]


def planted(notebook: NotebookNode) -> dict[str, list[Planted]]:
    """The wrong answers to plant in a notebook, by the id of the stub.

    Of a lab's wrong repairs only the first: each loads a model, and `tests/server/test_break_it.py` tries them all.

    Raises:
        ValueError: a check is not one call; it is not made by `@exercise` or has fewer than two hints; or
            its module's WRONG has fewer than two answers for it.
    """
    hints = {f"{one.check.__module__}.{one.check.__name__}": one.hints for one in course_exercises()}
    found = {}
    for exercise in exercises(notebook):
        stub, check = notebook.cells[exercise.stub], notebook.cells[exercise.check]
        module, function, _ = call(check.source)
        if function == "fixed":
            fault = FAULTS[lab_of(notebook, exercise.stub)]
            module, function = checks_break_it.__name__, f"check_{fault.name}"
        known = hints.get(f"{module}.{function}", ())
        if len(known) < 2:
            raise ValueError(f"{function}: found {len(known)} hints, expected two at least (and @exercise)")
        answers = getattr(importlib.import_module(module), "WRONG", {}).get(function, [])
        if len(answers) < 2:
            raise ValueError(f"{function}: found {len(answers)} planted wrong answers in {module}.WRONG, expected two")
        if module == checks_break_it.__name__:
            answers = answers[:1]
        found[stub.id] = [
            Planted(code, told, f"hint {number} of {len(known)}: {known[number - 1]}")
            for (code, told), number in zip(
                answers, [*range(1, len(known)), *[len(known)] * len(answers)], strict=False
            )
        ]
    return found


def lab_of(notebook: NotebookNode, place: int) -> str:
    """The fault of the nearest `break_it("…")` in a cell or above it.

    Raises:
        ValueError: there is none.
    """
    for cell in reversed(notebook.cells[: place + 1]):
        if cell.cell_type == "code" and (found := re.search(r'break_it\("(\w+)"\)', cell.source)):
            return found[1]
    raise ValueError(f"cell {place + 1}: found no break_it(…) in it or above it")


def expand(notebook: NotebookNode, *, variants: dict[str, Sequence[Planted]] | None = None) -> NotebookNode:
    """A copy of the notebook in which every exercise is also answered.

    After each exercise come, for every planted answer, its code and the check again, which must refuse
    it; then the solution's code and the check again, which must pass.

    Args:
        notebook: a notebook as in git.
        variants: the id of a stub cell → wrong answers to plant there; those of `planted` by default.

    Raises:
        NotebookError: as `exercises`.
        ValueError: as `planted`.
    """
    copy = deepcopy(notebook)
    variants = planted(notebook) if variants is None else variants
    for exercise in reversed(exercises(notebook)):  # from the end: earlier positions stay right
        stub, check = notebook.cells[exercise.stub], notebook.cells[exercise.check]
        added = []
        for number, answer in enumerate(variants.get(stub.id, ())):
            added += [
                _injected(answer.code, f"{stub.id}-planted-{number}"),
                # papermill goes on after an error in a cell with this tag
                _injected(check.source, f"{check.id}-planted-{number}", PLANTED, "raises-exception"),
            ]
        added += [_injected(exercise.code, f"{stub.id}-solved"), _injected(check.source, f"{check.id}-solved")]
        copy.cells[exercise.solution + 1 : exercise.solution + 1] = added
    return copy


def complaints(executed: NotebookNode, notebook: NotebookNode, variants: dict[str, Sequence[Planted]]) -> list[str]:
    """What the checks of an expanded and executed notebook got wrong; empty if nothing.

    Args:
        executed: the executed copy of `expand(notebook, variants=variants)`.
        notebook: the notebook as in git.
        variants: as for `expand`.
    """
    cells = {cell.id: cell for cell in executed.cells if cell.cell_type == "code"}
    found = []

    def expect(fine: bool, what: str, identity: str) -> None:
        if not fine:
            said = f"{printed(cells[identity])}{' '.join(error.evalue for error in errors(cells[identity]))}"
            found.append(f"{identity}: {what}; it said {said!r}")

    for exercise in exercises(notebook):
        stub, check = notebook.cells[exercise.stub].id, notebook.cells[exercise.check].id
        expect("○ Not attempted" in printed(cells[check]), "the stub is not called unattempted", check)
        expect("✓" not in printed(cells[check]) and not errors(cells[check]), "the stub is judged", check)
        for number, answer in enumerate(variants[stub]):
            identity = f"{check}-planted-{number}"
            told = [(error.ename, error.evalue) for error in errors(cells[identity])]
            expect(
                [name for name, _ in told] == ["ExerciseError"],
                f"a wrong answer is not refused: {answer.code}",
                identity,
            )
            for _, text in told:
                expect(answer.told in text, f"the refusal does not say {answer.told!r}", identity)
                expect(text.endswith(answer.hint), f"the refusal does not end with {answer.hint!r}", identity)
            shown = "".join(line for error in errors(cells[identity]) for line in error.traceback)
            expect("Traceback" not in shown and "tutorial_lib/" not in shown, "a traceback of ours", identity)
        expect("✓ Right" in printed(cells[f"{check}-solved"]), "the solution does not pass", f"{check}-solved")
    for identity, cell in cells.items():
        if INJECTED in tags(cell) and PLANTED not in tags(cell):
            expect(not errors(cell), "an answer cannot even be run", identity)
    return found


def printed(cell: NotebookNode) -> str:
    """What a cell printed."""
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def errors(cell: NotebookNode) -> list[NotebookNode]:
    """The errors a cell ended with: none or one."""
    return [output for output in cell.outputs if output.output_type == "error"]


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
