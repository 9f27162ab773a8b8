"""Notebook 00 in a browser: run it, use its panels, do its exercise."""

from __future__ import annotations

import pytest

from tests.browser.notebook_page import NotebookPage

ANSWER = """pages = np.stack([np.zeros((8, 8)), np.full((8, 8), 16)]).astype(np.float32)
both = triton_http.InferInput("image", list(pages.shape), "FP32")
both.set_data_from_numpy(pages)
extremes = client.infer("ink_meter", [both]).as_numpy("ink")"""


@pytest.fixture(scope="module")
def notebook(pages) -> NotebookPage:
    opened = pages("00_start_here")
    opened.run_all()
    return opened


@pytest.fixture
def panel(notebook):
    found = notebook.cell("panel").locator(".workshop-server-panel")
    found.scroll_into_view_if_needed()
    return found


def test_every_cell_runs_and_widgets_are_alive(notebook):
    assert notebook.errors() == []
    assert "Not attempted" in notebook.cell("exercise-check").text_content()
    notebook.widgets_drawn(**{"predict": 2, "progress-panel": 1})
    notebook.shot("00-all-run")


def test_the_panel_saw_the_server_stop_and_starts_it_again(notebook, panel):
    notebook.until(panel, "stopped")
    panel.get_by_role("button", name="Start").click()
    notebook.until(panel.locator(".workshop-model", has_text="ink_meter"), "READY")
    notebook.until(panel.locator(".workshop-log"), "Started HTTPService")
    notebook.shot("00-server-panel", panel)


def test_unload_and_load_are_seen(notebook, panel):
    model = panel.locator(".workshop-model", has_text="ink_meter")
    model.get_by_role("button", name="Unload", exact=True).click()
    notebook.until(model, "UNAVAILABLE")
    notebook.shot("00-model-unloaded", panel)
    model.get_by_role("button", name="Load", exact=True).click()
    notebook.until(model, "READY")
    notebook.until(panel.locator(".workshop-log"), "successfully loaded 'ink_meter'")
    model.get_by_role("button", name="Check").click()
    notebook.until(panel.locator(".workshop-message"), "ink_meter answers.")


def test_a_model_that_cannot_load_says_why(notebook, panel, copies):
    folder = copies.parent / "workspace" / "model_repository" / "without_a_backend"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text('backend: "no_such_backend"\n')
    model = panel.locator(".workshop-model", has_text="without_a_backend")
    model.get_by_role("button", name="Load", exact=True).click()
    notebook.until(panel.locator(".workshop-message"), "refused to load")
    notebook.until(panel.locator(".workshop-message"), "no_such_backend")
    notebook.until(panel.locator(".workshop-model", has_text="ink_meter"), "READY")
    notebook.shot("00-load-refused", panel)


def test_a_guess_is_held_against_the_measurement(notebook):
    question = notebook.cell("speed-predict").locator(".workshop-predict")
    question.locator("input").fill("0.01")
    question.locator("input").press("Enter")
    notebook.until(question, "Noted")
    said = notebook.run("speed-reveal")
    assert "You said 0.01 ms" in said
    notebook.shot("00-guess", notebook.cell("speed-reveal"))


def test_an_error_is_seen_by_these_tests(notebook):
    notebook.type_into("stop", "1 / 0")
    notebook.run("stop")
    assert "ZeroDivisionError" in notebook.errors()[0]
    notebook.type_into("stop", notebook.sources["stop"])
    notebook.run("stop")


def test_the_exercise_wrong_then_right(notebook, panel):
    for again in ("serve", "client"):  # the notebook's last section has stopped the server
        notebook.run(again)
    notebook.type_into("exercise-stub", "extremes = np.array([[1.0], [0.0]])")
    notebook.run("exercise-stub")
    refused = notebook.run("exercise-check")
    assert "ExerciseError" in refused and "expected" in refused and "hint 1" in refused
    notebook.shot("00-exercise-wrong", notebook.cell("exercise-check"))
    notebook.type_into("exercise-stub", ANSWER)
    notebook.run("exercise-stub")
    assert "✓ Right" in notebook.run("exercise-check")
    progress = notebook.cell("progress").locator(".workshop-progress-panel")
    progress.get_by_role("button", name="Refresh").click()
    notebook.until(progress.locator("tr", has_text="extremes"), "right")
    notebook.shot("00-progress", progress)


def test_dark_theme(notebook, panel):
    notebook.theme("Dark")
    panel.scroll_into_view_if_needed()
    notebook.shot("00-dark")
    notebook.theme("Light")
