"""Notebook 07 in a browser: run it, read its pictures, and turn the simulator's knobs."""

from __future__ import annotations

import re

import pytest

from tests.browser.notebook_page import NotebookPage

RUN_ALL_MS = 400_000  # a minute and a half on two idle cores


@pytest.fixture(scope="module")
def notebook(pages) -> NotebookPage:
    opened = pages("07_batch_and_scale_up")
    opened.run_all(RUN_ALL_MS)
    return opened


def test_every_cell_runs_and_every_picture_is_there(notebook):
    assert notebook.errors() == []
    for identity in ("timeline-plot", "delay-plot", "digits-plot", "sweep-best"):
        cell = notebook.cell(identity)
        cell.scroll_into_view_if_needed()
        notebook.until_count(cell.locator(".jp-RenderedImage img"), 1)
        notebook.shot(f"07-{identity}", cell)
    for identity in ("dynamic-configs", "dynamic-on", "timeline-compare", "scale", "sweep-rest", "write"):
        notebook.shot(f"07-{identity}", notebook.cell(identity))


def test_turning_a_knob_changes_the_picture(notebook):
    panel = notebook.cell("panel").locator(".workshop-simulator-panel")
    panel.scroll_into_view_if_needed()
    shown = panel.locator(".workshop-simulation")
    notebook.until(shown, "mean batch")
    notebook.shot("07-panel", panel)
    before = shown.inner_text()
    handle = panel.locator(".noUi-handle").first
    handle.click()
    for _ in range(8):
        notebook.page.keyboard.press("ArrowUp")
    notebook.until(shown, re.compile(r"delay [1-9][\d.]* ms"))
    assert shown.inner_text() != before
    assert shown.locator("img").count() == 1
    notebook.shot("07-panel-delay", panel)


def test_the_panel_reads_in_the_dark(notebook):
    notebook.theme("Dark")
    notebook.shot("07-dark", notebook.cell("panel"))
    notebook.theme("Light")
