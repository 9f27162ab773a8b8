"""The instructor guide says what the notebooks and the code say."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.docs.test_readme import sources
from tutorial_lib.course import guide
from tutorial_lib.course.numbering import key_of
from tutorial_lib.course.solutions import exercises
from tutorial_lib.errors import NotebookError
from tutorial_lib.paths import NOTEBOOKS, WORKSPACE_VARIABLE
from tutorial_lib.runner import appendices, available

TEXT = guide.GUIDE.read_text()
SLACK_MINUTES = 4  # the first cell rounds to five
TRITONS_OWN = ("unexpected shape for input",)

COURSE = [*available(), *appendices()]
each = pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)


def test_timetable_and_answer_key_are_up_to_date():
    assert guide.renewed(TEXT, COURSE) == TEXT, "run: python -m tutorial_lib.course.guide"


@each
def test_every_heading_has_its_minutes_and_they_add_up_to_what_the_notebook_promises(path):
    notebook = nbformat.read(path, as_version=4)
    headings = [
        line.removeprefix("## ")
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if line.startswith("## ")
    ]
    table = TEXT.partition(f"]({path.name}): about")[2].partition("\n### ")[0].partition("<!--")[0]
    rows = re.findall(r"^\| (.+?) \| (\d+) \| (\d*) ?\|$", table, re.M)
    assert [title for title, _, _ in rows] == headings
    assert sum(int(count or 0) for _, _, count in rows) == len(exercises(notebook))
    total = sum(int(minutes) for _, minutes, _ in rows)
    assert abs(total - guide.stated_minutes(notebook)) <= SLACK_MINUTES, f"say: About {5 * round(total / 5)} minutes"


@each
def test_every_solution_is_in_the_answer_key_under_its_name_in_the_progress_table(path):
    key = TEXT.partition(f"### Answers to {guide.answers_of(path)}\n")[2].partition("\n### ")[0]
    notebook = nbformat.read(path, as_version=4)
    found = exercises(notebook)
    for exercise in found:
        assert f"```python\n{exercise.code}\n```" in key
        assert f"(cell `{notebook.cells[exercise.stub].id}`)" in key
    names = re.findall(r"^\*\*(\S+)\*\*", key, re.M)
    assert len(names) == len(set(names)) == len(found)
    assert all(name.startswith(f"{key_of(path)}-") for name in names)


def test_links_lead_somewhere():
    own = {
        re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", TEXT, re.M)
    }
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", TEXT):
        name, _, anchor = target.partition("#")
        assert (NOTEBOOKS / name).exists() if name else anchor in own, target


def test_what_goes_wrong_quotes_the_code():
    rows = re.findall(r"^\| (.+?) \|", TEXT.partition("## What goes wrong")[2].partition("## Answer key")[0], re.M)
    quoted = [message for row in rows for message in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) >= 5
    for message in quoted:
        assert message.startswith(TRITONS_OWN) or message in sources(), f"no message says {message!r}"


def test_variables_and_options_named_exist():
    assert {WORKSPACE_VARIABLE, "WORKSHOP_PROGRESS"} <= set(re.findall(r"`(WORKSHOP_\w+)`", TEXT))
    for name in (
        *re.findall(r"`(WORKSHOP_\w+)`", TEXT),
        *re.findall(r"(--[a-z][\w-]+)", TEXT.partition("## Answer")[0]),
    ):
        text = sources()
        if name.startswith("--"):  # typer makes --dry-run of dry_run
            assert name in text or f"{name[2:].replace('-', '_')}: Annotated" in text, name
        else:
            assert f'"{name}"' in text, name


def test_a_new_heading_or_exercise_changes_the_table():
    cells = [
        new_markdown_cell("# 01 · A\n\nAbout 10 minutes to read.", id="a"),
        new_markdown_cell("## 1. One\n\n" + "word " * 600, id="b"),
        new_code_cell("x = ...", id="c", metadata={"tags": ["exercise"]}),
        new_markdown_cell("<details>" + "word " * 600, id="d", metadata={"tags": ["solution"]}),
        new_markdown_cell("## Two", id="e"),
    ]
    found = guide.sections(new_notebook(cells=cells))
    assert found == [guide.Section("1. One", 7, 1), guide.Section("Two", 1, 0)]
    assert guide.stated_minutes(new_notebook(cells=cells)) == 10


def test_a_promise_or_a_mark_that_is_missing_is_said():
    with pytest.raises(NotebookError, match="About NN minutes"):
        guide.stated_minutes(new_notebook(cells=[new_markdown_cell("# 01", id="a")]))
    with pytest.raises(NotebookError, match="end of answer key"):
        guide.renewed(TEXT.replace("<!-- end of answer key -->", ""), COURSE)
