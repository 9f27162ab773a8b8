"""Layout and configuration of model repositories."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tritonclient.grpc.model_config_pb2 import TYPE_FP32

from tutorial_lib.errors import RepositoryError
from tutorial_lib.models.names import CLASSES, IMAGE_SHAPE, INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.paths import REFERENCE_REPOSITORY
from tutorial_lib.repository import check_against_onnx, find_repository, models_of, parse_config, read_config


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "models"
    (root / "net" / "1").mkdir(parents=True)
    (root / "net" / "3").mkdir()
    (root / "net" / "1" / "model.onnx").write_bytes(b"")
    (root / "net" / "config.pbtxt").write_text('backend: "onnxruntime"')
    (root / ".ipynb_checkpoints").mkdir()
    return root


def test_models_and_versions(repository):
    (model,) = models_of(repository)
    assert (model.name, model.versions, model.config) == ("net", (1, 3), repository / "net" / "config.pbtxt")
    assert find_repository(str(repository)) == repository.resolve()


def test_not_there_lists_what_is(repository):
    with pytest.raises(RepositoryError, match=r"does not exist; .* holds: models"):
        find_repository(repository.parent / "model_repository")


@pytest.mark.parametrize(
    ("below", "says"),
    [
        ("net", "one level too deep.*Give its parent: {root}"),
        ("net/1", "two levels too deep.*Give the repository: {root}"),
        ("net/1/model.onnx", "found a file.*: {root}"),
        ("..", "one level too high.*Give {root}"),
    ],
)
def test_one_level_off(repository, below, says):
    with pytest.raises(RepositoryError, match=says.format(root=repository)):
        find_repository(repository / below)


def test_a_stray_configuration_beside_the_models(repository):
    (repository / "config.pbtxt").write_text('backend: "python"')
    assert find_repository(repository) == repository.resolve()
    assert [model.name for model in models_of(repository)] == ["net"]


def test_empty(tmp_path):
    with pytest.raises(RepositoryError, match="holds no model folder"):
        find_repository(tmp_path)


def test_a_repository_of_strange_models_is_left_to_triton(tmp_path):
    (tmp_path / "odd" / "weights").mkdir(parents=True)
    assert find_repository(tmp_path) == tmp_path.resolve()


def save(path, inputs, outputs, nodes, weights=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*entry) for entry in inputs],
        [helper.make_tensor_value_info(*entry) for entry in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    onnx.save(helper.make_model(graph), path)
    return path


@pytest.fixture
def relu(tmp_path):
    ends = [("x", TensorProto.FLOAT, ["n", 3])], [("y", TensorProto.FLOAT, ["n", 3])]
    return save(tmp_path / "relu.onnx", *ends, [helper.make_node("Relu", ["x"], ["y"])])


GOOD = """
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]
"""


def test_a_configuration_that_agrees(relu):
    config = parse_config(GOOD)
    assert (config.max_batch_size, config.input[0].data_type, list(config.input[0].dims)) == (4, TYPE_FP32, [3])
    check_against_onnx(config, relu)
    check_against_onnx(parse_config(GOOD.replace("dims: [ 3 ]", "dims: [ -1, 3 ]").replace("4", "0")), relu)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('"x"', '"image"'), "no input 'x', which the ONNX graph needs"),
        (('"y"', '"z"'), "no such output; it has: y"),
        (("TYPE_FP32", "TYPE_INT64"), r"says TYPE_INT64, the ONNX graph says TYPE_FP32\. Write data_type: TYPE_FP32"),
        (("dims: [ 3 ]", "dims: [ 1, 3 ]"), r"start with the batch although max_batch_size is 4\. Write dims: \[3\]"),
        (("dims: [ 3 ]", "dims: [ 4 ]"), r"dims are \[4\], the ONNX graph has \[3\]"),
        (("max_batch_size: 4", ""), r"dims are \[3\], the ONNX graph has \[-1, 3\]"),
    ],
)
def test_disagreements(relu, change, says):
    with pytest.raises(RepositoryError, match=says):
        check_against_onnx(parse_config(GOOD.replace(*change)), relu)


def test_a_fixed_batch_axis_cannot_batch(tmp_path):
    ends = [("x", TensorProto.FLOAT, [1, 3])], [("y", TensorProto.FLOAT, [1, 3])]
    path = save(tmp_path / "fixed.onnx", *ends, [helper.make_node("Relu", ["x"], ["y"])])
    with pytest.raises(RepositoryError, match=r"first axis is not free: \[1, 3\]"):
        check_against_onnx(parse_config(GOOD), path)


def test_weights_listed_as_inputs_are_not_inputs(tmp_path):
    ends = (
        [("x", TensorProto.FLOAT, ["n", 3]), ("w", TensorProto.FLOAT, [3])],
        [("y", TensorProto.FLOAT, ["n", 3])],
    )
    node = helper.make_node("Add", ["x", "w"], ["y"])
    check_against_onnx(parse_config(GOOD), save(tmp_path / "w.onnx", *ends, [node], [("w", np.ones(3, np.float32))]))


def test_not_an_onnx_file(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(RepositoryError, match="model.onnx"):
        check_against_onnx(parse_config(GOOD), tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("max_batch_size: ${size}", "1:17", "parse integer"),
        ('input [ { name: "x" }', "", "Expected"),
        ("instance_group [ { counts: 2 } ]", "1:20", 'no field named "counts"'),
        ("max_batch_size: 4\nmax_batch_size: 5", "2:1", "should not have multiple"),
    ],
)
def test_what_cannot_be_parsed_says_where(text, where, says):
    with pytest.raises(RepositoryError, match=says) as caught:
        parse_config(text, source="net/config.pbtxt")
    assert caught.value.problem.startswith(f"net/config.pbtxt{':' if where else ''}{where}")


def test_a_configuration_that_is_not_text(tmp_path):
    (tmp_path / "config.pbtxt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RepositoryError, match="cannot be read as text"):
        read_config(tmp_path)
    with pytest.raises(RepositoryError, match="cannot be read as text"):
        read_config(tmp_path / "missing.pbtxt")


def test_the_reference_repository_uses_the_course_names():
    config = read_config(REFERENCE_REPOSITORY / MODEL_NAME)
    assert config.name == MODEL_NAME
    assert (config.input[0].name, tuple(config.input[0].dims)) == (INPUT_NAME, IMAGE_SHAPE)
    assert (config.output[0].name, list(config.output[0].dims)) == (OUTPUT_NAME, [len(CLASSES)])
    labels = (REFERENCE_REPOSITORY / MODEL_NAME / config.output[0].label_filename).read_text().splitlines()
    assert tuple(labels) == CLASSES
    for model in models_of(REFERENCE_REPOSITORY):
        assert read_config(model.path).name == model.name


def test_a_folder_with_a_leading_zero_is_no_version(tmp_path):
    for name in ("01", "0", "١", "2"):
        (tmp_path / "net" / name).mkdir(parents=True)
    assert models_of(tmp_path)[0].versions == (2,)
    assert find_repository(tmp_path) == tmp_path.resolve()


@pytest.mark.parametrize("what", ["pipe", "device"])
def test_a_configuration_that_would_never_end_is_not_read(what, tmp_path):
    path = tmp_path / "config.pbtxt"
    os.mkfifo(path) if what == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(RepositoryError, match="found a pipe or a device"):
        read_config(tmp_path)
