"""Every notebook is built to the same anatomy, and lies in git without a trace of having run."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from tests.notebooks.expand import assigned, exercises, tags
from tutorial_lib.course.numbering import key_of
from tutorial_lib.paths import CHECKOUT, NOTEBOOKS
from tutorial_lib.runner import appendices, available
from tutorial_lib.runner.parameters import check_parameters

PARAMETERS = {"MODE": "quick", "TRITON_URL": "", "REPOSITORY": "", "SEED": 0}
CELLS = range(30, 71)
MOST_CELLS = {"04": 110}  # twelve labs of three small cells each, the second half for another day
WORDS = range(800, 2001)
CODE_LINES = 25

COURSE = [*available(), *appendices()]

pytestmark = pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)


@pytest.fixture
def notebook(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [(number, cell) for number, cell in enumerate(notebook.cells, 1) if cell.cell_type == "code"]


def prose(notebook):
    return "\n".join(
        cell.source for cell in notebook.cells if cell.cell_type == "markdown" and "solution" not in tags(cell)
    )


def test_valid_with_stable_ids_and_nothing_but_a_kernelspec(path, notebook):
    raw = json.loads(path.read_text())
    nbformat.validate(raw)
    assert raw["metadata"].keys() <= {"kernelspec", "language_info"}
    assert raw["metadata"]["kernelspec"]["name"] == "python3"
    identities = [cell["id"] for cell in raw["cells"]]
    assert len(set(identities)) == len(identities)
    assert all(cell["metadata"].keys() <= {"tags"} for cell in raw["cells"])


def test_no_outputs_in_git(notebook):
    for number, cell in code_cells(notebook):
        assert not cell.outputs and cell.execution_count is None, f"cell {number}"


def test_title_neighbours_time_and_hardware_come_first(path, notebook):
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    number = path.name[:2] if path in available() else "Appendix"
    assert first.source.startswith(f"# {number} · ")
    assert "[← " in first.source or path == COURSE[0], "expected a link to the notebook before"
    assert " →](" in first.source or path == available()[-1], "expected a link to the notebook after"
    assert re.search(r"\bminutes?\b", first.source)
    assert re.search(r"\b(CPU|core|GPU)", first.source)


def test_goals_recap_and_size(path, notebook):
    text = prose(notebook)
    assert re.search(r"by the end you can", text, flags=re.I)
    assert notebook.cells[-1].cell_type == "markdown"
    assert len(notebook.cells) in range(CELLS.start, MOST_CELLS.get(key_of(path), CELLS.stop - 1) + 1)
    assert len(text.split()) in WORDS


def test_one_parameters_cell_that_takes_what_the_runner_passes(path, notebook):
    check_parameters(notebook, PARAMETERS, name=path.stem)


def test_code_cells_are_short(notebook):
    long = {
        number: lines for number, cell in code_cells(notebook) if (lines := len(cell.source.splitlines())) > CODE_LINES
    }
    assert not long


def test_exercises_are_complete_and_their_solutions_are_python(notebook):
    found = exercises(notebook)
    assert found, "expected one exercise at least"
    for exercise in found:
        stub, check = notebook.cells[exercise.stub], notebook.cells[exercise.check]
        assert "..." in stub.source
        assert assigned(stub.source) & assigned(exercise.code), "the solution does not answer the stub"
        calls = [statement for statement in ast.parse(check.source).body if not isinstance(statement, ast.ImportFrom)]
        assert len(calls) == 1 and re.match(r"(check_\w+|fixed)\(", ast.unparse(calls[0]))
        told = subprocess.run(
            # names that only the notebook knows are no fault of the solution's
            [sys.executable, "-m", "ruff", "check", "--ignore=F821,W292", "--stdin-filename=solution.py", "-"],
            input=exercise.code,
            capture_output=True,
            text=True,
            cwd=CHECKOUT,
        )
        assert told.returncode == 0, told.stdout + told.stderr


def test_no_later_cell_depends_on_an_exercise(notebook):
    transform = TransformerManager().transform_cell
    for exercise in exercises(notebook):
        names = assigned(notebook.cells[exercise.stub].source)
        for number, cell in code_cells(notebook):
            if number <= exercise.check + 1 or tags(cell):
                continue
            if names & assigned(transform(cell.source)):
                break  # from here on the name is the notebook's own
            used = {node.id for node in ast.walk(ast.parse(transform(cell.source))) if isinstance(node, ast.Name)}
            assert not names & used, f"cell {number} uses {names & used} of cell {exercise.stub + 1}"


def test_links_lead_somewhere(notebook):
    for target in re.findall(r"\]\((?!https?:|#|mailto:|attachment:)([^)#\s]+)", prose(notebook)):
        assert (NOTEBOOKS / target).exists(), target
