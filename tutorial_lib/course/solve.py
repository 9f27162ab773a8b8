"""`./workshop solve 06`: a copy of a notebook in which every exercise is answered."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tutorial_lib.course.solutions import exercises
from tutorial_lib.errors import NotebookError
from tutorial_lib.paths import NOTEBOOKS, atomic_write, real_path, workspace
from tutorial_lib.runner.selection import select

FOLDER = "solved"
NOTE = "solved-note"
_LINK = re.compile(r"\]\((?!https?:|#|mailto:|attachment:|/)([^)\s]+)")


@dataclass(frozen=True)
class Solved:
    """A solved copy.

    Attributes:
        path: the copy.
        cells: ids of the cells that hold a solution instead of a stub.
        written: False when the very same copy was there already.
    """

    path: Path
    cells: Sequence[str]
    written: bool


def solve(word: str, *, output: Path | None = None, replace: bool = False, folder: Path = NOTEBOOKS) -> Solved:
    """Write a copy of a notebook with each exercise's stub replaced by its solution.

    What the learner changed in other cells is in the copy, too; the notebook itself is only read.

    Args:
        word: number or name of the notebook, as for `./workshop run`.
        output: the copy, or a folder for it; by default `solved/` in the workspace.
        replace: overwrite another file that is there.
        folder: where the notebooks are.

    Raises:
        NotebookError: there is no such notebook; it cannot be read; an exercise lacks a cell; or the
            output is a notebook of the course, another file that is there, or cannot be written.
    """
    (source,) = select([word], folder=folder)
    notebook = read_notebook(source)
    try:
        found = exercises(notebook)
    except NotebookError as error:
        raise NotebookError(f"notebook {source.stem!r}: {error.problem}", action=error.action) from error
    if not found:
        raise NotebookError(f"notebook {source.stem!r}: found no exercise in it, expected one at least.")
    path = _output(output, source, folder)
    text = nbformat.writes(solved_copy(notebook, name=source.name, home=path.parent)) + "\n"
    cells = tuple(notebook.cells[exercise.stub].id for exercise in found)
    try:
        there = path.read_text() if path.exists() else None
        if there == text:
            return Solved(path, cells, written=False)
        if there is not None and not replace:
            raise NotebookError(
                f"file {path}: it is there already and differs (executed or edited?), expected none.",
                action="Name another --output, or replace it with --force.",
            )
        with atomic_write(path) as temporary:
            temporary.write_text(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotebookError(
            f"file {path}: the copy cannot be written ({reason}).", action="Name another --output."
        ) from error
    return Solved(path, cells, written=True)


def read_notebook(path: Path) -> NotebookNode:
    """Read a notebook.

    Raises:
        NotebookError: it is not there, or not a notebook.
    """
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise NotebookError(
            f"notebook {path.stem!r}: it cannot be read: {reason[:200]}.",
            action=f"Set it aside, then bring back the course's own: git checkout -- notebooks/{path.name}.",
        ) from error


def solved_copy(notebook: NotebookNode, *, name: str, home: Path) -> NotebookNode:
    """The notebook with solutions in place of stubs, a note after the title, and links that still lead there.

    Args:
        notebook: as read; it is left as it is.
        name: the notebook's file name, for the note.
        home: the folder the copy will be in.
    """
    copy = deepcopy(notebook)
    found = exercises(notebook)
    for exercise in found:
        stub = copy.cells[exercise.stub]
        stub.source = f"# Solution, put here by ./workshop solve\n{exercise.code}"
    for cell in copy.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        elif cell.cell_type == "markdown" and home != NOTEBOOKS:
            cell.source = _LINK.sub(lambda match: f"]({_from(home, match[1])}", cell.source)
    stubs = ", ".join(f"`{notebook.cells[exercise.stub].id}`" for exercise in found)
    several = "cells were replaced by their solutions" if len(found) > 1 else "cell was replaced by its solution"
    note = (
        f"**Solved copy** of `{name}`: {len(found)} exercise {several} ({stubs}). "
        "Your own notebook is as you left it. Nothing has been executed here."
    )
    copy.cells.insert(1, new_markdown_cell(note, id=NOTE))
    return copy


def _from(home: Path, target: str) -> str:
    """A link relative to the notebooks folder, as seen from `home`."""
    path, mark, anchor = target.partition("#")
    return os.path.relpath(NOTEBOOKS / path, home).replace(os.sep, "/") + mark + anchor


def _output(output: Path | None, source: Path, folder: Path) -> Path:
    """Where the copy goes; never among the learner's notebooks."""
    if output is None:
        return workspace().root / FOLDER / source.name
    path = real_path(output, "output", error=NotebookError)
    if path.is_dir():
        path = path / source.name
    if path.suffix != ".ipynb":
        raise NotebookError(
            f"output {str(output)!r}: expected a name that ends in .ipynb, or a folder that is there.",
            action=f"Write {path.with_suffix('.ipynb').name!r}, or leave --output out.",
        )
    inside = [home for home in (folder.resolve(), NOTEBOOKS) if path.is_relative_to(home)]
    if inside:
        raise NotebookError(
            f"output {path}: it lies among the notebooks of the course, which stay as you left them.",
            action=f"Name another folder, such as {Path(tempfile.gettempdir())}, or leave --output out.",
        )
    return path
