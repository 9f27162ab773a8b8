"""Panels in an executed notebook and in its exported page: static HTML, and no trace of a widget."""

from __future__ import annotations

import nbformat
import pytest

from tests.notebooks.small import write
from tutorial_lib.paths import WORKSPACE_VARIABLE
from tutorial_lib.runner import run_notebooks

SOURCES = (
    "from tutorial_lib import serve\n"
    "from tutorial_lib.widgets import prediction_panel, progress_panel, server_panel\n"
    "server = serve(models=['ink_meter'])",
    "server_panel(server)",
    "prediction_panel(server, number=3)",
    "progress_panel()",
    "server.stop()\nserver_panel(server)",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("panels"), "00_panels", *SOURCES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WORKSPACE_VARIABLE, str(tmp_path_factory.mktemp("workspace")))
        return run_notebooks([path], timeout_s=120)


def test_the_page_shows_what_a_learner_would_see(run):
    page = (run.folder / "00_panels.html").read_text()
    assert "Your progress" in page and "extremes" in page
    assert "ink_meter" in page and "● READY" in page.replace("</span>", "")
    assert "Held-out digit 3" in page
    assert "densenet_onnx" in page, "the model is not loaded, and the page says so"
    assert "— stopped" in page
    for trace in ("Loading widget", "state key missing", "widget-view"):
        assert trace not in page


def test_the_executed_copy_has_no_widget_state(run):
    copy = nbformat.read(run.folder / "00_panels.ipynb", as_version=4)
    assert "widgets" not in copy.metadata
    outputs = [output for cell in copy.cells if cell.cell_type == "code" for output in cell.outputs]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert "text/html" in kinds and not any("widget" in kind for kind in kinds)
    assert not [output for output in outputs if output.output_type == "error"]
