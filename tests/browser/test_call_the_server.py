"""Notebook 06 in a browser: run it, draw a digit, unload the model behind the drawing, do an exercise."""

from __future__ import annotations

import pytest

from tests.browser.notebook_page import NotebookPage

ANSWER = """top2 = triton_http.InferRequestedOutput(given["name"], class_count=2)
result = client.infer("densenet_onnx", [as_input(triton_http, x[7:8])], outputs=[top2]).as_numpy(given["name"])[0]
best, second = (float(text.decode().split(":")[0]) for text in result)
margin = best - second"""
ONE = [(row, column) for row in range(8) for column in (3, 4)]  # a vertical stroke


@pytest.fixture(scope="module")
def notebook(pages) -> NotebookPage:
    opened = pages("06_call_the_server")
    opened.run_all()
    return opened


@pytest.fixture(scope="module")
def running(notebook):
    """The notebook with its server started again, and both panels shown anew."""
    for identity in ("start", "metadata", "prediction", "panel"):
        notebook.run(identity)
    return notebook


@pytest.fixture
def drawing(running):
    found = running.cell("prediction").locator(".workshop-prediction-panel")
    found.scroll_into_view_if_needed()
    return found


def test_every_cell_runs(notebook):
    assert notebook.errors() == []
    notebook.widgets_drawn(predict=3)
    notebook.shot("06-all-run")


def test_a_held_out_digit_is_named(running, drawing):
    answer = drawing.locator(".workshop-answer")
    running.until(answer, "%")
    number = drawing.get_by_role("spinbutton")
    number.fill("10")
    number.press("Enter")
    running.until(drawing, "Held-out digit 10, meant as two")
    running.until(answer.locator(".workshop-label").first, "two")
    running.shot("06-picked", drawing)


def test_a_drawn_digit_is_named(running, drawing):
    drawing.get_by_role("button", name="Blank page").click()
    running.until(drawing, "Your drawing")
    for row, column in ONE:
        drawing.get_by_title(f"row {row + 1}, column {column + 1}", exact=True).click()
    running.until(drawing.locator(".workshop-answer .workshop-label").first, "one")
    running.shot("06-drawn", drawing)


def test_unloading_the_model_is_told_in_both_panels(running, drawing):
    panel = running.cell("panel").locator(".workshop-server-panel")
    model = panel.locator(".workshop-model", has_text="densenet_onnx")
    model.get_by_role("button", name="Unload", exact=True).click()
    running.until(model, "UNAVAILABLE")
    drawing.get_by_role("button", name="Ask again").click()
    running.until(drawing.locator(".workshop-message"), "densenet_onnx")
    assert drawing.locator(".workshop-label").count() == 0, "an answer of before stays beside the error"
    running.shot("06-unloaded", drawing)
    model.get_by_role("button", name="Load", exact=True).click()
    running.until(model, "READY")
    drawing.get_by_role("button", name="Ask again").click()
    running.until(drawing.locator(".workshop-answer"), "%")
    running.shot("06-server-panel", panel)


def test_the_exercise_wrong_then_right(running):
    running.type_into("margin-stub", "margin = 0.5")
    running.run("margin-stub")
    refused = running.run("margin-check")
    assert "ExerciseError" in refused and "hint 1" in refused
    running.type_into("margin-stub", ANSWER)
    running.run("margin-stub")
    assert "✓ Right" in running.run("margin-check")
    running.shot("06-exercise-right", running.cell("margin-check"))


def test_dark_theme(running, drawing):
    running.theme("Dark")
    running.shot("06-dark", drawing)
    running.theme("Light")
