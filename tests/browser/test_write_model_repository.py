"""Notebook 04 in a browser: every lab says its words, the linter's table is one, and a lab is mended."""

from __future__ import annotations

import pytest

from tests.browser.notebook_page import NotebookPage
from tutorial_lib.course.faults import FAULTS

RUN_ALL_MS = 240_000  # thirteen loads of a model, and a training when this test runs alone


@pytest.fixture(scope="module")
def notebook(pages) -> NotebookPage:
    opened = pages("04_write_model_repository")
    opened.run_all(timeout_ms=RUN_ALL_MS)
    return opened


def in_view(notebook, identity):
    """A cell, scrolled to: JupyterLab empties those that are far away."""
    cell = notebook.cell(identity)
    cell.scroll_into_view_if_needed()
    return cell


def test_every_cell_runs_and_each_lab_says_what_the_server_says(notebook):
    assert not [text for text in notebook.errors() if "Error" in text]
    for identity in notebook.ids:
        if identity.startswith("lab-") and identity.endswith("-check"):
            notebook.until(in_view(notebook, identity), "Not attempted")
    for name, fault in FAULTS.items():
        if fault.compact:
            shown = in_view(notebook, f"lab-{name.replace('_', '-')}-stub")
            notebook.until(shown, fault.story)
            notebook.until(shown, fault.symptom)
    notebook.shot("04-lab-other-type", notebook.cell("lab-other-type-stub"))


def test_the_findings_are_a_table_with_a_lesson_in_each_row(notebook):
    table = in_view(notebook, "lint")
    notebook.until_count(table.locator("tbody tr"), 4)
    notebook.until(table, "What shape does a client send?")
    notebook.shot("04-lint-table", table)


def test_a_lab_is_mended_in_its_cell(notebook):
    notebook.type_into("lab-missing-comma-stub", FAULTS["missing_comma"].solution)
    notebook.run("lab-missing-comma-stub")
    assert "✓ Right" in notebook.run("lab-missing-comma-check")
    notebook.shot("04-lab-mended", notebook.cell("lab-missing-comma-check"))
