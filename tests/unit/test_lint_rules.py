"""Every rule finds what breaks it, at its place, and is silent once that is mended."""

from __future__ import annotations

import json
import re

import pytest

from tests.unit.lint_examples import ECHO, EXAMPLES, PY, Example
from tutorial_lib.paths import NOTEBOOKS
from tutorial_lib.repository.lint import RULES, lint_repository

NUMBERED = [pytest.param(one, id=f"{one.rule}-{number}") for number, one in enumerate(EXAMPLES)]


def test_every_rule_has_an_example():
    assert set(RULES) == {one.rule for one in EXAMPLES}


@pytest.mark.parametrize("example", NUMBERED)
def test_rule_finds_what_breaks_it(example: Example, tmp_path):
    findings = lint_repository(example.write(tmp_path, mended=False), **dict(example.options))
    found = [one for one in findings if one.rule == example.rule and one.severity == example.severity]
    assert found, f"found {[str(one) for one in findings]}"
    assert example.line in {0, *(one.line for one in found)}
    for one in found:
        assert one.found and one.expected and one.fix and one.why and one.message
        assert (tmp_path / one.file).exists() or one.file == "."
        others = {other.rule for other in findings.errors} - {one.rule}
    if example.severity == "error":
        # an error is one cause, and what follows from it at most
        assert others <= CONSEQUENCES.get(example.rule, set()), others


# rule → errors that come with it, because the example breaks two things at once
CONSEQUENCES = {
    "version-folder": {"model-file-name"},
    "unknown-backend": {"unknown-tensor"},
    "dims-value": {"reshape-size"},
    "scalar-dims": {"tensor-shape"},
    "ensemble-cycle": {"ensemble-map", "ensemble-step-broken"},
    "ensemble-step-broken": {"dims-value", "ensemble-shape"},
    "python-output": {"python-input"},
    "model-path": {"model-file-name"},
    "unknown-tensor": {"missing-input"},
    "tensor-incomplete": {"python-input"},
    "missing-input": {"unbatched-side-input"},
    "ensemble-map": {"ensemble-type"},
}


@pytest.mark.parametrize("example", NUMBERED)
def test_rule_is_silent_once_mended(example: Example, tmp_path):
    findings = lint_repository(example.write(tmp_path, mended=True), **dict(example.options))
    assert not [str(one) for one in findings if one.rule == example.rule]
    assert not [str(one) for one in findings.errors]


CLASS_IN_TRY = "try:\n" + "".join(f"    {line}\n" for line in ECHO.splitlines()) + "finally:\n    pass\n"


@pytest.mark.parametrize(
    "source",
    [
        CLASS_IN_TRY,
        f"if False:\n    import gone\n{ECHO}",
        f"try:\n    import gone\nexcept ImportError:\n    gone = 1\n{ECHO}",
    ],
    ids=["class", "if", "try"],
)
def test_what_may_not_run_is_no_error(source, tmp_path):
    files = {"m/config.pbtxt": PY, "m/1/model.py": source}
    assert not lint_repository(Example("", files, {}).write(tmp_path, mended=False)).errors


def test_lessons_are_sections_of_the_notebooks():
    cells = {}
    for path in NOTEBOOKS.glob("[0-9]*.ipynb"):
        ids = {cell.get("id") for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}
        cells[path.name[:2]] = ids
    for one in RULES.values():
        number, _, section = one.lesson.partition("#")
        assert section in cells[number], f"{one.id}: {one.lesson}"


def test_ids_and_sentences():
    for one in RULES.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", one.id)
        assert one.why.endswith(".")
