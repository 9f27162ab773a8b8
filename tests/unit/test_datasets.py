from __future__ import annotations

import numpy as np
import pytest
import torch

from tutorial_lib.datasets import PREPROCESSING, bilinear_matrix, load_digits, prepare


@pytest.fixture(scope="module")
def digits():
    return load_digits(seed=0)


def test_split_is_stratified_seeded_and_disjoint(digits):
    assert (len(digits.train_labels), len(digits.test_labels)) == (1437, 360)
    assert np.ptp(np.bincount(digits.test_labels)) <= 2
    again, other = load_digits(seed=0), load_digits(seed=1)
    assert np.array_equal(again.test_images, digits.test_images)
    assert not np.array_equal(other.test_labels, digits.test_labels)
    # as many images as scikit-learn has, none in both parts beyond the duplicates it came with
    both = np.concatenate([digits.train_images, digits.test_images])
    assert len({image.tobytes() for image in both}) == 1797


def test_prepare_agrees_with_torch_interpolation(digits):
    raw = digits.train_images[:20]
    grey = torch.from_numpy(raw)[:, None] / 16
    expected = torch.nn.functional.interpolate(grey, size=(32, 32), mode="bilinear", align_corners=False) * 2 - 1
    found = prepare(raw)
    assert found.shape == (20, 3, 32, 32) and found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_allclose(found, expected.expand(-1, 3, -1, -1).numpy(), atol=1e-5)


def test_one_image_is_a_batch_of_one_and_equals_its_place_in_a_batch(digits):
    single = prepare(digits.train_images[3])
    assert single.shape == (1, 3, 32, 32)
    np.testing.assert_allclose(single[0], prepare(digits.train_images[:5])[3], atol=1e-6)


def test_integers_are_welcome():
    whole = np.full((2, 8, 8), 16, dtype=np.uint8)
    assert np.allclose(prepare(whole), 1.0)
    assert prepare(np.zeros((0, 8, 8))).shape == (0, 3, 32, 32)


@pytest.mark.parametrize(
    "images",
    [np.zeros((2, 28, 28)), np.zeros(64), np.full((1, 8, 8), 255), np.full((1, 8, 8), np.nan), -np.ones((8, 8))],
    ids=["size", "rank", "bytes", "nan", "negative"],
)
def test_other_pictures_are_refused(images):
    with pytest.raises(ValueError, match="expected"):
        prepare(images)


def test_bilinear_matrix_rows_are_mixtures():
    weights = bilinear_matrix(8, 32)
    assert np.allclose(weights.sum(axis=1), 1) and weights.min() >= 0
    assert (np.count_nonzero(weights, axis=1) <= 2).all()


def test_metadata_describes_what_prepare_does():
    assert PREPROCESSING["size"] == [32, 32]
    ink = prepare(np.full((8, 8), 4.0))
    assert np.allclose(ink, (4 / PREPROCESSING["scale"] - PREPROCESSING["mean"]) / PREPROCESSING["std"])
