from __future__ import annotations

import copy

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from tutorial_lib.errors import ExportError, ParityError
from tutorial_lib.export.parity import check_parity, open_session


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x)


@pytest.fixture
def pair(tmp_path):
    return make_pair(tmp_path / "m.onnx")


def make_pair(path, *, batch: int | str = "batch", kind=TensorProto.FLOAT, weight=None):
    """A torch layer and the same arithmetic written as ONNX by hand, not by the exporter."""
    model = Linear().eval()
    weight = model.layer.weight.detach().numpy() if weight is None else weight
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        "g",
        [helper.make_tensor_value_info("x", kind, [batch, 3])],
        [helper.make_tensor_value_info("y", kind, [batch, 2])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(model.layer.bias.detach().numpy(), "b")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return model, path


def test_equal_models_agree_at_every_batch(pair):
    table = check_parity(*pair, batches=(1, 5))
    assert table["batch"].tolist() == [1, 5] and table["shape"].tolist() == ["[1, 2]", "[5, 2]"]
    assert table["largest_difference"].max() < 1e-6


def test_the_largest_difference_is_the_one_that_was_made(pair):
    model, path = pair
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.layer.bias[1] += 0.25
    with pytest.raises(ParityError, match=r"'y' at batch 1: found a difference of 0\.25"):
        check_parity(other, path)
    assert check_parity(other, path, tolerance=0.3)["largest_difference"].max() == pytest.approx(0.25, abs=1e-6)


def test_not_a_number_is_never_agreement(tmp_path):
    model, path = make_pair(tmp_path / "m.onnx", weight=np.full((2, 3), np.nan, np.float32))
    with pytest.raises(ParityError, match="difference of nan"):
        check_parity(model, path)


def test_a_fixed_batch_is_found_by_another_size(tmp_path):
    model, path = make_pair(tmp_path / "m.onnx", batch=2)
    with pytest.raises(ParityError, match="refuses batch 1"):
        check_parity(model, path, make_inputs=lambda batch: {"x": np.zeros((batch, 3), np.float32)})


def test_training_mode_is_refused(pair):
    model, path = pair
    with pytest.raises(ExportError, match="training mode"):
        check_parity(model.train(), path)


def test_inputs_that_cannot_be_made_up_are_asked_for(tmp_path):
    model = torch.nn.Identity().eval()
    value = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", value[:1], value[1:])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    with pytest.raises(ExportError, match="make_inputs"):
        check_parity(model, path)
    table = check_parity(model, path, batches=(3,), make_inputs=lambda n: {"x": np.arange(n * 2).reshape(n, 2)})
    assert table["largest_difference"].tolist() == [0.0]


def test_a_broken_file_is_an_export_error(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x09")
    with pytest.raises(ExportError):
        open_session(path)
