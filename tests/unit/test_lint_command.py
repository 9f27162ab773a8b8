"""`./workshop lint`: the exit status, the JSON form, the tiers; and how findings show in a notebook."""

from __future__ import annotations

import json
import re
import threading

import pytest
from typer.testing import CliRunner

from tests.unit.lint_examples import ECHO, NET, PY, X, Y
from tests.unit.onnx_files import relu
from tutorial_lib.cli import app
from tutorial_lib.paths import NOTEBOOKS, REFERENCE_REPOSITORY, WORKSPACE_VARIABLE
from tutorial_lib.repository.findings import Finding, Findings
from tutorial_lib.repository.lint import lint_repository
from tutorial_lib.repository.lint_bench import lint_seconds, make_repository

KEYS = {"rule", "severity", "model", "file", "line", "message", "found", "expected", "fix"}


def write(root, config=PY, name="m", source=ECHO):
    (root / name / "1").mkdir(parents=True)
    (root / name / "1" / "model.py").write_text(source)
    (root / name / "config.pbtxt").write_text(config)


def lint(*words):
    return CliRunner().invoke(app, ["lint", *map(str, words)])


def test_exit_status(tmp_path):
    write(tmp_path / "clean")
    write(tmp_path / "warned", PY + "dynamic_batching { max_queue_delay_microseconds: 1000000 }\n")
    write(tmp_path / "wrong", PY.replace("[ 4 ]", "[ 0 ]"))
    assert lint(tmp_path / "clean").exit_code == 0
    told = lint(tmp_path / "warned")
    assert told.exit_code == 0 and "0 errors, 1 warning, 0 notes" in told.output
    assert lint(tmp_path / "wrong").exit_code == 1
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "gone", tmp_path / "file"):
        told = lint(bad)
        assert told.exit_code == 2 and "expected a folder of model folders" in told.stderr and not told.stdout
    for words in (["--tier", "moon"], ["--release", "19.01"], ["--gpus", "-1"], ["--no-such-flag"]):
        assert lint(tmp_path / "clean", *words).exit_code == 2


def test_the_workspaces_repository_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path))
    write(tmp_path / "model_repository", PY.replace("[ 4 ]", "[ 0 ]"))
    assert "dims-value" in lint().output


def test_json_is_one_array_of_nine_fields(tmp_path):
    write(tmp_path, PY.replace("[ 4 ]", "[ 0 ]", 1) + 'name: "größe"\n')
    write(tmp_path, PY + "dynamic_batching { max_queue_delay_microseconds: 1000000 }\n", "slow")
    (tmp_path / "empty").mkdir()
    told = lint(tmp_path, "--json")
    found = json.loads(told.stdout)
    assert told.exit_code == 1 and isinstance(found, list) and all(one.keys() == KEYS for one in found)
    assert {one["rule"] for one in found} == {"dims-value", "name-differs", "queue-delay", "stray-folder"}
    assert all(isinstance(one["line"], int) for one in found)
    assert all(isinstance(one[key], str) for one in found for key in KEYS - {"line"})
    assert {one["severity"] for one in found} <= {"error", "warning", "info"}
    line = next(one for one in found if one["rule"] == "dims-value")
    assert (line["model"], line["file"], line["line"]) == ("m", "m/config.pbtxt", 3)
    assert json.loads(lint(tmp_path / "empty", "--json").stdout)[0]["model"] == ""  # the repository itself
    write(tmp_path / "clean")
    assert json.loads(lint(tmp_path / "clean", "--json").stdout) == []


def test_json_stays_json_beside_fixes(tmp_path):
    write(tmp_path, 'name: "other"\n' + PY)
    told = lint(tmp_path, "--json", "--fix")
    assert told.exit_code == 0 and json.loads(told.stdout) == [] and "-name" in told.stderr


def test_tiers(tmp_path):
    write(tmp_path, PY + "instance_group [ { kind: KIND_GPU } ]\n", source="import torch_geometric\n" + ECHO)
    (tmp_path / "plan" / "1").mkdir(parents=True)
    (tmp_path / "plan" / "config.pbtxt").write_text('backend: "tensorrt"\n')
    (tmp_path / "plan" / "1" / "model.plan").write_bytes(b"ftrt" + bytes(20) + bytes((9, 9, 9, 9)) + bytes(64))

    def rules(*words):
        return {
            (one["model"], one["rule"]): one["severity"] for one in json.loads(lint(tmp_path, "--json", *words).stdout)
        }

    here = rules()
    assert here["plan", "unknown-backend"] == here["m", "instance-group"] == here["m", "python-package"] == "error"
    there = rules("--tier", "container", "--gpus", 1)
    assert ("plan", "unknown-backend") not in there and ("m", "instance-group") not in there
    assert there["m", "python-package"] == "warning" and there["plan", "plan-version"] == "error"
    for tag, version in (("24.12", (10, 7, 0, 23)), ("24.10", (10, 5, 0, 18))):  # nobody says what 24.10 has
        (tmp_path / "plan" / "1" / "model.plan").write_bytes(b"ftrt" + bytes(20) + bytes(version) + bytes(64))
        assert ("plan", "plan-version") not in rules("--tier", "container", "--release", tag)
        assert ("plan", "plan-version") in rules("--tier", "container", "--release", "24.05")
    assert rules("--tier", "container")["m", "instance-group"] == "error"


def test_a_table_and_html_with_links(tmp_path):
    write(tmp_path, PY.replace("[ 4 ]", "[ 0 ]", 1).replace('"IN"', '"<b>IN"'))
    findings = lint_repository(tmp_path)
    frame = findings.frame()
    assert set(frame.columns) == KEYS and frame["rule"].tolist() == [one.rule for one in findings]
    page = findings._repr_html_()
    assert "<b>IN" not in page and "&lt;b&gt;IN" in page
    name, cell = re.search(r'<a href="([^"#]+)#cell-id=([\w-]+)">', page).groups()
    cells = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))["cells"]
    heading = next(one for one in cells if one["id"] == cell)
    assert heading["cell_type"] == "markdown" and "".join(heading["source"]).startswith("## ")
    assert f"notebooks/{name}#cell-id={cell}" in str(findings)
    assert Findings()._repr_html_() == "<p>No findings.</p>" and Findings().frame().empty
    assert Finding("r", "info", "m", "f", 0, "", "", "", "").link == ""


def test_our_own_repository_is_clean():
    assert not [str(one) for one in lint_repository(REFERENCE_REPOSITORY) if one.severity != "info"]


def test_the_benchs_repository_has_no_errors_and_its_rules_still_look(tmp_path):
    assert lint_seconds(20) > 0
    make_repository(tmp_path, 10)
    (tmp_path / "model_00003" / "1" / "model.onnx").write_bytes(b"")
    assert {(one.model, one.rule) for one in lint_repository(tmp_path).errors} == {("model_00003", "model-file")}


def test_a_repository_that_changes_while_it_is_read(tmp_path):
    """Files come and go between one look and the next; the linter may miss them, and may not fail."""
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(4):
                folder = tmp_path / f"m{number}"
                for path in (folder / "config.pbtxt", folder / "1" / "model.py", folder / "labels.txt"):
                    path.unlink(missing_ok=True)
                (folder / "1" / "model.onnx").unlink(missing_ok=True)
                (folder / "1").rmdir()
                (folder / "1").mkdir()
                relu(folder / "1" / "model.onnx")
                (folder / "1" / "model.py").write_text(ECHO)
                (folder / "labels.txt").write_text("a\nb\nc\nd\n")
                (folder / "config.pbtxt").write_text(
                    PY[:-4] + ' label_filename: "labels.txt" } ]' if number % 2 else NET + X + Y
                )

    for number in range(4):
        write(tmp_path, name=f"m{number}")
    worker = threading.Thread(target=churn)
    worker.start()
    try:
        for _ in range(60):
            lint_repository(tmp_path).json()
    finally:
        stop.set()
        worker.join()


@pytest.mark.parametrize("gone", ["1/model.py", "1/model.onnx", "warmup/w", "labels.txt", "1", "config.pbtxt"])
def test_what_is_gone_when_it_is_opened(gone, tmp_path, monkeypatch):
    """Each file vanishes after the look that found it."""
    from tutorial_lib.repository import view

    sample = '{ data_type: TYPE_FP32 dims: [ 4 ] input_data_file: "w" }'
    warm = f'model_warmup [ {{ name: "w" batch_size: 1 inputs {{ key: "IN" value {sample} }} }} ]\n'
    write(tmp_path, PY[:-4] + ' label_filename: "labels.txt" } ]\n' + warm)
    (tmp_path / "m" / "labels.txt").write_text("a\nb\nc\nd\n")
    (tmp_path / "m" / "warmup").mkdir()
    (tmp_path / "m" / "warmup" / "w").write_bytes(bytes(16))
    relu(tmp_path / "net" / "1" / "model.onnx")
    (tmp_path / "net" / "config.pbtxt").write_text(NET + X + Y)
    real = view.is_file

    def look(path) -> bool:
        there = real(path)
        if there and str(path).endswith(gone):
            path.unlink()
        return there

    for module in ("view", "rules.tensors", "rules.warmup", "rules.model_file"):
        monkeypatch.setattr(f"tutorial_lib.repository.{module}.is_file", look)
    lint_repository(tmp_path).json()
