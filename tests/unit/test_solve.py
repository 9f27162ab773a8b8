"""`./workshop solve`: a solved copy, and never a change to the learner's notebook."""

from __future__ import annotations

import hashlib
import os
import re
import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from typer.testing import CliRunner

from tutorial_lib import cli
from tutorial_lib.course.numbering import key_of
from tutorial_lib.course.solutions import exercises
from tutorial_lib.course.solve import NOTE, solve
from tutorial_lib.errors import NotebookError
from tutorial_lib.paths import NOTEBOOKS, WORKSPACE_VARIABLE, workspace
from tutorial_lib.runner import appendices, available

SOLUTION = "<details>\n<summary>Solution</summary>\n\n```python\nanswer = 42\n```\n\n</details>"


@pytest.fixture(autouse=True)
def space(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    return workspace()


def tagged(make, source, tag):
    return make(source, id=tag, metadata={"tags": [tag]})


@pytest.fixture
def folder(tmp_path):
    """Notebooks of a course, one of them with an exercise that a learner has answered wrongly."""
    home = tmp_path / "notebooks"
    home.mkdir()
    cells = [
        new_markdown_cell("# 01 · Ask\n\n[next](02_tell.ipynb)", id="title"),
        new_code_cell("note = 'mine'", id="mine", execution_count=3),
        tagged(new_code_cell, "answer = 41", "exercise"),
        tagged(new_code_cell, "check_answer(answer)", "check"),
        tagged(new_markdown_cell, SOLUTION, "solution"),
    ]
    nbformat.write(new_notebook(cells=cells), home / "01_ask.ipynb")
    nbformat.write(new_notebook(cells=[new_markdown_cell("# 02", id="title")]), home / "02_tell.ipynb")
    return home


def change(folder, index, **fields):
    path = folder / "01_ask.ipynb"
    notebook = nbformat.read(path, as_version=4)
    if fields:
        notebook.cells[index].update(fields)
    else:
        del notebook.cells[index]
    nbformat.write(notebook, path)


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_the_copy_is_solved_and_the_notebook_as_it_was(folder, space):
    before = digests(folder)
    solved = solve("01", folder=folder)
    assert digests(folder) == before
    assert solved.path == space.root / "solved" / "01_ask.ipynb"
    assert solved.written and solved.cells == ("exercise",)
    copy = nbformat.read(solved.path, as_version=4)
    nbformat.validate(copy)
    assert [cell.id for cell in copy.cells] == ["title", NOTE, "mine", "exercise", "check", "solution"]
    assert copy.cells[3].source.endswith("\nanswer = 42")
    assert copy.cells[2].source == "note = 'mine'" and copy.cells[2].execution_count is None
    assert "Solved copy" in copy.cells[1].source


@pytest.mark.parametrize("path", [*available(), *appendices()], ids=lambda path: path.stem)
def test_every_notebook_of_the_course_can_be_solved(path):
    before = digests(NOTEBOOKS)
    solved = solve(key_of(path))
    assert digests(NOTEBOOKS) == before
    copy, own = nbformat.read(solved.path, as_version=4), nbformat.read(path, as_version=4)
    nbformat.validate(copy)
    stubs = {own.cells[exercise.stub].id: exercise.code for exercise in exercises(own)}
    assert tuple(stubs) == solved.cells
    for cell in copy.cells:
        if cell.id in stubs:
            assert cell.source.endswith(stubs[cell.id]) and "..." not in cell.source
    prose = "\n".join(cell.source for cell in copy.cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\((?!https?:|#|mailto:|attachment:)([^)#\s]+)", prose):
        assert os.path.exists(solved.path.parent / target), target


def test_the_same_again_writes_nothing(folder):
    first = solve("01", folder=folder)
    stamp = first.path.stat().st_mtime_ns
    assert not solve("01", folder=folder).written
    assert first.path.stat().st_mtime_ns == stamp


def test_a_copy_that_was_worked_on_is_replaced_only_on_demand(folder):
    path = solve("01", folder=folder).path
    path.write_text(path.read_text().replace("note = 'mine'", "note = 'changed'"))
    changed = path.read_text()
    with pytest.raises(NotebookError, match="it is there already and differs"):
        solve("01", folder=folder)
    assert path.read_text() == changed
    assert solve("01", folder=folder, replace=True).written
    assert "changed" not in path.read_text()


@pytest.mark.parametrize("name", ["01_ask.ipynb", "new.ipynb", ".", "sub/../01_ask.ipynb"])
@pytest.mark.parametrize("replace", [False, True])
def test_never_over_or_among_the_learners_notebooks(folder, name, replace):
    (folder / "sub").mkdir()
    before = {path: path.read_bytes() for path in folder.glob("*.ipynb")}
    with pytest.raises(NotebookError, match="among the notebooks of the course"):
        solve("01", output=folder / name, replace=replace, folder=folder)
    assert {path: path.read_bytes() for path in folder.glob("*.ipynb")} == before


def test_not_over_a_notebook_that_a_link_hides(folder, tmp_path):
    link = tmp_path / "innocent.ipynb"
    link.symlink_to(folder / "01_ask.ipynb")
    before = digests(folder)
    with pytest.raises(NotebookError, match="among the notebooks of the course"):
        solve("01", output=link, replace=True, folder=folder)
    assert digests(folder) == before


@pytest.mark.parametrize("word", ["ask", "1", "01_ask.ipynb"])
def test_output_may_be_a_file_or_a_folder(folder, tmp_path, word):
    assert solve(word, output=tmp_path / "mine.ipynb", folder=folder).path == tmp_path / "mine.ipynb"
    (tmp_path / "copies").mkdir()
    assert solve(word, output=tmp_path / "copies", folder=folder).path == tmp_path / "copies" / "01_ask.ipynb"
    with pytest.raises(NotebookError, match=r"expected a name that ends in \.ipynb"):
        solve(word, output=tmp_path / "copy.txt", folder=folder)


def test_an_output_that_cannot_be_written_says_why(folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotebookError, match="the copy cannot be written"):
        solve("01", output=tmp_path / "file" / "copy.ipynb", folder=folder)


@pytest.mark.parametrize(("word", "nearest"), [("aks", "01_ask"), ("tel_", "02_tell"), ("07", "02_tell")])
def test_an_unknown_notebook_suggests_the_nearest(folder, word, nearest):
    with pytest.raises(NotebookError, match=f"Did you mean '{nearest}'"):
        solve(word, folder=folder)


@pytest.mark.parametrize(
    ("index", "fields", "told"),
    [
        (4, {}, r"found cells tagged exercise \(3\), check \(4\), expected"),
        (3, {}, r"found cells tagged exercise \(3\), solution \(4\), expected"),
        (4, {"source": "<details>nothing</details>"}, "expected one <details> with one fenced Python block"),
        (4, {"metadata": {}}, "expected exercise, check, solution"),
    ],
    ids=["solution deleted", "check deleted", "solution without code", "tag removed"],
)
def test_an_exercise_that_lacks_a_cell_is_named_and_nothing_written(folder, space, index, fields, told):
    change(folder, index, **fields)
    with pytest.raises(NotebookError, match=told) as raised:
        solve("01", folder=folder)
    assert "notebook '01_ask'" in str(raised.value) and "git diff" in str(raised.value)
    assert not (space.root / "solved").exists()


def test_a_notebook_without_exercises_is_said_to_have_none(folder):
    with pytest.raises(NotebookError, match="found no exercise in it"):
        solve("02", folder=folder)


@pytest.mark.parametrize(
    "text",
    [b"", b"no JSON", b"[]", b"{}", b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}', b"\xff\xfe", None],
    ids=["empty", "text", "list", "no version", "no cells", "bytes", "cut"],
)
def test_an_unreadable_notebook_says_how_to_get_the_courses_own(folder, text):
    path = folder / "01_ask.ipynb"
    path.write_bytes(path.read_bytes()[:200] if text is None else text)
    with pytest.raises(NotebookError, match=r"cannot be read.*git checkout -- notebooks/01_ask\.ipynb"):
        solve("01", folder=folder)


def test_the_command(tmp_path):
    shown = CliRunner().invoke(cli.app, ["solve", "06"], prog_name="./workshop")
    assert shown.exit_code == 0, shown.output
    assert "Solved copy: " in shown.output and "margin-stub" in shown.output
    shutil.rmtree(tmp_path / "workspace" / "solved")
    shown = CliRunner().invoke(cli.app, ["solve", "06", "--output", str(tmp_path / "c.ipynb")], prog_name="./workshop")
    assert shown.exit_code == 0 and (tmp_path / "c.ipynb").is_file()
