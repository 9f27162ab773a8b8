"""Every exercise of notebooks 01 and 02: untouched, wrong and right answers."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import numpy as np
import pytest

from tutorial_lib.course.checks_01 import check_channels, check_recall, check_throughput
from tutorial_lib.course.checks_02 import check_dynamic_axes, check_fold
from tutorial_lib.errors import ExerciseError

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CONFUSION = np.array([[9, 1], [0, 5]]).repeat(5, axis=0).repeat(5, axis=1)  # any table whose rows and columns differ


def solutions(name: str) -> list[str]:
    cells = nbformat.read(NOTEBOOKS / name, as_version=4).cells
    texts = [cell.source for cell in cells if "solution" in cell.metadata.get("tags", [])]
    return [re.search(r"```python\n(.*?)```", text, re.S)[1] for text in texts]


def run(source: str, **given) -> dict:
    exec(source, given)
    return given


@pytest.mark.parametrize("check", [check_channels, lambda a: check_recall(a, CONFUSION), check_throughput,
                                   check_dynamic_axes, check_fold])  # fmt: skip
def test_untouched_stubs_are_not_wrong(check, capsys):
    check(...)
    assert capsys.readouterr().out.startswith("○ Not attempted")


def test_solutions_of_01_pass(capsys):
    class result:  # the notebook's own name
        confusion = CONFUSION

    first, second, third = solutions("01_train_checkpoint.ipynb")
    check_channels(run(first)["channels_out"])
    check_recall(run(second, result=result)["recall"], CONFUSION)
    check_throughput(run(third)["requests_per_s"])
    assert capsys.readouterr().out.count("✓") == 3


def test_solutions_of_02_pass(capsys):
    first, second = solutions("02_export_onnx.ipynb")
    check_dynamic_axes(run(first)["dynamic_axes"])
    check_fold(run(second)["fold"])
    assert capsys.readouterr().out.count("✓") == 2


@pytest.mark.parametrize(
    "answer",
    [
        lambda stem, growth, blocks: stem + growth * sum(blocks),  # no transition
        lambda stem, growth, blocks: (stem + growth * blocks[0]) // 2,  # one after the last block
        lambda stem, growth, blocks: 60,
        lambda stem, growth, blocks: None,
        lambda stem: 60,
        60,
    ],
)
def test_wrong_channels(answer):
    with pytest.raises(ExerciseError, match="yours"):
        check_channels(answer)


def test_wrong_recalls():
    for answer in (CONFUSION.diagonal(), CONFUSION.diagonal() / CONFUSION.sum(), np.ones(3), 0.9):
        with pytest.raises(ExerciseError):
            check_recall(answer, CONFUSION)
    with pytest.raises(ExerciseError, match="precision"):
        check_recall(CONFUSION.diagonal() / CONFUSION.sum(axis=0), CONFUSION)


@pytest.mark.parametrize(
    "answer",
    [lambda c, ms: c / ms, lambda c, ms: 1000 / ms, lambda c, ms: c * ms / 1000, lambda c, ms: None],
)
def test_wrong_rates(answer):
    with pytest.raises(ExerciseError, match="expected"):
        check_throughput(answer)


BATCH, BOTH = {0: "batch"}, {0: "batch", 1: "sequence"}


@pytest.mark.parametrize(
    "answer",
    [
        {"input_ids": BATCH, "attention_mask": BATCH, "scores": BATCH},
        {"input_ids": BOTH, "attention_mask": BOTH, "scores": BOTH},
        {"input_ids": BOTH},
        {"ids": BOTH, "attention_mask": BOTH, "scores": BATCH},
        {},
        ["batch"],
        None,
    ],
    ids=["batch only", "output too open", "mask forgotten", "wrong name", "empty", "list", "none"],
)
def test_wrong_axes(answer):
    with pytest.raises(ExerciseError):
        check_dynamic_axes(answer)


def test_wrong_folds():
    def no_eps(weight, gamma, beta, mean, var, eps):
        scale = gamma / var.sqrt()
        return weight * scale[:, None, None, None], beta - mean * scale

    def mean_unscaled(weight, gamma, beta, mean, var, eps):
        scale = gamma / (var + eps).sqrt()
        return weight * scale[:, None, None, None], beta - mean

    for answer in (no_eps, mean_unscaled, lambda *a: None, lambda w, g, b, m, v, e: (w[0], b)):
        with pytest.raises(ExerciseError):
            check_fold(answer)
