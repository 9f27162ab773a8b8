"""The progress store: what it counts, and what it survives."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tutorial_lib.course import progress
from tutorial_lib.course.checks import exercise_names
from tutorial_lib.paths import CHECKOUT, WORKSPACE_VARIABLE

NAME = "01-channels"


@pytest.fixture
def path(tmp_path, monkeypatch):
    found = tmp_path / "there" / "mine.json"
    monkeypatch.setenv(progress.PROGRESS_VARIABLE, str(found))
    return found


def in_process(code, path, **more):
    environment = os.environ | {progress.PROGRESS_VARIABLE: str(path), "PYTHONPATH": str(CHECKOUT)}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def test_attempts_are_counted_and_a_right_one_starts_the_hints_again(path):
    assert [progress.note_wrong(NAME) for _ in range(3)] == [1, 2, 3]
    assert progress.exercise_state(NAME) == "wrong"
    progress.note_right(NAME)
    assert progress.exercise_state(NAME) == "right"
    assert progress.note_wrong(NAME) == 1
    assert progress.exercise_state(NAME) == "right", "once right stays right"
    entry = json.loads(path.read_text())["exercises"][NAME]
    assert (entry["wrong"], entry["right"], entry["hints"]) == (4, 1, 4)
    assert entry["first"] <= entry["solved"] <= entry["last"]


def test_the_table_has_every_exercise_of_the_course(path):
    progress.note_wrong("06-margin")
    table = progress.progress_table()
    assert tuple(table.columns) == progress.COLUMNS
    assert [f"{row.notebook}-{row.exercise}" for row in table.itertuples()] == list(exercise_names())
    attempted = table[table["attempts"] > 0]
    assert attempted[["notebook", "exercise", "state", "attempts", "hints"]].to_numpy().tolist() == [
        ["06", "margin", "wrong", 1, 1]
    ]
    assert (table["state"] == "not attempted").sum() == len(table) - 1


def test_looking_writes_nothing(path):
    progress.progress_table()
    progress.predictions_table()
    assert not path.exists()


def test_predictions_add_up(path):
    progress.note_prediction("wait", question="How long?", unit="ms", guess=None)
    progress.note_prediction("wait", guess=3.0)
    progress.note_prediction("wait", measured=4.0)
    assert progress.predictions_table().iloc[0, :4].tolist() == ["How long?", "ms", 3.0, 4.0]


def test_without_a_variable_it_is_in_the_workspace(tmp_path, monkeypatch):
    monkeypatch.delenv(progress.PROGRESS_VARIABLE)
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path))
    assert progress.progress_path() == tmp_path / "progress.json"


def test_two_notebooks_at_once_lose_no_attempt(path):
    code = f"from tutorial_lib.course.progress import note_wrong\nfor _ in range(40): note_wrong({NAME!r})"
    writers = [in_process(code, path) for _ in range(3)]
    for writer in writers:
        _, told = writer.communicate(timeout=120)
        assert writer.returncode == 0 and not told, told
    assert progress.read_progress()["exercises"][NAME]["wrong"] == 120
    assert sorted(found.name for found in path.parent.iterdir()) == [".mine.json.lock", "mine.json"]


GOOD = {"wrong": 1, "right": 0, "hints": 1, "since_right": 1, "solved": "", "first": "t", "last": "t"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"version": 1, "exercises": {"01-',
        "\x00\x01",
        "[]",
        "null",
        '{"exercises": {}}',
        '{"version": 0, "exercises": {}, "predictions": {}}',
        '{"version": 99, "exercises": {}, "predictions": {}}',
        '{"version": 1, "exercises": [], "predictions": {}}',
        json.dumps({"version": 1, "exercises": {NAME: 3}, "predictions": {}}),
        json.dumps({"version": 1, "exercises": {NAME: GOOD | {"hints": "many"}}, "predictions": {}}),
        json.dumps({"version": 1, "exercises": {NAME: GOOD | {"last": None}}, "predictions": {}}),
        json.dumps({"version": 1, "exercises": {}, "predictions": {"a": 1}}),
    ],
)
def test_a_file_of_another_kind_is_set_aside_and_not_lost(path, text, capsys):
    path.parent.mkdir()
    path.write_text(text)
    assert progress.note_wrong(NAME) == 1
    (aside,) = path.parent.glob("mine.*.json")
    assert aside.read_text() == text
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and aside.name in told
    assert progress.read_progress()["exercises"].keys() == {NAME}


def test_bytes_that_are_no_text_are_set_aside(path):
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe\x00")
    progress.note_right(NAME)
    assert progress.exercise_state(NAME) == "right"
    assert len(list(path.parent.glob("mine.*.json"))) == 1


def test_where_nothing_can_be_written_the_kernel_remembers_and_says_so_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv(progress.PROGRESS_VARIABLE, str(tmp_path / "file" / "mine.json"))
    assert [progress.note_wrong(NAME) for _ in range(3)] == [1, 2, 3]
    progress.note_right(NAME)
    assert progress.exercise_state(NAME) == "right"
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "cannot be written" in told and str(tmp_path / "file" / "mine.json") in told


FULL = f"""
import resource
from tutorial_lib.course import progress
progress.note_wrong({NAME!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))  # from here on the disk is full
print(progress.note_wrong({NAME!r}), progress.note_wrong({NAME!r}), flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(progress.note_wrong({NAME!r}))
"""


def test_a_full_disk_costs_one_line_and_what_was_there_stays_whole(path):
    child = in_process(FULL, path)
    told, complained = child.communicate(timeout=60)
    assert child.returncode == 0, complained
    assert told.split() == ["2", "3", "4"]
    assert complained.count("\n") == 1 and "cannot be written" in complained
    assert progress.read_progress()["exercises"][NAME]["wrong"] == 4, "written once there was room again"
    assert not [found for found in path.parent.iterdir() if found.name not in (path.name, f".{path.name}.lock")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(path):
    progress.note_wrong(NAME)
    path.parent.joinpath(f".{path.name}.lock").unlink()
    path.parent.chmod(0o555)
    assert progress.note_wrong(NAME) == 2
    assert progress.note_wrong(NAME) == 3
    path.parent.chmod(0o755)


def test_a_writer_that_is_killed_leaves_the_file_whole_and_the_lock_free(path):
    progress.note_wrong(NAME)
    code = (
        "import os\nfrom tutorial_lib.course import progress\n"
        "progress._update(lambda store: (store['exercises'].clear(), os.kill(os.getpid(), 9)))"
    )
    assert in_process(code, path).wait(timeout=60) == -9
    assert progress.note_wrong(NAME) == 2


def test_without_a_lock_what_is_there_still_counts(path, capsys):
    progress.note_wrong(NAME)
    lock = path.parent / f".{path.name}.lock"
    lock.unlink()
    lock.mkdir()  # as good as a folder in which nothing can be made
    assert [progress.note_wrong(NAME), progress.note_wrong(NAME)] == [2, 3]
    assert capsys.readouterr().err.count("cannot be written") == 1
    assert json.loads(path.read_text())["exercises"][NAME]["wrong"] == 1
