from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from tutorial_lib.models.densenet import DenseLayer, DenseNet, Transition, dense_block, parameter_count


def test_dense_layer_keeps_what_it_was_given_and_adds_growth():
    x = torch.randn(2, 5, 8, 8)
    out = DenseLayer(5, 3)(x)
    assert out.shape == (2, 8, 8, 8)
    assert torch.equal(out[:, :5], x)


def test_every_layer_of_a_block_sees_all_before_it():
    block = dense_block(4, 2, 3)
    assert [layer.conv1.in_channels for layer in block] == [4, 6, 8]


def test_transition_halves_channels_and_picture():
    assert Transition(7)(torch.zeros(1, 7, 8, 8)).shape == (1, 3, 4, 4)


@pytest.mark.parametrize("batch", [1, 3])
def test_scores_per_image_do_not_depend_on_the_batch(batch):
    model = DenseNet().eval()
    images = torch.randn(4, 3, 32, 32)
    with torch.inference_mode():
        whole, part = model(images), model(images[:batch])
    assert whole.shape == (4, 10)
    torch.testing.assert_close(part, whole[:batch])


def test_size_is_what_the_course_promises():
    assert 50_000 <= parameter_count(DenseNet()) <= 100_000


def test_architecture_rebuilds_the_same_model():
    model = DenseNet(growth=4, blocks=(1, 2), stem=6, classes=5)
    arguments = dict(model.architecture)
    twin = DenseNet(**arguments)
    twin.load_state_dict(model.state_dict())
    images = torch.randn(1, 3, 32, 32)
    assert torch.equal(twin.eval()(images), model.eval()(images))


def test_names_need_no_torch():
    code = "import sys, tutorial_lib.models.names, tutorial_lib.datasets; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
