"""The linter on the cases: their right outcome, and silence on what Triton loads."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tutorial_lib.paths import CHECKOUT, REFERENCE_REPOSITORY
from tutorial_lib.repository.findings import Findings
from tutorial_lib.repository.lint import lint_repository

CASES = CHECKOUT / "tests" / "cases"

# case → model → what the linter has to say; a model that is not named here has no error and no warning
RIGHT = {
    "01": {"shoe_net": "error batch-in-dims"},
    "02": {"parcel_cls": "error fixed-batch"},
    "04": {"sentence_emb": "warning batching-without-batch"},
    "06": {"upscaler": "error output-narrower"},
    "08": {"box_finder": "error unbatched-side-input"},
    "10": {"fraud_score": "error rank-needs-reshape"},
    "11": {"beam_step": "error scalar-dims"},
    "13": {"guided": "error empty-dims"},
    "14": {"basket_rec": "error wrong-data-type"},
    "16": {"sentiment": "error unknown-tensor"},
    "17": {"old_export": "error initializer-as-input"},
    "19": {"fresh_export": "error model-too-new", "fresh_opset": "error model-too-new"},
    "21": {"postproc": "error placeholder"},
    "22": {"classifier": "error unknown-field"},
    "23": {"detector": "error missing-comma", "two_blocks": "error missing-comma"},
    "24": dict.fromkeys(("from_json", "half_json", "yaml_list"), "error json-config"),
    "26": {f"{name}": "error unknown-backend" for name in
           ("b_onnx", "b_ort", "b_onnxruntime_onnx", "b_trtplan", "p_onnx", "both_mixed")},
    "27": {"cats_v2": "error name-differs"},
    "29": {"pricing": "error version-policy", "partly": "warning version-policy", "newest": "info version-policy"},
    "30": {".git": "error stray-folder", "__pycache__": "error stray-folder", "good": "info stray-folder"},
    "32": {"yolo": "error model-file-name"},
    "33": {"pipeline": "error ensemble-map", "pipeline_out": "error ensemble-map"},
    "35": {"pipeline": "error ensemble-type"},
    "36": {"pipeline": "error ensemble-shape"},
    "37": {f"pipeline{end}": "error ensemble-scheduling" for end in ("", "_be", "_ig", "_warm")},
    "39": {"pipeline": "error ensemble-model-missing", "broken": "error python-package",
           "pipeline2": "error ensemble-step-broken"},
    "41": dict.fromkeys(("w_wrong_key", "w_wrong_dims", "w_wrong_type", "w_png", "w_nofile"), "error warmup")
          | dict.fromkeys(("w_batch0", "w_no_data"), "warning warmup"),
    "43": dict.fromkeys(
        ("neg_batch", "pref_no_max", "pref_too_big", "pref_zero", "two_schedulers"), "error batching-contradiction"
    ),
    "44": dict.fromkeys(("g_gpu", "g_gpu_id", "g_auto", "g_cpu_with_gpus"), "error instance-group"),
    "46": {"control_no_pair": "error sequence-control", "control_listed_twice": "warning sequence-control"},
    "47": {"text_len": "info mixed-shapes"},
    "49": {"slowpoke": "warning queue-delay"},
    "51": {"none": "error no-return"},
    "52": {"f64": "error python-output"},
    "53": {"crash": "warning optional-input"},
    "55": {"unicode_dtype": "error python-output"},
    "58": dict.fromkeys(("syntax", "no_class", "init_args", "no_execute"), "error python-model"),
    "76": {"tagger_uint8": "error wrong-data-type"},
}  # fmt: skip
# the batches of case 47 are only seen because its requests wait long
ALSO = {("47", "text_len"): "queue-delay", ("47", "text_len_ragged"): "queue-delay"}
# load, and then fail or mislead whoever asks: see the cases
WRONG_LATER = {"none", "f64", "unicode_dtype", "no_execute"}

FOLDERS = sorted(path for path in CASES.iterdir() if (path / "model_repository").is_dir())


@pytest.fixture(scope="module")
def linted(tmp_path_factory) -> dict[str, tuple[Path, Findings]]:
    """case → its repository with all that is made, and the findings."""
    found = {}
    for case in FOLDERS:
        root = tmp_path_factory.mktemp(case.name) / "repository"
        shutil.copytree(case / "model_repository", root)
        for script in ("make_model.py", "setup_files.py"):
            if (case / script).exists():
                subprocess.run([sys.executable, str(case / script)], cwd=root, check=True)
        found[case.name[:2]] = (root, lint_repository(root))
    return found


@pytest.mark.parametrize("number", [case.name[:2] for case in FOLDERS])
def test_right_outcome(number: str, linted):
    root, findings = linted[number]
    expected = RIGHT.get(number, {})
    for model in sorted({path.name for path in root.iterdir() if path.is_dir()} | set(expected)):
        said = {f"{one.severity} {one.rule}" for one in findings.of(model)}
        serious = {one for one in said if not one.startswith("info")} - {f"warning {ALSO.get((number, model))}"}
        if model in expected:
            assert expected[model] in said
            serious.discard(expected[model])
        assert not serious, f"{model}: {serious}"


@pytest.mark.parametrize("case", FOLDERS, ids=lambda case: case.name[:2])
def test_no_error_where_the_observed_triton_loads(case: Path, linted):
    observed = (case / "observed.txt").read_text(encoding="utf-8")
    ready = set(re.findall(r"^\|\s*(\S+)\s*\|\s*\d+\s*\|\s*READY\s*\|", observed, re.M))
    findings = linted[case.name[:2]][1]
    alarms = {one.model for one in findings.errors} & ready
    assert alarms <= WRONG_LATER


@pytest.mark.parametrize("case", FOLDERS, ids=lambda case: case.name[:2])
def test_corrected_configurations_are_clean(case: Path, linted, tmp_path):
    for config in sorted((case / "expected_config").glob("*.pbtxt")):
        shutil.copytree(linted[case.name[:2]][0] / config.stem, tmp_path / config.stem)
        shutil.copyfile(config, tmp_path / config.stem / "config.pbtxt")
    findings = lint_repository(tmp_path) if any(tmp_path.iterdir()) else ()
    # the one of case 04 still waits 50 ms
    assert not [str(one) for one in findings if one.severity != "info" and one.rule != "queue-delay"]


@pytest.mark.parametrize("tier", ["embedded", "container"])
@pytest.mark.parametrize("gpus", [0, 1])
def test_no_false_alarm_on_the_own_repository(tier: str, gpus: int):
    findings = lint_repository(REFERENCE_REPOSITORY, tier=tier, gpus=gpus)
    assert not [str(one) for one in findings if one.severity != "info"]


def test_places(linted):
    """Findings point at the line that a person would change."""
    places = {(one.model, one.rule): one.place for _, findings in linted.values() for one in findings}
    assert places["postproc", "placeholder"] == "postproc/config.pbtxt:3"
    assert places["classifier", "unknown-field"] == "classifier/config.pbtxt:6"
    assert places["detector", "missing-comma"] == "detector/config.pbtxt:7"
    assert places["two_blocks", "missing-comma"] == "two_blocks/config.pbtxt:5"
    assert places["none", "no-return"] == "none/1/model.py:5"
    assert places["control_no_pair", "sequence-control"] == "control_no_pair/config.pbtxt:8"


def test_fixes_say_what_the_cases_ask_for(linted):
    said: dict[tuple[str, str], str] = {}
    for one in (one for _, findings in linted.values() for one in findings):
        said[one.model, one.rule] = f"{said.get((one.model, one.rule), '')} {one.message} {one.fix}"
    assert "Key and value are swapped." in said["pipeline", "ensemble-map"]
    assert '"mid"' in said["pipeline_out", "ensemble-map"]
    assert "dims: [ 1 ] reshape { shape: [ ] }" in said["fraud_score", "rank-needs-reshape"]
    assert "dims: [ -1, -1, -1, -1 ]" in said["upscaler", "output-narrower"]
    assert "TYPE_INT64" in said["basket_rec", "wrong-data-type"]
    assert "logits" in said["sentiment", "unknown-tensor"]
    assert "dims: [ 256 ]" in said["sentence_emb", "batching-without-batch"]
    assert 'model_name: "net"' in said["pipeline", "ensemble-model-missing"]
    assert "max_batch_size is 0 or missing" in said["pref_no_max", "batching-contradiction"]
    assert (
        "max_batch_size: 0" in said["parcel_cls", "fixed-batch"]
        and "[ 1, 3, 4, 4 ]" in said["parcel_cls", "fixed-batch"]
    )
    assert "yolo_best.onnx" in said["yolo", "model-file-name"]
