"""Generated configurations: against the cases that a real Triton 24.10 judged, and what must be refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.unit.onnx_files import FLOAT, INT64, relu, save
from tutorial_lib.errors import ExportError, RepositoryError, WorkshopError
from tutorial_lib.paths import CHECKOUT
from tutorial_lib.repository import check_against_onnx, generate_config, parse_config, read_config

node = helper.make_node
CASES = CHECKOUT / "tests" / "cases"
EXPECTED = sorted(
    path for path in CASES.glob("*/expected_config/*.pbtxt") if (path.parent.parent / "make_model.py").exists()
)


def made(case: Path, folder: Path) -> Path:
    subprocess.run([sys.executable, str(case / "make_model.py")], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda path: f"{path.parent.parent.name[:2]}-{path.stem}")
def test_the_right_configuration_of_each_case(tmp_path, expected):
    wanted = read_config(expected)
    file = wanted.default_model_filename or "model.onnx"
    text = generate_config(
        made(expected.parent.parent, tmp_path) / expected.stem / "1" / file,
        max_batch_size=wanted.max_batch_size or None,
        model_filename=file,
    )
    found = parse_config(text)
    assert found.max_batch_size == wanted.max_batch_size
    assert {entry.name: entry for entry in found.input} == {entry.name: entry for entry in wanted.input}
    assert {entry.name: entry for entry in found.output} == {entry.name: entry for entry in wanted.output}
    assert (found.backend, found.default_model_filename) == (wanted.backend, wanted.default_model_filename)


def test_there_are_enough_cases():
    assert {path.parent.parent.name[:2] for path in EXPECTED} >= {"01", "02", "06", "08", "10", "11", "13", "17", "76"}


@pytest.mark.parametrize(
    ("number", "model", "culprit"),
    [
        ("02", "parcel_cls", "input 'pixels'"),
        ("08", "box_finder", "input 'frame_size'"),
        ("11", "beam_step", "input 'scale'"),
    ],
)
def test_a_comment_names_the_tensor_that_rules_batching_out(tmp_path, number, model, culprit):
    path = made(next(CASES.glob(f"{number}-*")), tmp_path) / model / "1" / "model.onnx"
    text = generate_config(path)
    comment = next(block for block in text.split("\n\n") if "max_batch_size" in block)
    assert f"because {culprit}" in joined(comment)
    with pytest.raises(RepositoryError, match=f"max_batch_size 8 was asked for, but {culprit}"):
        generate_config(path, max_batch_size=8)


def joined(text: str) -> str:
    return re.sub(r"\s*\n#\s*", " ", text)


def test_a_file_newer_than_the_server_is_refused(tmp_path):
    folder = made(next(CASES.glob("19-*")), tmp_path)
    with pytest.raises(ExportError, match="IR version 11, expected IR version 10 or lower.*24.10"):
        generate_config(folder / "fresh_export" / "1" / "model.onnx")
    path = folder / "fresh_opset" / "1" / "model.onnx"
    with pytest.raises(ExportError, match="opset 22, expected opset 21 or lower"):
        generate_config(path)
    assert parse_config(generate_config(path, release="25.03")).max_batch_size == 8
    with pytest.raises(RepositoryError, match="release: found '1.0', expected one of"):
        generate_config(path, release="1.0")


def test_options_are_written_and_checked_against_the_graph(tmp_path):
    path = relu(tmp_path / "m.onnx")
    text = generate_config(path, name="m", max_batch_size=5, instances=3, queue_delay_us=200, labels=["a", "b", "c"])
    config = parse_config(text)
    check_against_onnx(config, path)
    assert (config.name, config.max_batch_size) == ("m", 5)
    assert [(group.count, group.kind) for group in config.instance_group] == [(3, config.instance_group[0].KIND_AUTO)]
    assert config.dynamic_batching.max_queue_delay_microseconds == 200
    assert config.output[0].label_filename == "labels.txt"
    plain = parse_config(generate_config(path))
    assert plain.HasField("dynamic_batching") and not plain.instance_group and not plain.name
    none = parse_config(generate_config(path, max_batch_size=0))
    assert list(none.input[0].dims) == [-1, 3] and not none.HasField("dynamic_batching")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_batch_size": -1}, "max_batch_size: found -1"),
        ({"instances": 0}, "instances: found 0"),
        ({"queue_delay_us": -5}, "queue_delay_us: found -5"),
        ({"max_batch_size": 0, "queue_delay_us": 5}, "nothing to wait for"),
        ({"labels": ["a", "b"]}, "found 2 labels.*'y' has 3"),
        ({"labels": ["a", "", "c"]}, "number 2"),
        ({"labels": ["a", "b\nc", "d"]}, "number 2"),
        ({"labels": []}, "labels: found none"),
        ({"labels": "no-such-file.txt"}, "no-such-file.txt"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path, options, message):
    with pytest.raises(RepositoryError, match=message):
        generate_config(relu(tmp_path / "m.onnx"), **options)


def test_labels_go_to_the_output_with_as_many_classes(tmp_path):
    path = save(
        tmp_path / "m.onnx", [node("Relu", ["x"], ["y"]), node("ReduceSum", ["x"], ["s"], keepdims=0)],
        [("x", FLOAT, [2, 3])], [("s", FLOAT, []), ("y", FLOAT, [2, 3])],
    )  # fmt: skip
    (tmp_path / "names.txt").write_bytes("\ufeffÄpfel\r\nnuts\r\noats\r\n".encode())
    outputs = parse_config(generate_config(path, labels=tmp_path / "names.txt")).output
    assert [(entry.name, entry.label_filename) for entry in outputs] == [("s", ""), ("y", "labels.txt")]


def test_sequences_and_maps_are_refused_with_the_way_out():
    path = Path(onnxruntime.__file__).parent / "datasets" / "logreg_iris.onnx"  # a real one, from scikit-learn
    with pytest.raises(ExportError, match=r"'probabilities': found seq\(map\(.*ZipMap.*zipmap"):
        generate_config(path)


def test_a_sequence_that_is_no_zipmap_is_refused(tmp_path):
    sequence = helper.make_tensor_sequence_value_info("y", FLOAT, None)
    path = save(tmp_path / "m.onnx", [node("SplitToSequence", ["x"], ["y"])], [("x", FLOAT, ["n", 3])], [sequence])
    with pytest.raises(
        ExportError, match=r"'y': found seq\(tensor\(float\)\), expected a tensor. Export it as tensors"
    ):
        generate_config(path)


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN])
def test_types_that_the_backend_has_not_are_refused(tmp_path, kind):
    path = save(
        tmp_path / "m.onnx",
        [node("Cast", ["x"], ["y"], to=kind)],
        [("x", FLOAT, ["n"])],
        [("y", kind, ["n"])],
        opset=19,
    )
    with pytest.raises(ExportError, match="no type.*Cast"):
        generate_config(path)


def test_an_unknown_rank_is_not_taken_for_a_scalar(tmp_path):
    unknown = onnx.ValueInfoProto(name="y")
    unknown.type.tensor_type.elem_type = FLOAT
    weights = {"s": np.array([2, -1])}
    path = save(
        tmp_path / "m.onnx", [node("Reshape", ["x", "n"], ["y"])], [("x", FLOAT, [6]), ("n", INT64, ["k"])], [unknown]
    )
    with pytest.raises(ExportError, match="'y': the file does not say how many axes"):
        generate_config(path)
    path = save(tmp_path / "k.onnx", [node("Reshape", ["x", "s"], ["y"])], [("x", FLOAT, [6])], [unknown], weights)
    assert list(parse_config(generate_config(path)).output[0].dims) == [2, 3]  # ONNX Runtime infers it
    path = save(tmp_path / "s.onnx", [node("ReduceSum", ["x"], ["y"], keepdims=0)], [("x", FLOAT, [6])], [unknown])
    assert list(parse_config(generate_config(path)).output[0].dims) == [1]  # a true scalar


def test_no_input_and_no_element_are_refused(tmp_path):
    path = save(
        tmp_path / "m.onnx", [node("Identity", ["w"], ["y"])], [], [("y", FLOAT, [2])], {"w": np.ones(2, np.float32)}
    )
    with pytest.raises(ExportError, match="found no input"):
        generate_config(path)
    with pytest.raises(ExportError, match=r"found the shape \[batch, 0\]"):
        generate_config(relu(tmp_path / "e.onnx", ("batch", 0)))


def test_custom_operators_need_their_library(tmp_path):
    path = save(
        tmp_path / "m.onnx", [node("Sparkle", ["x"], ["y"], domain="com.example")],
        [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])], domains=["com.example"],
    )  # fmt: skip
    with pytest.raises(ExportError, match=r"custom operators com.example:Sparkle.*op_library"):
        generate_config(path)
    (tmp_path / "lib.so").write_bytes(b"no library")
    with pytest.raises(ExportError, match="does not open it"):
        generate_config(path, op_library=tmp_path / "lib.so")


def test_functions_of_the_file_itself_are_no_custom_operators(tmp_path):
    path = save(
        tmp_path / "m.onnx", [node("Twice", ["x"], ["y"], domain="mine")],
        [("x", FLOAT, ["n", 2])], [("y", FLOAT, ["n", 2])], domains=["mine"],
    )  # fmt: skip
    model = onnx.load(path)
    body = [node("Add", ["a", "a"], ["b"])]
    model.functions.append(helper.make_function("mine", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    onnx.save(model, path)
    assert parse_config(generate_config(path)).max_batch_size == 8


HOSTILE = 'x" dims: [ 9 ] } ]\nmax_batch_size: 99\n#\r\u2028\u202e\\ \t'


def test_hostile_names_stay_names(tmp_path):
    path = relu(tmp_path / "m\nmax_batch_size: 77.onnx", (HOSTILE, 3), x=HOSTILE, y="käse/0:1")
    config = parse_config(generate_config(path))
    assert [entry.name for entry in (*config.input, *config.output)] == [HOSTILE, "käse/0:1"]
    assert (config.max_batch_size, list(config.input[0].dims)) == (8, [3])


@pytest.mark.parametrize("name", ["", "cut", "text", "folder", "none"])
def test_what_is_no_onnx_file_is_refused_in_words(tmp_path, name):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif name == "cut":
        path.write_bytes(relu(tmp_path / "m.onnx").read_bytes()[:40])
    elif name == "text":
        path.write_text("hello")
    elif name == "":
        path = tmp_path / "empty"
        path.touch()
    with pytest.raises(WorkshopError, match="ONNX file"):
        generate_config(path)


def test_the_command_prints_the_configuration_or_lays_the_model_out(tmp_path):
    path = relu(tmp_path / "my net.onnx")
    command = [sys.executable, "-m", "tutorial_lib", "config", str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert parse_config(told.stdout) == parse_config(generate_config(path))
    np.savez(tmp_path / "e.npz", x=np.ones((2, 3), np.float32))
    (tmp_path / "labels").write_text("a\nb\nc\n")
    options = ["--into", str(tmp_path / "r"), "--max-batch-size", "4", "--instances", "2", "--queue-delay-us", "10"]
    options += ["--labels", str(tmp_path / "labels"), "--example", str(tmp_path / "e.npz"), "--release", "24.05"]
    told = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    config = read_config(tmp_path / "r" / "my_net")
    assert (config.name, config.max_batch_size) == ("my_net", 4)
    assert (tmp_path / "r" / "my_net" / "labels.txt").read_text() == "a\nb\nc\n"
    assert f"wrote {tmp_path / 'r' / 'my_net' / '1' / 'model.onnx'}" in told.stdout
    again = subprocess.run([*command, *options], capture_output=True, text=True)
    assert again.returncode == 1
    assert "there is one already" in again.stderr and "Traceback" not in again.stderr
    shutil.copyfile(CHECKOUT / "README.md", path)
    again = subprocess.run([*command, *options, "--replace"], capture_output=True, text=True)
    assert "not a whole ONNX graph" in again.stderr and "Traceback" not in again.stderr
    assert read_config(tmp_path / "r" / "my_net") == config
