"""Exports that must work, and the silent failures of the exporter that must not stay silent."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from tutorial_lib.errors import ExportError
from tutorial_lib.export import describe_onnx, export_densenet, export_onnx, summary
from tutorial_lib.export.parity import check_parity
from tutorial_lib.training import new_model
from tutorial_lib.versions import RELEASES

CASES = Path(__file__).parents[1] / "cases"
TWO = torch.ones(2, 4)


def case(number: str, *names: str) -> list[type[torch.nn.Module]]:
    """The models of a case's script, without running its exports."""
    script = next(CASES.glob(f"{number}-*")) / "standalone.py"
    source = script.read_text().partition("\nfor dyn in")[0].partition('\nB = torch.export.Dim("batch"')[0]
    spec = importlib.util.spec_from_loader(f"case_{number}", loader=None)
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.copy()
    exec(compile(source, script, "exec"), module.__dict__)
    assert before.keys() <= sys.modules.keys()
    import logging

    logging.disable(logging.NOTSET)  # the script switches logging off for its whole process
    return [getattr(module, name) for name in names]


class Twice(torch.nn.Module):
    def forward(self, x):
        return x * 2


@pytest.fixture(scope="module")
def densenet(tmp_path_factory):
    model = new_model(seed=1)
    path = tmp_path_factory.mktemp("densenet") / "net.onnx"
    return model.eval(), export_densenet(model, path, checkpoint_sha256="abc")


def test_densenet_has_our_names_an_open_batch_and_versions_within_the_target(densenet):
    _, path = densenet
    assert describe_onnx(path).to_numpy().tolist() == [
        ["input", "data_0", "FP32", "[batch, 3, 32, 32]"],
        ["output", "fc6_1", "FP32", "[batch, 10]"],
    ]
    facts = summary(path)
    assert facts.opset == 18 and facts.ir_version <= RELEASES["24.10"].max_ir
    assert [file.name for file in path.parent.iterdir()] == ["net.onnx"]


def test_densenet_answers_like_torch(densenet):
    model, path = densenet
    table = check_parity(model, path)
    assert table["batch"].tolist() == [1, 2, 7, 32]
    assert table["largest_difference"].max() < 1e-4


def test_file_names_its_checkpoint_and_no_local_path(densenet):
    _, path = densenet
    model = onnx.load(path)
    assert {entry.key: entry.value for entry in model.metadata_props} == {"checkpoint_sha256": "abc"}
    assert b"tutorial_lib" not in path.read_bytes() and b"site-packages" not in path.read_bytes()


def test_export_is_quiet_and_repeats_byte_for_byte(densenet, tmp_path, capfd):
    model, path = densenet
    again = export_densenet(model, tmp_path / "net.onnx", checkpoint_sha256="abc")
    assert again.read_bytes() == path.read_bytes()
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


def test_a_model_in_training_mode_is_refused_even_in_part(tmp_path):
    model = new_model().eval()
    model.features[0][1].norm2.train()
    with pytest.raises(ExportError, match=r"features\.block1\.1\.norm2.*training mode.*model\.eval\(\)"):
        export_densenet(model, tmp_path / "n.onnx")
    assert not list(tmp_path.iterdir())


def test_case_73_a_python_number_would_be_baked(tmp_path):
    (top_k,) = case("73", "TopK")
    with pytest.raises(ExportError, match="'k' is a Python int"):
        export_onnx(top_k().eval(), tmp_path / "n.onnx", example=(TWO, 3), input_names=["x", "k"], output_names=["y"])


def test_case_73_the_same_number_as_a_tensor_stays_an_input(tmp_path):
    (top_k,) = case("73", "TopK")
    path = export_onnx(
        top_k().eval(), tmp_path / "n.onnx", example=(TWO, torch.tensor(3)), input_names=["x", "k"],
        output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
    )  # fmt: skip
    session = onnxruntime.InferenceSession(path)
    found = session.run(None, {"x": np.ones((5, 4), np.float32), "k": np.array(7)})[0]
    assert (found == 7).all() and found.shape == (5, 4)


def test_case_73_an_unused_input_is_kept_or_refused(tmp_path):
    (scorer,) = case("73", "Scorer")
    axes = {"x": {0: "batch"}, "mask": {0: "batch"}, "y": {0: "batch"}}
    names = ["x", "mask", "scale"]
    path = export_onnx(
        scorer().eval(), tmp_path / "n.onnx", example=(TWO, TWO, torch.ones(1)), input_names=names,
        output_names=["y"], dynamic_axes=axes,
    )  # fmt: skip
    assert describe_onnx(path).query("kind == 'input'")["name"].tolist() == names


def test_case_73_a_name_that_did_not_survive_is_refused(tmp_path, monkeypatch):
    """Whatever drops an input, a later rewrite for example, the check afterwards sees it."""
    export = torch.onnx.export

    def dropping(*args, **kwargs):
        program = export(*args, **kwargs)
        proto = program.model_proto
        del proto.graph.input[1:]
        return dataclasses.make_dataclass("Program", ["model_proto"])(proto)

    monkeypatch.setattr(torch.onnx, "export", dropping)
    (scorer,) = case("73", "Scorer")
    with pytest.raises(ExportError, match=r"Missing: \['mask', 'scale'\]"):
        export_onnx(
            scorer().eval(), tmp_path / "n.onnx", example=(TWO, TWO, torch.ones(1)),
            input_names=["x", "mask", "scale"], output_names=["y"], dynamic_axes={"x": {0: "batch"}},
        )  # fmt: skip


@pytest.mark.parametrize("batch", [1, 2])
def test_case_74_a_loop_over_the_batch_is_refused(tmp_path, batch):
    (looper,) = case("74", "Looper")
    with pytest.raises(ExportError, match="axis 0 to be open"):
        export_onnx(
            looper().eval(), tmp_path / "n.onnx", example=torch.ones(batch, 4), input_names=["images"],
            output_names=["y"],
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_case_74_an_example_of_one_image_leaves_the_batch_open(tmp_path):
    class Branch(torch.nn.Module):  # takes another way for a batch of one
        def forward(self, x):
            return x * 2 if x.shape[0] == 1 else x * 3

    path = export_onnx(
        Branch().eval(), tmp_path / "n.onnx", example=torch.ones(1, 4), input_names=["x"], output_names=["y"]
    )
    assert describe_onnx(path)["shape"].tolist() == ["[batch, 4]", "[batch, 4]"]


def test_more_outputs_than_names(tmp_path):
    class Pair(torch.nn.Module):
        def forward(self, x):
            return x + 1, x - 1

    with pytest.raises(ExportError, match="expected"):
        export_onnx(Pair().eval(), tmp_path / "n.onnx", example=TWO, input_names=["x"], output_names=["y"])


def test_arguments_by_name_and_one_example_given_twice(tmp_path):
    class Mix(torch.nn.Module):
        def forward(self, a, *, b):
            return a - b

    path = export_onnx(
        Mix().eval(), tmp_path / "n.onnx", example={"a": TWO, "b": TWO}, input_names=["first", "second"],
        output_names=["y"],
    )  # fmt: skip
    feed = {"first": np.full((3, 4), 5, np.float32), "second": np.full((3, 4), 2, np.float32)}
    assert (onnxruntime.InferenceSession(path).run(None, feed)[0] == 3).all()


def test_what_torch_cannot_trace_becomes_one_error(tmp_path):
    class Decides(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(ExportError, match="torch could not export it") as caught:
        export_onnx(Decides().eval(), tmp_path / "n.onnx", example=TWO, input_names=["x"], output_names=["y"])
    assert caught.value.details
    assert not list(tmp_path.iterdir())


def test_opset_above_the_target_is_refused_before_any_work(tmp_path):
    with pytest.raises(ExportError, match="opset 22"):
        export_onnx(Twice().eval(), tmp_path / "n.onnx", example=TWO, input_names=["x"], output_names=["y"], opset=22)


def test_case_19_the_ir_version_is_held_to_the_target(tmp_path):
    old = dataclasses.replace(RELEASES["24.10"], max_ir=8)
    path = export_onnx(
        Twice().eval(), tmp_path / "n.onnx", example=TWO, input_names=["x"], output_names=["y"], release=old
    )
    assert onnx.load(path).ir_version == 8
    onnx.checker.check_model(path, full_check=True)


def test_a_failed_export_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "n.onnx"
    path.write_bytes(b"earlier")
    (looper,) = case("74", "Looper")
    with pytest.raises(ExportError):
        export_onnx(looper().eval(), path, example=TWO, input_names=["images"], output_names=["y"])
    assert path.read_bytes() == b"earlier" and [file.name for file in tmp_path.iterdir()] == ["n.onnx"]


def test_large_weights_go_into_one_file_beside_the_graph(tmp_path):
    layer = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).eval()
    path = export_onnx(
        layer, tmp_path / "n.onnx", example=torch.ones(2, 64), input_names=["x"], output_names=["y"], inline_limit_mib=0
    )
    assert sorted(file.name for file in tmp_path.iterdir()) == ["n.onnx", "n.onnx.data"]
    assert check_parity(layer, path)["largest_difference"].max() < 1e-4
    assert summary(path).size_bytes > 2 * 64 * 64 * 4


@pytest.mark.parametrize("names", [["x", "z"], [], ["x", "x"]])
def test_input_names_must_fit_the_arguments(tmp_path, names):
    with pytest.raises(ExportError, match="input names"):
        export_onnx(Twice().eval(), tmp_path / "n.onnx", example=TWO, input_names=names, output_names=["y"])


def test_dynamic_axes_of_an_unknown_tensor(tmp_path):
    with pytest.raises(ExportError, match="'z'"):
        export_onnx(
            Twice().eval(), tmp_path / "n.onnx", example=TWO, input_names=["x"], output_names=["y"],
            dynamic_axes={"z": {0: "batch"}},
        )  # fmt: skip
