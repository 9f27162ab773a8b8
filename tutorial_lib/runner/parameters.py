"""Whether the values passed to a notebook will really arrive in it.

papermill only warns when no cell is tagged `parameters` or a name is unknown, and then runs the notebook
with its old values; it accepts a value of another type without a word. Here all of these are errors.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from typing import Any

from nbformat import NotebookNode

from tutorial_lib.errors import NotebookError

TAG = "parameters"


def check_parameters(notebook: NotebookNode, values: Mapping[str, Any], *, name: str) -> None:
    """Refuse to run a notebook that would not see the values as passed.

    Args:
        notebook: the notebook, before anything is injected.
        values: what is to be passed, by parameter name.
        name: how messages call the notebook.

    Raises:
        NotebookError: no cell, or more than one, is tagged `parameters`; a value has an unknown name or
            another type than the default; or the notebook overwrites a value after it has arrived.
    """
    code = [(number, cell) for number, cell in enumerate(notebook.cells, 1) if cell.cell_type == "code"]
    tagged = [(number, cell) for number, cell in code if TAG in cell.metadata.get("tags", [])]
    if not tagged:
        raise _no_tagged_cell(code, values, name)
    if len(tagged) > 1:
        numbers = " and ".join(str(number) for number, _ in tagged)
        raise NotebookError(
            f"notebook {name}: cells {numbers} are tagged `{TAG}`, expected one.",
            action="Values are passed after the first only: put the parameters into one cell.",
        )
    position, cell = tagged[0]
    defaults = _assignments(cell.source)
    for parameter, value in values.items():
        if parameter not in defaults:
            spelt = {known.lower(): known for known in defaults}
            near = difflib.get_close_matches(parameter.lower(), spelt, n=1, cutoff=0.5)
            raise NotebookError(
                f"notebook {name}, cell {position}: no parameter is named {parameter!r}; "
                f"the cell tagged `{TAG}` assigns {', '.join(defaults) or 'nothing'}.",
                action=f"Did you mean {spelt[near[0]]!r}?" if near else f"Assign {parameter} its default there.",
            )
        _check_type(parameter, value, defaults[parameter], where=f"notebook {name}, cell {position}")
    _check_literal(defaults, name=name, position=position)
    for number, later in code:
        if number > position:
            _check_not_overwritten(later.source, values, name=name, number=number)


def _no_tagged_cell(code: list[tuple[int, NotebookNode]], values: Mapping[str, Any], name: str) -> NotebookError:
    """The error for a notebook without a parameters cell; names the cell that should be it."""
    problem = f"notebook {name}: no cell is tagged `{TAG}`, so the values passed would be overwritten unseen."
    found = [(len(values.keys() & _assignments(cell.source).keys()), -number, cell) for number, cell in code]
    shared, number, cell = max(found, key=lambda entry: entry[:2], default=(0, 0, None))
    if not shared:
        return NotebookError(
            problem, action=f"Add a cell that assigns {', '.join(values)} and give it the tag `{TAG}`."
        )
    line = cell.source.strip().splitlines()[0]
    return NotebookError(problem, action=f"Give cell {-number} (`{line}`) the tag `{TAG}`.")


def _assignments(source: str) -> dict[str, ast.expr]:
    """Names that the source assigns at its top level, with the expressions."""
    found: dict[str, ast.expr] = {}
    for statement in _parse(source):
        if isinstance(statement, ast.AnnAssign) and statement.value and isinstance(statement.target, ast.Name):
            found[statement.target.id] = statement.value
        elif isinstance(statement, ast.Assign):
            found |= {target.id: statement.value for target in statement.targets if isinstance(target, ast.Name)}
    return found


def _parse(source: str) -> list[ast.stmt]:
    """The statements of a cell; IPython's own syntax is turned into Python first."""
    from IPython.core.inputtransformer2 import TransformerManager  # here: slow to import

    try:
        return ast.parse(TransformerManager().transform_cell(source)).body
    except SyntaxError:
        return []  # the kernel will show this better, in the cell itself


def _check_type(parameter: str, value: Any, default: ast.expr, *, where: str) -> None:
    """A value must be of its default's type; an int may stand for a float, None for "not given"."""
    try:
        kind = type(ast.literal_eval(default))
    except ValueError:
        return  # an expression: `_check_literal` judges those that depend on other parameters
    if kind is type(None) or type(value) is kind or (kind is float and type(value) is int):
        return
    raise NotebookError(
        f"{where}: parameter {parameter} is {value!r} ({type(value).__name__}), "
        f"its default {ast.unparse(default)} is of type {kind.__name__}.",
        action=f"Pass a value of type {kind.__name__}.",
    )


def _check_literal(defaults: Mapping[str, ast.expr], *, name: str, position: int) -> None:
    """Nothing in the parameters cell may be computed from a parameter: passed values arrive after it."""
    for parameter, expression in defaults.items():
        used = sorted({node.id for node in ast.walk(expression) if isinstance(node, ast.Name)} & defaults.keys())
        if used:
            raise NotebookError(
                f"notebook {name}, cell {position}: {parameter} is computed from {used[0]} inside the cell "
                f"tagged `{TAG}`, before a passed {used[0]} arrives.",
                action=f"Move the line that assigns {parameter} into the next cell.",
            )


def _check_not_overwritten(source: str, values: Mapping[str, Any], *, name: str, number: int) -> None:
    """No later cell may assign a constant to a parameter."""
    for parameter, expression in _assignments(source).items():
        if parameter in values and isinstance(expression, ast.Constant):
            raise NotebookError(
                f"notebook {name}, cell {number}: `{parameter} = {ast.unparse(expression)}` overwrites the "
                f"parameter {parameter}.",
                action="Use another name there, or remove the line.",
            )
