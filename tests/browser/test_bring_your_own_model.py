"""The appendix in a browser, on the course's own model."""

from __future__ import annotations

import pytest

from tests.browser.notebook_page import NotebookPage

RUN_ALL_MS = 240_000  # trains when this test runs alone
ANSWER = "repaired = onnx.load(trap)\nrepaired.graph.node[0].attribute[0].i = 1"


@pytest.fixture(scope="module")
def notebook(pages) -> NotebookPage:
    opened = pages("bring_your_own_model")
    opened.run_all(timeout_ms=RUN_ALL_MS)
    return opened


def test_every_cell_runs_from_the_file_to_the_plot(notebook):
    assert not [text for text in notebook.errors() if "Error" in text]
    notebook.cell("lint").scroll_into_view_if_needed()
    notebook.until(notebook.cell("lint"), "No findings")
    notebook.cell("measure-plot").scroll_into_view_if_needed()
    notebook.until_count(notebook.cell("measure-plot").locator("img"), 1)
    for identity in ("config", "lint", "parity", "measure", "measure-plot", "others"):
        notebook.shot(f"own-{identity}", notebook.cell(identity))


def test_the_graph_is_repaired(notebook):
    notebook.type_into("repaired-stub", ANSWER)
    notebook.run("repaired-stub")
    assert "✓ Right" in notebook.run("repaired-check")
    notebook.shot("own-repaired", notebook.cell("repaired-check"))
