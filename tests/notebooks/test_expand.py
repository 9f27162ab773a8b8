from __future__ import annotations

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.notebooks.expand import INJECTED, PLANTED, assigned, exercises, expand, tags
from tutorial_lib.errors import NotebookError

SOLUTION = "<details><summary>Solution</summary>\n\n```python\nanswer = 42\n```\n\n</details>"


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
    after = expand(before)
    nbformat.validate(after)
    assert [one.id for one in after.cells if INJECTED not in tags(one)] == [one.id for one in before.cells]
    sources = [one.source for one in after.cells]
    assert sources[1:7] == ["answer = ...", "check(1, answer)", SOLUTION, "answer = 42", "check(1, answer)", "print()"]
    assert len(before.cells) == 9 and len(after.cells) == 13


def test_planted_answers_come_before_the_solution_and_may_fail():
    after = expand(notebook(), variants={"stub-2": ["answer = 1", "answer = 2"]})
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
