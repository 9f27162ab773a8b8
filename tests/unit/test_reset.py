"""`./workshop reset`, on a small hand-made state: nothing is trained here."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tutorial_lib import cli
from tutorial_lib.checkpoint import default_path
from tutorial_lib.course import parts, reset
from tutorial_lib.course.backups import FOLDER as BACKUPS
from tutorial_lib.course.catch_up import catch_up, export_path, served_path
from tutorial_lib.course.progress import exercise_state, note_right, progress_path
from tutorial_lib.course.reset import carry_out, plan_reset, told
from tutorial_lib.errors import NotebookError, SetupError
from tutorial_lib.paths import CHECKOUT, NOTEBOOKS, REFERENCE_REPOSITORY, WORKSPACE_VARIABLE, workspace


def small_part(name, step, files):
    """A part of the course whose files are one word each."""

    def make(space, folder, progress):
        for path in files(space):
            (folder / path.name).write_text(name)

    return parts.Part(name, f"making the {name}", step, files, lambda space: {}, lambda space: "", make)


@pytest.fixture
def space(tmp_path, monkeypatch):
    """An empty workspace, and parts that take no time to make."""
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    small = (
        small_part("checkpoint", 2, lambda space: (default_path(space),)),
        small_part("export", 3, lambda space: (export_path(space),)),
        small_part("served model", 5, lambda space: (served_path(space),)),
    )
    monkeypatch.setattr("tutorial_lib.course.catch_up.PARTS", small)
    monkeypatch.setattr(reset, "PARTS", small)
    return workspace()


def tree(folder):
    """Every file below the folder: path → contents."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def own_models(space):
    """A repository as the appendix leaves it."""
    config = space.root / reset.OWN_MODELS / "net" / "config.pbtxt"
    config.parent.mkdir(parents=True)
    config.write_text("mine")
    return config


def work(space):
    """The workspace but for the notes of catch_up, its lock, and what is kept of earlier resets."""
    return {
        name: text for name, text in tree(space.root).items() if not name.startswith((BACKUPS, "cache", "catch_up"))
    }


def again(step):
    return carry_out(plan_reset(step), show_progress=False)


def invoke(*arguments):
    return CliRunner().invoke(cli.app, list(arguments), prog_name="./workshop")


def test_an_empty_workspace_becomes_what_catch_up_makes(space):
    assert again("06") is None
    reached = work(space)
    assert {"checkpoints", "exports", "model_repository"} <= {name.partition("/")[0] for name in reached}
    catch_up("06", progress=False)
    assert work(space) == reached


def test_what_differs_is_set_aside_and_not_deleted(space):
    again("06")
    clean = work(space)
    config = space.model_repository / "densenet_onnx" / "config.pbtxt"
    config.write_text("mine")
    export_path(space).write_text("my export")
    (space.model_repository / "my_model" / "1").mkdir(parents=True)
    (space.model_repository / "my_model" / "1" / "model.py").write_text("my model")
    (space.root / "scratch_04").mkdir()
    (space.root / "scratch_04" / "notes.txt").write_text("my notes")
    backup = again("06")
    assert work(space) == clean
    kept = tree(backup)
    assert kept["model_repository/densenet_onnx/config.pbtxt"] == b"mine"
    assert kept["exports/densenet_onnx.onnx"] == b"my export"
    assert kept["model_repository/my_model/1/model.py"] == b"my model"
    assert kept["scratch_04/notes.txt"] == b"my notes"


def test_the_second_time_there_is_nothing_to_do(space):
    space.exports.mkdir(parents=True)
    export_path(space).write_text("my export")
    assert again("06") is not None
    before = tree(space.root)
    assert plan_reset("06").empty
    assert again("06") is None
    assert tree(space.root) == before


def test_an_earlier_notebook_finds_no_later_work(space):
    again("06")
    backup = again("02")
    assert default_path(space).is_file()
    assert not export_path(space).exists() and not served_path(space).exists()
    assert "exports/densenet_onnx.onnx" in tree(backup)


def test_the_whole_workspace(space):
    again("06")
    (space.root / "records").mkdir()
    (space.root / "records" / "one.jsonl").write_text("{}")
    made = work(space)
    backup = again("00")
    assert work(space) == {}
    assert tree(backup) == made


def test_backups_of_earlier_resets_stay(space):
    for text in ("first", "second"):
        space.exports.mkdir(parents=True, exist_ok=True)
        export_path(space).write_text(text)
        again("00")
    kept = sorted(path.read_text() for path in (space.root / BACKUPS).rglob("*.onnx"))
    assert kept == ["first", "second"]


def test_notebooks_tracked_files_runs_and_solved_copies_are_not_touched(space):
    tracked = tree(NOTEBOOKS) | tree(REFERENCE_REPOSITORY)
    for folder in (space.runs / "latest", space.logs, space.root / "solved"):
        folder.mkdir(parents=True)
        (folder / "a.ipynb").write_text("{}")
    before = work(space)
    again("06")
    again("00")
    assert tree(NOTEBOOKS) | tree(REFERENCE_REPOSITORY) == tracked
    assert work(space) == before


def test_in_a_checkout_with_an_edited_notebook_git_sees_that_edit_and_nothing_else(tmp_path, monkeypatch):
    """The whole command, in a copy of the course with a workspace at its usual place."""
    course = tmp_path / "course"
    for name in ("tutorial_lib", "notebooks", "model_repository"):
        shutil.copytree(CHECKOUT / name, course / name, ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
    shutil.copyfile(CHECKOUT / ".gitignore", course / ".gitignore")

    def git(*arguments):
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
        return subprocess.run(command, cwd=course, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message=course")
    edited = course / "notebooks" / "06_call_the_server.ipynb"
    edited.write_text(edited.read_text().replace("margin = ...", "margin = 8.15"))
    mine = edited.read_bytes()
    checkpoint = course / "workspace" / "checkpoints" / "densenet_digits.safetensors"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("my weights")
    monkeypatch.delenv(WORKSPACE_VARIABLE, raising=False)
    command = [sys.executable, "-m", "tutorial_lib", "reset"]
    environment = os.environ | {"PYTHONPATH": str(course)}
    shown = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "aside   checkpoints" in shown.stdout
    assert not checkpoint.exists() and len(list((course / "workspace" / BACKUPS).rglob("*.safetensors"))) == 1
    assert git("status", "--porcelain") == " M notebooks/06_call_the_server.ipynb\n"
    assert edited.read_bytes() == mine


def test_progress_from_this_notebook_on_is_forgotten_and_kept_in_the_backup(space):
    again("05")
    note_right("02-fold")
    note_right("06-margin")
    told_before = progress_path().read_bytes()
    backup = again("05")
    assert exercise_state("02-fold") == "right"
    assert exercise_state("06-margin") == "not attempted"
    assert (backup / "progress.json").read_bytes() == told_before


def test_a_dry_run_changes_nothing(space):
    space.exports.mkdir(parents=True)
    export_path(space).write_text("mine")
    before = tree(space.root)
    shown = invoke("reset", "06", "--dry-run")
    assert shown.exit_code == 0
    assert "aside   exports" in shown.output and "Nothing was changed" in shown.output
    assert tree(space.root) == before


def test_the_command_says_what_it_does_and_where_the_rest_is(space):
    space.exports.mkdir(parents=True)
    export_path(space).write_text("mine")
    shown = invoke("reset", "06")
    assert shown.exit_code == 0
    assert "make    checkpoint" in shown.output and "Set aside in" in shown.output
    assert "Ready for notebook 06." in shown.output
    assert "Nothing to do" in invoke("reset", "06").output


@pytest.mark.parametrize("step", ["99", "13", "-1", "six", ""])
def test_an_unknown_step_is_refused(space, step):
    with pytest.raises(NotebookError, match=r"expected one from '00' to '12'"):
        plan_reset(step)
    assert not any(space.root.iterdir())


def test_refused_while_a_server_of_the_workspace_runs(space, tmp_path):
    again("06")
    (space.root / "scratch_04").mkdir()
    before = tree(space.root)
    plan = plan_reset("06")
    links = tmp_path / "to the repository", tmp_path / "to a run"  # a path with a space reaches a server as a link
    for link, target in zip(links, (space.model_repository, space.runs / "1"), strict=True):
        link.symlink_to(target)
    cases = ((space.model_repository, True), (links[0], True), (tmp_path / "another", False))
    for folder, refused in (*cases, (space.runs / "1", False), (links[1], False)):
        # a process under Triton's name that waits until its input is closed
        command = ["tritonserver", "-S", "-c", "import sys; sys.stdin.read()", f"--model-repository={folder}"]
        with subprocess.Popen(command, executable=sys.executable, stdin=subprocess.PIPE) as server:
            if refused:
                for attempt in (lambda: plan_reset("06"), lambda: carry_out(plan, show_progress=False)):
                    with pytest.raises(SetupError, match=rf"a server of it runs \(process {server.pid}\)"):
                        attempt()
                assert tree(space.root) == before and (space.root / "scratch_04").is_dir()
            else:
                assert not plan_reset("06").empty
            server.communicate()
    assert again("06") is not None


def test_a_lab_in_use_stays_and_an_ended_one_is_set_aside(space):
    for number in ("1", "2"):
        (space.root / "break_it" / number).mkdir(parents=True)
    with (space.root / "break_it" / ".1.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert [path.name for path in plan_reset("00").aside] == ["2"]


def test_a_link_is_moved_and_what_it_points_to_stays(space, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "big.onnx").write_text("mine")
    space.exports.symlink_to(elsewhere)
    backup = again("00")
    assert (backup / "exports").is_symlink() and (elsewhere / "big.onnx").read_text() == "mine"


def test_an_interrupted_reset_loses_nothing_and_the_next_goes_on(space, monkeypatch):
    again("06")
    clean = work(space)
    digests = []
    for path in (export_path(space), served_path(space)):
        path.write_text(f"mine: {path.name}")
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
    moved = []

    def interrupted(path, **where):
        if moved:
            raise KeyboardInterrupt
        moved.append(path)
        return set_aside(path, **where)

    set_aside = reset.set_aside
    with monkeypatch.context() as patch:
        patch.setattr(reset, "set_aside", interrupted)
        with pytest.raises(KeyboardInterrupt):
            again("06")
    again("06")
    assert work(space) == clean
    kept = [hashlib.sha256(text).hexdigest() for text in tree(space.root / BACKUPS).values()]
    assert set(digests) <= set(kept)


def test_the_plan_is_told_in_paths_of_the_workspace(space):
    space.exports.mkdir(parents=True)
    export_path(space).write_text("mine")
    lines = told(plan_reset("06"))
    assert "aside   exports" in lines
    assert not any(str(space.root) in line for line in lines)


@pytest.mark.parametrize("word", ["bring_your_own_model", "own"])
def test_the_appendix_has_its_own_repository_and_comes_after_all(space, word, capsys):
    catch_up(word, progress=False)
    config = own_models(space)
    note_right("own-repaired")
    note_right("06-margin")
    plan = plan_reset(word)
    assert plan.notebook == "bring_your_own_model"
    assert list(plan.aside) == [config.parent.parent] and list(plan.exercises) == ["own-repaired"]
    backup = carry_out(plan, show_progress=False)
    assert not config.exists() and next(backup.rglob("config.pbtxt")).read_text() == "mine"
    assert exercise_state("own-repaired") == "not attempted" and exercise_state("06-margin") == "right"


def test_the_appendix_is_later_than_every_number(space):
    config = own_models(space)
    note_right("own-repaired")
    plan = plan_reset("06")
    assert "own-repaired" in plan.exercises and config.parent.parent not in plan.aside
    assert config.parent.parent in plan_reset().aside
