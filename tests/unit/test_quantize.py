"""Static INT8 against the FP32 file it is made from."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

from tests.unit.onnx_files import relu
from tutorial_lib.errors import ExportError
from tutorial_lib.export import describe_onnx, export_onnx, open_session, quantize_int8, summary
from tutorial_lib.versions import RELEASES


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A convolution whose channels have very different sizes, and a layer behind it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(288, 4),
        )
    with torch.no_grad():
        model[0].weight *= torch.logspace(-2, 1, 8)[:, None, None, None]
    path = tmp_path_factory.mktemp("quantize") / "fp32.onnx"
    return export_onnx(
        model.eval(), path, example=torch.ones(2, 3, 8, 8), input_names=["picture"], output_names=["scores"]
    )


def pictures(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3, 8, 8)).astype(np.float32)


def samples(count: int = 64) -> list[dict[str, np.ndarray]]:
    return [{"picture": part} for part in np.array_split(pictures(count, 1), 8)]


def test_it_answers_nearly_the_same_in_the_same_shapes(network, tmp_path):
    path = quantize_int8(network, tmp_path / "int8.onnx", samples=samples())
    assert describe_onnx(path).equals(describe_onnx(network))
    x = pictures(64, 1)  # those it was calibrated on: beyond their range it clips
    exact, rounded = (open_session(file).run(None, {"picture": x})[0] for file in (network, path))
    assert np.abs(rounded - exact).max() < 0.05 * np.abs(exact).max()
    assert not np.array_equal(rounded, exact)


def test_weights_are_signed_by_channel_and_activations_unsigned(network, tmp_path):
    graph = onnx.load(quantize_int8(network, tmp_path / "int8.onnx", samples=samples())).graph
    arrays = {entry.name: onnx.numpy_helper.to_array(entry) for entry in graph.initializer}
    kernels = [array for array in arrays.values() if array.dtype == np.int8 and array.ndim == 4]
    assert len(kernels) == 1
    # 7 bits: at AVX2 two products of 8 bits overflow their 16; every channel uses its whole range
    assert np.abs(kernels[0]).max(axis=(1, 2, 3)).tolist() == [64] * 8
    zero_points = [arrays[node.input[2]].dtype for node in graph.node if node.op_type == "QuantizeLinear"]
    assert zero_points and set(zero_points) == {np.dtype(np.uint8)}


def test_it_is_for_the_same_release(network, tmp_path):
    path = quantize_int8(network, tmp_path / "int8.onnx", samples=samples(), release=RELEASES["24.05"])
    found = summary(path)
    assert found.ir_version <= RELEASES["24.05"].max_ir and found.opset <= RELEASES["24.05"].max_opset


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "found none"),
        ([{"image": pictures(2, 0)}], r"samples\[0\]: found tensors \['image'\], expected \['picture'\]"),
        ([{"picture": np.ones((2, 5), np.float32)}], "cannot calibrate"),
    ],
)
def test_samples_that_do_not_suit(network, tmp_path, given, words):
    with pytest.raises(ExportError, match=words):
        quantize_int8(network, tmp_path / "int8.onnx", samples=given)
    assert list(tmp_path.iterdir()) == []


def test_an_old_opset_has_no_scale_by_channel(tmp_path):
    path = relu(tmp_path / "old.onnx", opset=11)
    with pytest.raises(ExportError, match="found opset 11, expected 13"):
        quantize_int8(path, tmp_path / "int8.onnx", samples=[{"x": np.ones((1, 3), np.float32)}])
