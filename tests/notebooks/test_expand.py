from __future__ import annotations

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.notebooks.expand import (
    INJECTED,
    PLANTED,
    Planted,
    assigned,
    call,
    complaints,
    exercises,
    expand,
    planted,
    tags,
)
from tutorial_lib.errors import NotebookError

SOLUTION = "<details><summary>Solution</summary>\n\n```python\nanswer = 42\n```\n\n</details>"


VARIANTS = {
    "stub-2": [Planted("answer = 1", "too low", "hint 1 of 2: a"), Planted("answer = 2", "low", "hint 2 of 2: b")]
}


def cell(kind, source, tag, identity):
    make = new_code_cell if kind == "code" else new_markdown_cell
    return make(source, id=identity, metadata={"tags": [tag] if tag else []})


def notebook(solution=SOLUTION):
    rows = [("markdown", "# T", "", "t")]
    for number in (1, 2):
        rows += [
            ("code", "answer = ...", "exercise", f"stub-{number}"),
            ("code", f"check({number}, answer)", "check", f"check-{number}"),
            ("markdown", solution, "solution", f"solution-{number}"),
            ("code", "print()", "", f"after-{number}"),
        ]
    return new_notebook(cells=[cell(*row) for row in rows])


def test_every_exercise_is_answered_in_place():
    before = notebook()
    after = expand(before, variants={})
    nbformat.validate(after)
    assert [one.id for one in after.cells if INJECTED not in tags(one)] == [one.id for one in before.cells]
    sources = [one.source for one in after.cells]
    assert sources[1:7] == ["answer = ...", "check(1, answer)", SOLUTION, "answer = 42", "check(1, answer)", "print()"]
    assert len(before.cells) == 9 and len(after.cells) == 13


def test_planted_answers_come_before_the_solution_and_may_fail():
    after = expand(notebook(), variants=VARIANTS)
    nbformat.validate(after)
    sources = [one.source for one in after.cells if INJECTED in tags(one)]
    second = ["answer = 1", "check(2, answer)", "answer = 2", "check(2, answer)", "answer = 42", "check(2, answer)"]
    assert sources == ["answer = 42", "check(1, answer)", *second]
    planted = [one for one in after.cells if PLANTED in tags(one)]
    assert [one.source for one in planted] == ["check(2, answer)"] * 2
    assert all("raises-exception" in tags(one) for one in planted)


@pytest.mark.parametrize(
    "solution",
    [
        "the answer is 42",
        SOLUTION.replace("</details>", ""),
        SOLUTION.replace("```python", "```"),
        SOLUTION.replace("<details>", "<details open>"),
        SOLUTION.replace("answer = 42", "a = 1\n```\n\n```python\nb = 2"),
    ],
)
def test_a_solution_in_another_form_is_refused(solution):
    with pytest.raises(NotebookError, match="cell 4: expected one <details>"):
        exercises(notebook(solution))


def test_an_incomplete_exercise_is_refused():
    incomplete = notebook()
    del incomplete.cells[2]
    with pytest.raises(NotebookError, match="expected exercise, check, solution"):
        exercises(incomplete)
    wrong = notebook()
    wrong.cells[3].cell_type = "code"
    with pytest.raises(NotebookError, match="expected a markdown cell"):
        exercises(wrong)


def test_assigned_names():
    assert assigned("a, (b, c) = 1, (2, 3)\nd: int = 4\ndef e(): f = 1\nx.y = 2\nz[0] = 1") == {"a", "b", "c", "d", "e"}


CHECKS = "from tutorial_lib.course.checks_01 import check_throughput\n\ncheck_throughput(requests_per_s)"


def course_notebook(check=CHECKS):
    found = notebook()
    found.cells = found.cells[:5]
    found.cells[2].source = check
    return found


def test_wrong_answers_come_from_beside_the_check_each_with_the_next_hint():
    (answers,) = planted(course_notebook()).values()
    assert [answer.hint[:11] for answer in answers] == ["hint 1 of 2", "hint 2 of 2"]
    assert all(answer.code.startswith("def requests_per_s") and answer.told for answer in answers)


def test_more_wrong_answers_than_hints_get_the_last_hint_again(monkeypatch):
    from tutorial_lib.course import checks_01

    monkeypatch.setitem(checks_01.WRONG, "check_throughput", [("", "")] * 4)
    (answers,) = planted(course_notebook()).values()
    assert [answer.hint[:6] for answer in answers] == ["hint 1", "hint 2", "hint 2", "hint 2"]


def test_an_exercise_without_two_wrong_answers_is_refused(monkeypatch):
    from tutorial_lib.course import checks_01

    for wrong in ({}, {"check_throughput": [("a = 1", "x")]}):
        monkeypatch.setattr(checks_01, "WRONG", wrong)
        with pytest.raises(ValueError, match="expected two"):
            planted(course_notebook())


@pytest.mark.parametrize(
    "check",
    [
        "from tutorial_lib.plots import axes\n\naxes(requests_per_s)",  # nothing with hints
        "print(requests_per_s)",
        "pass",
        "from tutorial_lib.course.checks_01 import check_throughput\n\nprint(check_throughput)",
    ],
)
def test_an_edited_check_cell_is_refused(check):
    with pytest.raises(ValueError, match="expected"):
        planted(course_notebook(check))


def test_a_deleted_check_cell_is_refused():
    deleted = course_notebook()
    del deleted.cells[2]
    with pytest.raises(NotebookError, match="expected exercise, check, solution"):
        expand(deleted)


def test_the_call_of_a_check_cell():
    assert call(CHECKS) == ("tutorial_lib.course.checks_01", "check_throughput", ["requests_per_s"])


def executed(**changed):
    """The expanded notebook with the outputs that good checks would leave; `changed` says what is different."""
    found = expand(notebook(), variants=VARIANTS)
    good = {
        "check-1": "○ Not attempted",
        "check-2": "○ Not attempted",
        "check-1-solved": "✓ Right: yes",
        "check-2-solved": "✓ Right: yes",
        "check-2-planted-0": ("ExerciseError", "Not yet. too low.\n  hint 1 of 2: a"),
        "check-2-planted-1": ("ExerciseError", "Not yet. low.\n  hint 2 of 2: b"),
    }
    for one in found.cells:
        said = (good | {name.replace("_", "-"): value for name, value in changed.items()}).get(one.id)
        if isinstance(said, str):
            one.outputs = [new_output("stream", name="stdout", text=said)]
        elif said:
            one.outputs = [new_output("error", ename=said[0], evalue=said[1], traceback=[*said[2:], said[1]])]
    return found


def test_good_checks_get_no_complaints():
    assert not complaints(executed(), notebook(), {"stub-1": [], **VARIANTS})


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"check_1": "✓ Right: yes"}, "check-1: the stub is not called unattempted"),
        ({"check_1": "○ Not attempted ✓"}, "check-1: the stub is judged"),
        ({"check_1": ("ExerciseError", "Not yet.")}, "check-1: the stub is not called unattempted"),
        ({"check_1": None}, "check-1: the stub is not called unattempted"),
        ({"check_2_planted_0": "✓ Right: yes"}, "check-2-planted-0: a wrong answer is not refused: answer = 1"),
        ({"check_2_planted_0": ("NameError", "x")}, "check-2-planted-0: a wrong answer is not refused"),
        ({"check_2_planted_0": ("ExerciseError", "bad.\n  hint 1 of 2: a")}, "does not say 'too low'"),
        ({"check_2_planted_1": ("ExerciseError", "low.\n  hint 1 of 2: a")}, "does not end with 'hint 2 of 2: b'"),
        ({"check_2_planted_1": ("ExerciseError", "low.\n  hint 2 of 2: b", "Traceback")}, "a traceback of ours"),
        ({"check_2_solved": ("ExerciseError", "Not yet.")}, "check-2-solved: the solution does not pass"),
        ({"stub_2_planted_0": ("NameError", "x")}, "stub-2-planted-0: an answer cannot even be run"),
        ({"stub_1_solved": ("SyntaxError", "x")}, "stub-1-solved: an answer cannot even be run"),
    ],
)
def test_each_fault_of_a_check_is_a_complaint(changed, complaint):
    assert any(complaint in found for found in complaints(executed(**changed), notebook(), {"stub-1": [], **VARIANTS}))
