"""Digits as 64×64 pictures, straight and distorted, and the ResNet that learns them: what accuracy is measured on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tutorial_lib.datasets import PREPROCESSING, RAW_MAX, RAW_SIDE, bilinear_matrix, load_digits
from tutorial_lib.models.resnet import IMAGE_SHAPE, ResNet, small_resnet
from tutorial_lib.paths import atomic_write

EPOCHS, BATCH = 6, 64
DISTORTED = 1000


def pictures(images: np.ndarray) -> np.ndarray:
    """Grey digits, (n, 8, 8) from 0 to 16, as FP32 (n, 3, 64, 64) from -1 to 1."""
    matrix = bilinear_matrix(RAW_SIDE, IMAGE_SHAPE[1])
    grey = matrix @ (images.astype(np.float32) / RAW_MAX) @ matrix.T  # (n, 64, 64)
    grey = (grey - PREPROCESSING["mean"]) / PREPROCESSING["std"]
    return np.repeat(grey[:, None], IMAGE_SHAPE[0], axis=1).astype(np.float32)  # (n, 3, 64, 64)


def distorted(images: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each digit turned by up to 12°, scaled by up to 10 %, moved by up to 0.6 pixels, fainter and noisier."""
    from scipy import ndimage

    changed = np.empty_like(images)
    centre = np.full(2, (RAW_SIDE - 1) / 2)
    for number, image in enumerate(images):
        angle, scale = np.deg2rad(generator.uniform(-12, 12)), generator.uniform(0.9, 1.1)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) / scale
        offset = centre - turn @ (centre + generator.uniform(-0.6, 0.6, 2))
        changed[number] = ndimage.affine_transform(image, turn, offset, order=1) * generator.uniform(0.8, 1.0)
    noisy = changed + generator.normal(0, 0.5, changed.shape)
    return np.clip(noisy, 0, RAW_MAX).astype(np.float32)


def digits_set() -> tuple[np.ndarray, np.ndarray]:
    """All 1,797 digits as pictures, and what they are."""
    data = load_digits()
    images = np.concatenate([data.train_images, data.test_images])
    return pictures(images), np.concatenate([data.train_labels, data.test_labels])


def distorted_set(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """1,000 distorted held-out digits as pictures, and what they are."""
    data, generator = load_digits(), np.random.default_rng(seed)
    chosen = generator.integers(0, len(data.test_images), DISTORTED)
    return pictures(distorted(data.test_images[chosen], generator)), data.test_labels[chosen]


def trained_resnet(path: Path, *, say: Callable[[str], None] = lambda _: None, seed: int = 0) -> ResNet:
    """The small ResNet trained on digits; from `path` when it is there, else trained (under a minute) and kept."""
    import torch
    from safetensors.torch import load_file, save_file

    network = small_resnet(seed)
    if path.is_file():
        network.load_state_dict(load_file(path))
        return network.eval()
    data, generator = load_digits(), np.random.default_rng(seed)
    labels, count = torch.from_numpy(data.train_labels), len(data.train_labels)
    network.train()
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=0.004, total_steps=EPOCHS * (count // BATCH))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for epoch in range(EPOCHS):
            images = data.train_images if epoch % 2 else distorted(data.train_images, generator)
            batch = torch.from_numpy(pictures(images))
            order = torch.randperm(count)
            for start in range(0, count - BATCH + 1, BATCH):
                chosen = order[start : start + BATCH]
                loss = torch.nn.functional.cross_entropy(network(batch[chosen]), labels[chosen])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
            say(f"training the bench's ResNet, epoch {epoch + 1} of {EPOCHS}: loss {loss.item():.3f}")
    network.eval()
    with atomic_write(path) as temporary:
        save_file(network.state_dict(), temporary)
    return network
