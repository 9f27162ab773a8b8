"""Sections that findings lead to, their table, and broken copies to read."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.server.conftest import save_onnx
from tutorial_lib.course import scratch
from tutorial_lib.course.broken_copies import broken_copies, lab_names
from tutorial_lib.course.catch_up import export_path
from tutorial_lib.course.checks_04 import BATCH_CASES
from tutorial_lib.course.lessons import find_lesson, findings_table
from tutorial_lib.errors import NotebookError
from tutorial_lib.models.names import IMAGE_SHAPE, INPUT_NAME, OUTPUT_NAME
from tutorial_lib.paths import NOTEBOOKS, WORKSPACE_VARIABLE, workspace
from tutorial_lib.repository.lint import RULES, lint_repository


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """The repositories of all labs of notebook 04."""
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    space = workspace()
    monkeypatch.setattr(scratch, "catch_up", lambda step, **_: space)
    save_onnx(
        export_path(space),
        [helper.make_node("Flatten", [INPUT_NAME], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["fc6_1"])],
        [(INPUT_NAME, TensorProto.FLOAT, ["batch", *IMAGE_SHAPE])],
        [(OUTPUT_NAME, TensorProto.FLOAT, ["batch", 10])],
        {"w": np.zeros((int(np.prod(IMAGE_SHAPE)), 10), np.float32)},
    )
    return broken_copies(tmp_path / "copies", *lab_names("04"))


@pytest.mark.parametrize("lesson", sorted({one.lesson for one in RULES.values() if one.lesson}))
def test_every_lesson_of_a_rule_is_a_section_with_a_heading(lesson):
    section = find_lesson(lesson)
    assert section.notebook.startswith(lesson[:2]) and (NOTEBOOKS / section.notebook).is_file()
    assert re.match(r"\d+\. .+\?$", section.title), "sections open with a question"
    assert section.href == f"{section.notebook}#cell-id={section.cell}"


@pytest.mark.parametrize("lesson", ["04#nowhere", "77#fields-question", "04", "04#head"])
def test_no_such_lesson(lesson):
    with pytest.raises(NotebookError, match=f"lesson '{lesson}': found no such section"):
        find_lesson(lesson)


def test_what_the_linter_says_to_the_labs_of_04(copies):
    """Every lab but the served one, each by the rule of its own mistake."""
    found = {lab: lint_repository(copy).errors.rules() for lab, copy in copies.items()}
    assert found == {
        "batch_in_dims": {"batch-in-dims"},
        "wrong_dtype": {"wrong-data-type"},
        "misspelt_output": {"unknown-tensor"},
        "missing_version_folder": {"version-folder"},
        "missing_comma": {"missing-comma"},
        "misspelt_field": {"unknown-field"},
        "renamed_folder": {"name-differs"},
        "absent_version": {"version-policy"},
        "preferred_size": {"batching-contradiction"},
        "scalar_output": {"rank-needs-reshape"},
        "swapped_map": {"ensemble-map"},
        "other_type": set(),
    }


def test_the_table_links_and_escapes(copies):
    table = findings_table(
        {"<b>": lint_repository(copies["batch_in_dims"]), "none": lint_repository(copies["other_type"])}
    )
    text = table.to_html()
    assert "&lt;b&gt;" in text and "<b>" not in text
    assert f'href="{find_lesson("04#dims-question").href}"' in text
    assert "none" not in text and "densenet_onnx/config.pbtxt:9" in text


def test_copies_are_made_anew_and_an_unknown_lab_makes_none(copies, tmp_path):
    edited = copies["renamed_folder"] / "densenet_onnx" / "config.pbtxt"
    before = edited.read_text()
    edited.write_text("mine")
    assert broken_copies(tmp_path / "copies", "renamed_folder") == {"renamed_folder": copies["renamed_folder"]}
    assert edited.read_text() == before
    with pytest.raises(NotebookError, match="no lab 'no_such'"):
        broken_copies(tmp_path / "other", "renamed_folder", "no_such")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("case", BATCH_CASES, ids=str)
def test_the_cases_of_the_lint_exercise_are_the_linters_verdicts(case, tmp_path):
    max_batch_size, dims, rank, expected = case
    inner = dims[1:] if len(dims) == rank else dims
    shape = ["batch", *("open" if size == -1 else size for size in inner)]
    path = tmp_path / "net" / "1" / "model.onnx"
    save_onnx(
        path,
        [helper.make_node("Relu", ["x"], ["y"])],
        [("x", TensorProto.FLOAT, shape)],
        [("y", TensorProto.FLOAT, shape)],
    )
    right = dims if max_batch_size == 0 else inner
    lines = [f'input [ {{ name: "x" data_type: TYPE_FP32 dims: {list(dims)} }} ]']
    lines += [f'output [ {{ name: "y" data_type: TYPE_FP32 dims: {list(right)} }} ]']
    text = "\n".join(['backend: "onnxruntime"', f"max_batch_size: {max_batch_size}", *lines])
    (tmp_path / "net" / "config.pbtxt").write_text(text)
    assert len(shape) == rank
    assert ("batch-in-dims" in lint_repository(tmp_path).rules()) is expected
