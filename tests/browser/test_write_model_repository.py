"""Notebook 04 in a browser: the linter's table leads to its lessons, and a lab is mended."""

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


def test_a_finding_leads_to_the_section_that_teaches_it(notebook):
    table = in_view(notebook, "lint")
    notebook.until_count(table.locator("tbody tr"), 4)
    notebook.shot("04-lint-table", table)
    heading = notebook.cell("dims-question").locator("h2")
    table.locator("a", has_text="What shape does a client send?").first.click()
    notebook.page.wait_for_function(
        "node => { const box = node.getBoundingClientRect(); return box.top > 0 && box.bottom < innerHeight; }",
        arg=heading.element_handle(),
    )
    notebook.shot("04-lesson")


def test_a_lab_is_mended_in_its_cell(notebook):
    notebook.type_into("lab-missing-comma-stub", FAULTS["missing_comma"].solution)
    notebook.run("lab-missing-comma-stub")
    assert "✓ Right" in notebook.run("lab-missing-comma-check")
    notebook.shot("04-lab-mended", notebook.cell("lab-missing-comma-check"))
