"""Configurations of Python models from a spec, and of ensembles from a chain of models."""

from __future__ import annotations

import pytest

from tutorial_lib.errors import RepositoryError
from tutorial_lib.paths import REFERENCE_REPOSITORY
from tutorial_lib.repository import (
    Step,
    add_ensemble,
    ensemble_config,
    parse_config,
    python_model_config,
    read_config,
)

SPEC = {"inputs": {"image": "FP32 [-1, 8]"}, "outputs": {"ink": "FP32 [1]"}}


def test_a_python_model():
    config = parse_config(
        python_model_config(
            SPEC
            | {"name": "m", "max_batch_size": 4, "instances": 2, "queue_delay_us": 50, "parameters": {"a": "b\n"}}
            | {"inputs": {"image": "uint8[-1, 8]", "text": "BYTES [1] optional"}}
        )
    )
    assert (config.name, config.backend, config.max_batch_size) == ("m", "python", 4)
    assert [(e.name, list(e.dims), e.optional) for e in config.input] == [
        ("image", [-1, 8], False), ("text", [1], True),
    ]  # fmt: skip
    assert [e.data_type for e in config.input] == [2, 13]  # TYPE_UINT8, TYPE_STRING
    assert (config.instance_group[0].count, config.dynamic_batching.max_queue_delay_microseconds) == (2, 50)
    assert config.parameters["a"].string_value == "b\n"
    assert parse_config(python_model_config(SPEC | {"decoupled": True})).model_transaction_policy.decoupled


def test_the_reference_python_model_can_be_said_as_a_spec():
    reference = read_config(REFERENCE_REPOSITORY / "ink_meter")

    def said(entries):
        names = reference.input[0].DESCRIPTOR.fields_by_name["data_type"].enum_type.values_by_number
        return {entry.name: f"{names[entry.data_type].name} [{', '.join(map(str, entry.dims))}]" for entry in entries}

    spec = {"inputs": said(reference.input), "outputs": said(reference.output)}
    spec |= {"name": reference.name, "max_batch_size": reference.max_batch_size}
    config = parse_config(python_model_config(spec))
    assert (list(config.input), list(config.output)) == (list(reference.input), list(reference.output))
    assert (config.name, config.backend) == (reference.name, reference.backend)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_batchsize": 4}, "'max_batchsize'.*Did you mean 'max_batch_size'"),
        ({"inputs": {}}, "found no inputs"),
        ({"outputs": {"y": "FP31 [1]"}}, "type FP31.*Did you mean FP32"),
        ({"outputs": {"y": "FP32"}}, "expected a type and its axes"),
        ({"outputs": {"y": "FP32 []"}}, r"For one value write \[1\]"),
        ({"outputs": {"y": "FP32 [0]"}}, "numbers above zero"),
        ({"outputs": {"y": "FP32 [1] optional"}}, "only an input can be"),
        ({"queue_delay_us": 5}, "nothing to wait for"),
        ({"instances": 0}, "instances 0"),
        ({"max_batch_size": "4"}, "'4', expected a whole number"),
    ],
)
def test_specs_that_cannot_be_are_refused(change, message):
    with pytest.raises(RepositoryError, match=f"(?s){message}"):
        python_model_config(SPEC | change)


@pytest.fixture
def repository(tmp_path):
    def write(name, size, inputs, outputs):
        spec = {"name": name, "max_batch_size": size, "inputs": inputs, "outputs": outputs}
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.pbtxt").write_text(python_model_config(spec))

    write("pre", 16, {"file": "BYTES [1]"}, {"pixels": "FP32 [3, 32, 32]"})
    write("core", 8, {"data_0": "FP32 [3, -1, -1]"}, {"fc6_1": "FP32 [10]"})
    write("post", 32, {"scores": "FP32 [10]", "top": "INT64 [1]"}, {"label": "BYTES [1]", "pixels": "FP32 [2]"})
    write("ids", 8, {"data_0": "INT64 [3, -1, -1]"}, {"y": "FP32 [10]"})
    write("small", 8, {"data_0": "FP32 [3, 24, 24]"}, {"y": "FP32 [10]"})
    write("flat", 8, {"data_0": "FP32 [-1]"}, {"y": "FP32 [10]"})
    write("single", 0, {"data_0": "FP32 [-1, 3, 32, 32]"}, {"y": "FP32 [-1, 10]"})
    return tmp_path


def links(step):
    return dict(step.input_map), dict(step.output_map)


def test_a_chain_is_linked_and_its_ends_become_the_ensemble(repository):
    text = ensemble_config("all", "pre", "core", repository=repository)
    config = parse_config(text)
    assert (config.platform, config.max_batch_size) == ("ensemble", 8)
    assert [(e.name, list(e.dims)) for e in config.input] == [("file", [1])]
    assert [(e.name, list(e.dims)) for e in config.output] == [("fc6_1", [10])]
    pre, core = config.ensemble_scheduling.step
    assert links(pre) == ({"file": "file"}, {"pixels": "pixels"})
    assert links(core) == ({"data_0": "pixels"}, {"fc6_1": "fc6_1"})
    assert not config.instance_group and not config.HasField("dynamic_batching")


def test_maps_say_what_names_do_not(repository):
    last = Step("post", inputs={"scores": "fc6_1"}, outputs={"label": "answer"})
    config = parse_config(ensemble_config("all", "pre", "core", last, repository=repository))
    assert [e.name for e in config.input] == ["file", "top"]
    # a second tensor called "pixels" gets a name of its own
    assert {e.name: list(e.dims) for e in config.output} == {"answer": [1], "post_pixels": [2]}


def test_a_step_without_batching_takes_whole_shapes(repository):
    config = parse_config(ensemble_config("all", "pre", "single", repository=repository))
    assert config.max_batch_size == 0
    assert [list(e.dims) for e in (*config.input, *config.output)] == [[-1, 1], [-1, 10]]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["pre", "ids"], r"tensor 'pixels': output 'pixels' of 'pre' is TYPE_FP32 \[ -1, 3, 32, 32 \], but input "
                         r"'data_0' of 'ids' is TYPE_INT64"),
        (["pre", "small"], r"output 'pixels' of 'pre' is .* but input 'data_0' of 'small' is .*24, 24"),
        (["pre", "flat"], r"output 'pixels' of 'pre' is .* but input 'data_0' of 'flat' is TYPE_FP32 \[ -1, -1 \]"),
        (["pre", "cor"], "step 'cor': found no such model.*core"),
        (["all"], "found itself"),
        ([], "found no steps"),
        ([Step("pre", inputs={"fil": "x"})], "found the input 'fil' in the map, expected one of file"),
        ([Step("pre", outputs={"pixels": "file"})], "is to be called 'file', which another"),
        (["../pre"], "model name: found '../pre'"),
    ],
)  # fmt: skip
def test_chains_that_do_not_fit_are_refused_with_both_ends(repository, steps, message):
    with pytest.raises(RepositoryError, match=f"(?s){message}"):
        ensemble_config("all", *steps, repository=repository)


def test_the_smallest_step_bounds_the_batch(repository):
    assert (
        parse_config(ensemble_config("a", "pre", "core", repository=repository, max_batch_size=4)).max_batch_size == 4
    )
    with pytest.raises(RepositoryError, match="max_batch_size 16 was asked for, but step 'core' takes 8 at most"):
        ensemble_config("a", "pre", "core", repository=repository, max_batch_size=16)


def test_the_folder_has_the_empty_version_that_triton_wants(repository):
    folder = add_ensemble("all", "pre", "core", repository=repository)
    assert sorted(path.name for path in folder.iterdir()) == ["1", "config.pbtxt"]
    assert list((folder / "1").iterdir()) == []


def test_a_step_without_tensors_in_its_configuration_names_the_command(repository):
    (repository / "bare").mkdir()
    (repository / "bare" / "config.pbtxt").write_text('backend: "onnxruntime"')
    with pytest.raises(RepositoryError, match="does not list its inputs.*./workshop config"):
        ensemble_config("all", "bare", repository=repository)
