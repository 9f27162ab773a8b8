from __future__ import annotations

import numpy as np
import pytest
import torch

from tutorial_lib.datasets import Digits, load_digits, prepare
from tutorial_lib.models.densenet import DenseNet
from tutorial_lib.training import evaluate, jitter, new_model, train


@pytest.fixture(scope="module")
def few() -> Digits:
    all_of_them = load_digits(seed=0)
    return Digits(
        all_of_them.train_images[:128], all_of_them.train_labels[:128],
        all_of_them.test_images[:40], all_of_them.test_labels[:40], 0,
    )  # fmt: skip


def small() -> DenseNet:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return DenseNet(growth=4, blocks=(1, 1), stem=8)


def test_training_learns_and_repeats_exactly(few):
    runs = []
    for _ in range(2):
        model = small()
        history = train(model, few, epochs=4, seed=3, progress=False, device="cpu")
        runs.append((history, model.state_dict()))
    (first, weights), (second, weights_again) = runs
    assert first.loss[-1] < first.loss[0]
    assert first.loss == second.loss and first.accuracy == second.accuracy
    assert all(torch.equal(weights[name], weights_again[name]) for name in weights)


def test_another_seed_gives_other_weights(few):
    one, two = small(), small()
    train(one, few, epochs=1, seed=1, progress=False, device="cpu")
    train(two, few, epochs=1, seed=2, progress=False, device="cpu")
    assert not torch.equal(one.classifier.weight, two.classifier.weight)


def test_training_leaves_evaluation_mode_threads_and_random_state_alone(few):
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    model = new_model(seed=4)
    train(model, few, epochs=1, progress=False, device="cpu")
    assert not model.training and torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(new_model(seed=4).classifier.weight, new_model(seed=4).classifier.weight)


def test_held_out_images_do_not_move_the_weights(few):
    blank = Digits(few.train_images, few.train_labels, np.zeros_like(few.test_images), few.test_labels, 0)
    one, two = small(), small()
    train(one, few, epochs=1, progress=False, device="cpu")
    train(two, blank, epochs=1, progress=False, device="cpu")
    assert torch.equal(one.classifier.weight, two.classifier.weight)


class Fixed(torch.nn.Module):
    """Says 3 for every image; its one parameter only gives it a device."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.nn.functional.one_hot(torch.tensor(3), 10).float())

    def forward(self, images):
        return self.bias.expand(len(images), -1)


def test_evaluation_counts_rows_as_true_and_columns_as_predicted(few):
    labels = np.array([3, 3, 5, 1])
    model = Fixed().train()
    result = evaluate(model, prepare(few.test_images[:4]), labels, batch_size=3)
    assert result.accuracy == 0.5 and result.predictions.tolist() == [3, 3, 3, 3]
    assert result.confusion[3, 3] == 2 and result.confusion[5, 3] == 1 and result.confusion.sum() == 4
    assert model.training


def test_jitter_moves_every_image_its_own_way_and_keeps_paper_white():
    generator = torch.Generator().manual_seed(0)
    image = torch.full((1, 3, 32, 32), -1.0)
    image[:, :, 12:20, 12:20] = 1
    moved = jitter(image.expand(6, -1, -1, -1), generator=generator)
    assert moved.min() >= -1.0001 and torch.allclose(moved[:, :, :3, :3], torch.tensor(-1.0))
    assert len({tuple(picture.flatten().tolist()) for picture in moved}) == 6
    # shifts are at most 10 % of half the width, so the ink stays about where it was
    assert ((moved + 1).sum() / (image.expand(6, -1, -1, -1) + 1).sum()).item() == pytest.approx(1, abs=0.2)
