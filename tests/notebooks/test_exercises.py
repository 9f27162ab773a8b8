"""The exercises of the course as a whole, and their frame in a real kernel."""

from __future__ import annotations

import re

import nbformat
import pytest

from tests.notebooks.expand import assigned, call, errors, exercises, lab_of, planted, printed
from tests.notebooks.small import write
from tutorial_lib.course.checks import course_exercises
from tutorial_lib.course.numbering import key_of
from tutorial_lib.paths import WORKSPACE_VARIABLE
from tutorial_lib.runner import appendices, available, run_notebooks

NOTEBOOKS = {path: nbformat.read(path, as_version=4) for path in (*available(), *appendices())}


def test_every_check_is_used_once_in_the_notebook_it_is_named_after():
    used = []
    for path, notebook in NOTEBOOKS.items():
        for exercise in exercises(notebook):
            module, function, _ = call(notebook.cells[exercise.check].source)
            if function == "fixed":
                module, function = "checks_break_it", f"check_{lab_of(notebook, exercise.stub)}"
            used.append((key_of(path), module.rpartition(".")[2], function))
    made = [
        (one.name.partition("-")[0], one.check.__module__.rpartition(".")[2], one.check.__name__)
        for one in course_exercises()
    ]
    assert sorted(used) == sorted(made)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_exercise_has_planted_answers_to_the_stub_it_checks(path):
    notebook = NOTEBOOKS[path]
    answers = planted(notebook)
    for exercise in exercises(notebook):
        stub = notebook.cells[exercise.stub]
        _, function, arguments = call(notebook.cells[exercise.check].source)
        if function == "fixed":
            assert answers[stub.id]
            continue  # a lab judges what is on disk
        assert len(answers[stub.id]) >= 2
        assert arguments[0] in assigned(stub.source), "the check judges something else than the stub"
        for answer in answers[stub.id]:
            assert answer.told and arguments[0] in assigned(answer.code), answer.code
        assert len({answer.code for answer in answers[stub.id]} | {exercise.code}) > len(answers[stub.id])


FRAME = "from tutorial_lib.course.checks_01 import check_throughput\n\ncheck_throughput(requests_per_s)"
LOOPS = "def requests_per_s(callers, latency_ms):\n    while True:\n        latency_ms += 1"
RAISES = "def requests_per_s(callers, latency_ms):\n    rate = 1000 / latency_ms\n    return rate * number_of_callers"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """The cells of a notebook that meets the frame in every bad way, executed; by their position."""
    folder = tmp_path_factory.mktemp("frame")
    goes_on = ["raises-exception"]
    write(
        folder,
        "00_frame",
        "from tutorial_lib.course.record import record\nfrom tutorial_lib.course import checks\nchecks.LIMIT_S = 0.5",
        (FRAME, goes_on),  # 2: nothing defined
        (LOOPS, []),
        (FRAME, goes_on),  # 4: loops
        (RAISES, []),
        (FRAME, goes_on),  # 6: raises
        ("undefined_name", goes_on),  # 7: not a check
        ("def requests_per_s(callers, latency_ms):\n    return 1000 * callers / latency_ms", []),
        FRAME,  # 9: right
        "from tutorial_lib.course.interactive import interactive\nprint(interactive())",
        "import os; del os.environ['WORKSHOP_RECORDS']\nprint(interactive())",
        "import signal\nprint(signal.getitimer(signal.ITIMER_REAL))",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WORKSPACE_VARIABLE, str(tmp_path_factory.mktemp("workspace")))
        run = run_notebooks(sorted(folder.glob("*.ipynb")), timeout_s=300, cwd=folder)
    assert run.exit_code == 0, run.report
    cells = nbformat.read(run.folder / "00_frame.ipynb", as_version=4).cells
    return {int(cell.id[1:]): cell for cell in cells if re.fullmatch(r"c\d+", cell.id)}


def shown(cell):
    (error,) = errors(cell)
    return error.ename, re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback))


def test_a_missing_answer_is_one_friendly_line(kernel):
    assert shown(kernel[2]) == (
        "NameError",
        "○ Not checked: `requests_per_s` does not exist in this kernel yet. "
        "Run the exercise's cell, right above this one, then this cell again.",
    )


def test_an_answer_that_loops_is_ended_and_its_line_named(kernel):
    name, text = shown(kernel[4])
    assert name == "ExerciseError"
    assert "no answer after 0.5 s, called with (1, 100.0)" in text
    assert re.search(r"your line [23], `(while True:|latency_ms \+= 1)`", text)
    assert "hint 1 of 2" in text and "Traceback" not in text
    assert printed(kernel[12]) == "(0.0, 0.0)\n"


def test_an_answer_that_raises_is_named_with_its_line_and_no_traceback(kernel):
    _, text = shown(kernel[6])
    assert "raised NameError: name 'number_of_callers' is not defined" in text
    assert "your line 3, `return rate * number_of_callers`" in text
    assert "hint 2 of 2" in text and "attempt.py" not in text and "Traceback" not in text


def test_other_errors_stay_as_they_are(kernel):
    name, text = shown(kernel[7])
    assert name == "NameError" and "Traceback" in text and "undefined_name" in text


def test_a_right_answer_is_one_line(kernel):
    assert re.fullmatch(r"✓ Right: .+\n", printed(kernel[9]))


def test_a_kernel_without_a_person_in_front_says_so(kernel):
    assert printed(kernel[10]) == "False\n"
    assert printed(kernel[11]) == "False\n", "papermill allows no input"
