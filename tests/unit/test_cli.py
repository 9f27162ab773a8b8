"""The command line, without running notebooks or servers."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import timeit

import pytest
from typer.testing import CliRunner

from tutorial_lib import cli, errors
from tutorial_lib.course.progress import note_prediction, note_right, note_wrong
from tutorial_lib.paths import CHECKOUT, WORKSPACE_VARIABLE

COMMANDS = (
    "run",
    "test",
    "lab",
    "serve",
    "config",
    "lint",
    "explain",
    "load",
    "solve",
    "reset",
    "status",
    "doctor",
    "clean",
)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path / "workspace"


def invoke(*arguments, **options):
    return CliRunner().invoke(cli.app, list(arguments), prog_name="./workshop", **options)


def workshop(*arguments):
    """The command line as a process of its own."""
    command = [sys.executable, "-m", "tutorial_lib", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)


def test_help_answers_at_once_and_imports_nothing_heavy():
    told = workshop("--help")
    assert told.returncode == 0
    assert all(command in told.stdout for command in COMMANDS)
    # far above the 0.4 s it takes alone, and more than once: other tests share the machine
    assert any(timeit.timeit(lambda: workshop("--help"), number=1) < 3 for _ in range(5))
    script = "import sys, tutorial_lib.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True).stdout.split()
    assert not {"torch", "numpy", "papermill", "nbformat", "nbconvert", "tritonclient", "pandas"} & set(loaded)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    told = invoke(command, "--help")
    assert told.exit_code == 0
    assert f"./workshop {command}" in told.output


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("rnu", "run"), ("docter", "doctor"), ("rese", "reset"), ("solvee", "solve"), ("04", "run 04")],
)
def test_a_wrong_word_suggests_the_right_one(wrong, right):
    told = invoke(wrong)
    assert told.exit_code == 2
    assert f"Did you mean '{right}'?" in told.output


def test_an_unknown_notebook_is_refused_before_anything_runs(scratch):
    told = workshop("run", "99_nothing_like_it")
    assert told.returncode == 1
    assert told.stderr.startswith("NotebookError: notebook '99_nothing_like_it': found no such notebook. Did you mean")
    assert "Traceback" not in told.stderr
    assert not (scratch / "runs").exists()


def test_a_wrong_mode_is_refused():
    told = invoke("run", "--mode", "fast")
    assert told.exit_code == 2
    assert "quick" in told.output


@pytest.mark.parametrize(
    ("raised", "said", "code"),
    [
        (
            errors.SetupError("disk: found 1 MiB.", action="Make room."),
            "SetupError: disk: found 1 MiB. Make room.\n",
            1,
        ),
        (OSError(errno.ENOSPC, "No space left", "/x/report.json"), "The disk is full: /x/report.json", 1),
        (
            OSError(errno.ENOSPC, "No space left", "/source", None, "/goal"),
            "The disk is full: /goal could not be written",
            1,
        ),
        (KeyboardInterrupt(), "", 130),
    ],
)
def test_errors_are_said_without_a_traceback(monkeypatch, capsys, raised, said, code):
    def fail(**_):
        raise raised

    monkeypatch.setattr("tutorial_lib.doctor.doctor", fail)
    monkeypatch.setattr(sys, "argv", ["workshop", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    told = capsys.readouterr().err
    assert told.startswith(said) and "Traceback" not in told


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
def test_the_doctors_verdict_is_the_exit_code(monkeypatch, ok, code):
    class Report:
        def print(self):
            print("looked")

    Report.ok = ok
    monkeypatch.setattr("tutorial_lib.doctor.doctor", Report)
    told = invoke("doctor")
    assert (told.exit_code, told.output) == (code, "looked\n")


def test_arguments_after_test_reach_pytest(monkeypatch):
    called = []
    monkeypatch.setattr(os, "execv", lambda path, arguments: called.append(arguments))
    monkeypatch.setattr(os, "chdir", lambda path: called.append(path))
    invoke("test", "tests/unit", "-k", "paths", "--maxfail=1", "-q")
    assert called == [CHECKOUT, [sys.executable, "-m", "pytest", "tests/unit", "-k", "paths", "--maxfail=1", "-q"]]


@pytest.mark.parametrize(("cores", "lanes"), [(1, []), (2, ["-n", "2", "--no-loadscope-reorder"])])
def test_the_whole_suite_has_two_lanes_where_there_are_two_cores(monkeypatch, cores, lanes):
    called = []
    monkeypatch.setattr(os, "execv", lambda path, arguments: called.append(arguments))
    monkeypatch.setattr(os, "chdir", lambda path: None)
    monkeypatch.setattr("tutorial_lib.versions.cpu_count", lambda: cores)
    invoke("test")
    assert called == [[sys.executable, "-m", "pytest", *lanes]]


def test_status_shows_exercises_and_predictions(own_progress):
    untouched = invoke("status").output
    assert untouched.startswith("0 of ") and str(own_progress) in untouched
    assert "01  channels" in untouched and "Predictions" not in untouched
    note_wrong("01-channels")
    note_wrong("01-channels")
    note_right("01-recall")
    note_prediction("a", question="How long?", unit="ms", guess=2.0, measured=6.0)
    note_prediction("d", question="How wide?", unit="", guess=2.0, measured=4.0, example=True)
    note_prediction("b", question="Will it?", unit="", guess="yes", measured="no")
    note_prediction("c", question="How many?", unit="", guess=None)
    told = invoke("status").output
    assert told.startswith("1 of ")
    assert re.search(r"01 +channels +△ not yet +attempts +2 +hints +2", told)
    assert re.search(r"01 +recall +✓ right +attempts +1 +hints +0", told)
    assert "The example said 2, measured 4" in told and "You said 2 ms" in told
    assert "3 times too low" in told and "guessed 'yes', it is 'no'" in told and "How many? no guess yet." in told


def test_clean_says_what_goes_and_asks_before_all(scratch):
    for name in ("logs", "checkpoints"):
        (scratch / name).mkdir(parents=True)
        (scratch / name / "file").write_text("x" * 2**20)
    refused = invoke("clean", "--all", input="n\n")
    assert refused.exit_code == 1
    assert (scratch / "logs").exists()
    told = invoke("clean")
    assert f"remove  {scratch / 'logs'}  (1.0 MiB)" in told.output
    assert not (scratch / "logs").exists() and (scratch / "checkpoints").exists()
    told = invoke("clean", "--all", "--yes")
    assert told.exit_code == 0
    assert not (scratch / "checkpoints").exists()
    assert "Nothing to remove" in invoke("clean").output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("solve", "99"), "NotebookError: notebook '99': found no such notebook. Did you mean '"),
        (("solve", "lanch"), "NotebookError: notebook 'lanch': found no such notebook. Did you mean '05_"),
        (("solve", "06", "--output", "notebooks"), "NotebookError: output "),
        (("reset", "99"), "NotebookError: step '99': found no notebook of this number"),
        (("reset", "launch"), "NotebookError: step 'launch': found no notebook of this number"),
    ],
)
def test_what_solve_and_reset_cannot_do_is_said_and_nothing_is_made(scratch, arguments, said):
    told = workshop(*arguments)
    assert told.returncode == 1
    assert told.stderr.startswith(said) and "Traceback" not in told.stderr
    assert not scratch.exists() or not any(scratch.iterdir())
