"""The whole course, executed once, in order, with every exercise also answered."""

from __future__ import annotations

import json
import subprocess

import nbformat
import psutil
import pytest

from tests.notebooks.expand import INJECTED, PLANTED, exercises, expand, tags
from tutorial_lib.paths import CHECKOUT, NOTEBOOKS, WORKSPACE_VARIABLE
from tutorial_lib.runner import available, run_notebooks

COURSE = available()
QUICK_S = 60  # what a notebook may take in quick mode on two idle cores
SLACK = 3  # the cores of a test machine are rarely idle


def git_status():
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True).stdout


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """One run of all notebooks, its report, and the git status before and after."""
    expanded = tmp_path_factory.mktemp("expanded")
    for path in COURSE:
        nbformat.write(expand(nbformat.read(path, as_version=4)), expanded / path.name)
    before = git_status()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WORKSPACE_VARIABLE, str(tmp_path_factory.mktemp("course")))
        run = run_notebooks(sorted(expanded.glob("*.ipynb")), timeout_s=QUICK_S * SLACK, cwd=NOTEBOOKS)
    return run, json.loads((run.folder / "report.json").read_text()), before, git_status()


@pytest.fixture
def entry(course, path):
    _, report, _, _ = course
    return next(entry for entry in report["notebooks"] if entry["name"] == path.stem)


each = pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)


@each
def test_passes_or_says_why_not(entry):
    cell = entry["cell"] or {}
    assert entry["status"] in ("passed", "skipped"), f"{entry['reason']}\n{cell.get('error', '')}"
    assert entry["reason"] or entry["status"] == "passed"


@each
def test_leaves_a_copy_a_page_and_an_entry(course, entry):
    run, *_ = course
    assert nbformat.read(run.folder / entry["executed"], as_version=4).cells
    assert "<html" in (run.folder / entry["html"]).read_text()
    assert entry["seconds"] > 0
    assert entry["name"] in run.index.read_text()


@each
def test_shows_numbers_with_their_tier(entry):
    assert entry["numbers"], "expected one recorded number at least"
    assert entry["tier"]
    for name, number in entry["numbers"].items():
        assert number["tier"], name
        assert number["value"] is not None, f"{name}: {number.get('note')}"


@each
def test_answers_to_exercises_are_judged_rightly(course, entry, path):
    run, *_ = course
    if entry["status"] == "skipped":
        pytest.skip(entry["reason"])
    copy = nbformat.read(run.folder / entry["executed"], as_version=4)
    checks = {cell.id: cell for cell in copy.cells if cell.cell_type == "code"}
    source = nbformat.read(path, as_version=4)
    for exercise in exercises(source):
        check = source.cells[exercise.check].id
        assert "Not attempted" in printed(checks[check]), f"stub of {check}"
        assert "✓" in printed(checks[f"{check}-solved"]), f"solution of {check}"
    for cell in copy.cells:
        if PLANTED in tags(cell):
            assert [output.ename for output in cell.outputs if output.output_type == "error"] == ["ExerciseError"]
        elif INJECTED in tags(cell):
            assert not [output for output in cell.outputs if output.output_type == "error"]


@each
def test_ends_what_it_started(entry):
    assert entry["left"] == []


def printed(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def test_report_and_index(course):
    run, report, _, _ = course
    assert report["complete"] is True
    assert [entry["name"] for entry in report["notebooks"]] == [path.stem for path in COURSE]
    assert (run.folder.parent / "latest").resolve() == run.folder
    assert run.index.read_text().count("<article") == len(COURSE)


def test_no_tracked_file_changes(course):
    _, _, before, after = course
    assert after == before


def test_no_server_is_left(course):
    run, *_ = course
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(run.folder) in argument for argument in process.cmdline()):
                found.append(process.cmdline())
        except psutil.Error:
            continue  # gone, or not ours
    assert not found
