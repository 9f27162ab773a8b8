"""The whole course, executed once, in order, with every exercise also answered."""

from __future__ import annotations

import json
import subprocess

import nbformat
import psutil
import pytest

from tests.notebooks.expand import complaints, expand, planted
from tutorial_lib.course.progress import PROGRESS_VARIABLE
from tutorial_lib.paths import CHECKOUT, NOTEBOOKS, WORKSPACE_VARIABLE
from tutorial_lib.runner import appendices, available, run_notebooks

COURSE = [*available(), *appendices()]
QUICK_S = 90  # what 07 and 10 may take in quick mode on two idle cores; the others take a minute at most
SLACK = 5  # the cores of a test machine are rarely idle, and every answer to an exercise is run, too


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
        home = tmp_path_factory.mktemp("course")
        patch.setenv(WORKSPACE_VARIABLE, str(home))
        patch.setenv(PROGRESS_VARIABLE, str(home / "learner.json"))
        run = run_notebooks([expanded / path.name for path in COURSE], timeout_s=QUICK_S * SLACK, cwd=NOTEBOOKS)
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
    executed = nbformat.read(run.folder / entry["executed"], as_version=4)
    notebook = nbformat.read(path, as_version=4)
    assert not complaints(executed, notebook, planted(notebook))


@each
def test_carries_no_widget_state(course, entry):
    run, *_ = course
    assert "widgets" not in nbformat.read(run.folder / entry["executed"], as_version=4).metadata


@each
def test_ends_what_it_started(entry):
    assert entry["left"] == []


def test_progress_is_that_of_the_run_and_not_of_the_learner(course):
    run, report, _, _ = course
    assert not (run.folder.parents[1] / "learner.json").exists()
    exercises = json.loads((run.folder / "workspace" / "progress.json").read_text())["exercises"]
    passed = {entry["name"] for entry in report["notebooks"] if entry["status"] == "passed"}
    ran = {name[:2] if name[:2].isdecimal() else "own" for name in passed}  # as the exercises are named
    assert {name.partition("-")[0] for name in exercises} >= ran
    for name, counts in exercises.items():
        if name.partition("-")[0] in ran:
            assert counts["solved"] and counts["right"] and counts["hints"] == counts["wrong"], name


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
