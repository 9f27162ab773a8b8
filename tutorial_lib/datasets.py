"""Real handwritten digits, split with a seed and prepared the way the model expects them.

`prepare` is the one place that says how an 8×8 picture becomes the tensor `data_0`. It is plain numpy
(two small matrix products), so that a client without torch can do exactly the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from tutorial_lib.models.names import IMAGE_SHAPE

RAW_SIDE = 8
RAW_MAX = 16.0

PREPROCESSING = {
    "input": "grey images (n, 8, 8), ink from 0 (paper) to 16",
    "steps": [
        "divide by 16",
        "resize to 32 x 32, bilinear, half-pixel centres (align_corners=False)",
        "(x - 0.5) / 0.5, so paper is -1 and full ink +1",
        "repeat the one channel three times",
    ],
    "output": "FP32 (n, 3, 32, 32), NCHW",
    "scale": RAW_MAX,
    "size": list(IMAGE_SHAPE[1:]),
    "mean": 0.5,
    "std": 0.5,
}


@dataclass(frozen=True)
class Digits:
    """A stratified split of the digits.

    Attributes:
        train_images, test_images: float32 (n, 8, 8), 0 to 16.
        train_labels, test_labels: int64 (n,), 0 to 9.
        seed: what the split was drawn with.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    seed: int


def load_digits(*, seed: int = 0, test_fraction: float = 0.2) -> Digits:
    """The 1,797 handwritten digits that come inside scikit-learn, split into train and held-out.

    Every class has the same share in both parts, and one seed always gives the same split.

    Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits" (UCI, 1998), the
        test part, as shipped by `sklearn.datasets.load_digits`.
    """
    from sklearn.datasets import load_digits as bundled
    from sklearn.model_selection import train_test_split

    data = bundled()
    images, labels = data.images.astype(np.float32), data.target.astype(np.int64)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=test_fraction, stratify=labels, random_state=seed
    )
    return Digits(train_x, train_y, test_x, test_y, seed)


@cache
def bilinear_matrix(source: int, target: int) -> np.ndarray:
    """Weights that stretch `source` samples to `target`, float32 (target, source).

    Row i holds how much each source sample gives to target sample i; every row sums to 1.
    """
    position = (np.arange(target) + 0.5) * source / target - 0.5
    position = position.clip(0, source - 1)
    left = np.floor(position).astype(int)
    right = np.minimum(left + 1, source - 1)
    weights = np.zeros((target, source), dtype=np.float32)
    np.add.at(weights, (np.arange(target), left), 1 - (position - left))
    np.add.at(weights, (np.arange(target), right), position - left)
    weights.setflags(write=False)
    return weights


def prepare(images: np.ndarray) -> np.ndarray:
    """Turn grey 8×8 digits into the model's input tensor, as `PREPROCESSING` says.

    Args:
        images: any number type, (n, 8, 8) or one image (8, 8), values 0 to 16.

    Returns:
        float32, C-contiguous, (n, 3, 32, 32); n is 1 for a single image.

    Raises:
        ValueError: for another shape or values outside 0 to 16.
    """
    array = np.asarray(images, dtype=np.float32)
    if array.ndim == 2:
        array = array[None]  # (1, 8, 8)
    if array.ndim != 3 or array.shape[1:] != (RAW_SIDE, RAW_SIDE):
        raise ValueError(f"images: found shape {np.shape(images)}, expected (n, 8, 8) or (8, 8).")
    if array.size and not (array.min() >= 0 and array.max() <= RAW_MAX):  # NaN fails this, too
        raise ValueError(f"images: found values from {array.min():g} to {array.max():g}, expected ink from 0 to 16.")
    height, width = IMAGE_SHAPE[1:]
    rows, columns = bilinear_matrix(RAW_SIDE, height), bilinear_matrix(RAW_SIDE, width)
    grey = rows @ (array / RAW_MAX) @ columns.T  # (n, 32, 32)
    grey = (grey - PREPROCESSING["mean"]) / PREPROCESSING["std"]
    return np.repeat(grey[:, None], IMAGE_SHAPE[0], axis=1).astype(np.float32)  # (n, 3, 32, 32)
