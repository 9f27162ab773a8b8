"""The appendix notebook: its form, and that it takes the course's model and files that are quite different."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.server.conftest import save_onnx
from tutorial_lib.paths import NOTEBOOKS, WORKSPACE_VARIABLE
from tutorial_lib.runner import appendices, available, run_notebooks, select
from tutorial_lib.runner.parameters import check_parameters

NOTEBOOK = NOTEBOOKS / "bring_your_own_model.ipynb"
PARAMETERS = {"MODE": "quick", "TRITON_URL": "", "REPOSITORY": "", "SEED": 0}
node = helper.make_node


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def run(folder: Path, monkeypatch, notebook=None):
    """The report's entry of one run, in a workspace of its own."""
    path = folder / NOTEBOOK.name if notebook else NOTEBOOK
    if notebook:
        nbformat.write(notebook, path)
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(folder / "workspace"))
    done = run_notebooks([path], timeout_s=170, cwd=NOTEBOOKS)
    entry = json.loads((done.folder / "report.json").read_text())["notebooks"][0]
    assert entry["status"] == "passed", (entry["reason"], (entry["cell"] or {}).get("error", ""))
    assert entry["left"] == []
    return entry


def with_model(notebook, path: Path, example: str = "{}"):
    cell = next(cell for cell in notebook.cells if cell.id == "model")
    assert cell.source.startswith('MODEL = ""')
    cell.source = f"MODEL = {str(path)!r}\nEXAMPLE = {example}"
    return notebook


def test_it_comes_after_the_course_and_can_be_named():
    assert appendices() == [NOTEBOOK]
    assert NOTEBOOK not in available()
    assert select() == [*available(), NOTEBOOK]
    for word in ("bring_your_own_model", "notebooks/bring_your_own_model.ipynb", "own"):
        assert select([word]) == [NOTEBOOK]


def test_its_form(notebook):
    nbformat.validate(notebook)
    check_parameters(notebook, PARAMETERS, name=NOTEBOOK.stem)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert max(len(cell.source.splitlines()) for cell in code) <= 25
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells) in range(30, 71)
    assert len(prose.split()) in range(800, 2001)
    assert re.search("by the end you can", prose, re.I)
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose):
        assert (NOTEBOOKS / target).exists(), target


def test_the_course_model(tmp_path, monkeypatch):
    entry = run(tmp_path, monkeypatch)
    assert entry["numbers"]["largest_difference"]["value"] <= 1e-4
    assert entry["numbers"]["samples_per_run"]["value"] >= 1
    assert entry["seconds"] < 150


def test_a_model_without_a_batch_with_a_scalar_texts_and_a_state(tmp_path, monkeypatch, notebook):
    inputs = [("x", TensorProto.FLOAT, [1, "time"]), ("state", TensorProto.FLOAT, [2, 1, 4]),
              ("rate", TensorProto.INT64, []), ("who", TensorProto.STRING, [1])]  # fmt: skip
    nodes = [node("Cast", ["rate"], ["r"], to=TensorProto.FLOAT), node("Mul", ["x", "r"], ["y"]),
             node("ReduceSum", ["y"], ["sum"], keepdims=0), node("Identity", ["state"], ["next"]),
             node("Identity", ["who"], ["said"])]  # fmt: skip
    outputs = [("y", TensorProto.FLOAT, [1, "time"]), ("sum", TensorProto.FLOAT, []),
               ("next", TensorProto.FLOAT, [2, 1, 4]), ("said", TensorProto.STRING, [1])]  # fmt: skip
    path = save_onnx(tmp_path / "my state net.onnx", nodes, inputs, outputs)
    entry = run(tmp_path, monkeypatch, with_model(notebook, path, '{"rate": np.array(3), "who": np.array(["grün"])}'))
    assert entry["numbers"]["samples_per_run"]["value"] == 1


def test_a_batched_model_with_one_value_for_each_sample(tmp_path, monkeypatch, notebook):
    path = save_onnx(
        tmp_path / "score.onnx",
        [node("ReduceSum", ["x", "last"], ["y"], keepdims=0)],
        [("x", TensorProto.INT32, [None, 5])],
        [("y", TensorProto.INT32, [None])],
        {"last": np.array([1])},
    )
    assert run(tmp_path, monkeypatch, with_model(notebook, path))["numbers"]["largest_difference"]["value"] == 0


def test_a_file_that_cannot_be_served_stops_with_the_reason(tmp_path, monkeypatch, notebook):
    iris = Path(onnxruntime.__file__).parent / "datasets" / "logreg_iris.onnx"
    nbformat.write(with_model(notebook, iris), tmp_path / NOTEBOOK.name)
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    done = run_notebooks([tmp_path / NOTEBOOK.name], timeout_s=170, cwd=NOTEBOOKS)
    entry = json.loads((done.folder / "report.json").read_text())["notebooks"][0]
    assert entry["status"] == "failed"
    assert "zipmap" in entry["reason"] + str(entry["cell"])
