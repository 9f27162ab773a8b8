"""The break-it labs in the notebooks are those of the library, with its repairs."""

from __future__ import annotations

import ast

import nbformat
import pytest

from tests.notebooks.expand import assigned, exercises, lab_of
from tutorial_lib.course.fault import Fault, edit_config
from tutorial_lib.course.faults import FAULTS
from tutorial_lib.course.judge import LIMIT
from tutorial_lib.models.names import MODEL_NAME
from tutorial_lib.paths import NOTEBOOKS, REFERENCE_REPOSITORY
from tutorial_lib.repository.config import read_config

each = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


@each
def test_the_notebook_has_the_lab_with_the_reference_repair(fault: Fault):
    (path,) = NOTEBOOKS.glob(f"{fault.notebook}_*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    labs = {
        lab_of(notebook, exercise.stub): exercise.code
        for exercise in exercises(notebook)
        if notebook.cells[exercise.check].source.endswith("fixed()")
    }
    assert labs.get(fault.name) == fault.solution


@each
def test_a_fault_is_complete(fault: Fault):
    assert len(fault.hints) >= 2 and len(fault.wrong) >= 2
    assert len({repair.code for repair in fault.wrong}) == len(fault.wrong)
    for code in (fault.repair, *(repair.code for repair in fault.wrong)):
        ast.parse(code)
        assert "mended" in assigned(code), "the stub assigns `mended`"
    assert all(repair.says for repair in fault.wrong) and fault.symptom and fault.look


def test_a_repair_must_leave_the_limit_of_the_reference():
    assert read_config(REFERENCE_REPOSITORY / MODEL_NAME).max_batch_size == LIMIT


def test_an_edit_that_changes_nothing_is_an_error(tmp_path):
    (tmp_path / "config.pbtxt").write_text("a b b")
    edit_config(tmp_path, ("a", "c"))
    assert (tmp_path / "config.pbtxt").read_text() == "c b b"
    with pytest.raises(ValueError, match="found 'b' 2 times"):
        edit_config(tmp_path, ("b", "c"))
    with pytest.raises(ValueError, match="found 'x' 0 times"):
        edit_config(tmp_path, ("x", "c"))
