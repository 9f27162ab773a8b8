"""Training and judging the digits model: seeded, on the CPU or a GPU, with a progress bar."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from tutorial_lib.checkpoint import save_checkpoint
from tutorial_lib.datasets import Digits, load_digits, prepare
from tutorial_lib.models.densenet import CLASSES, DenseNet

EPOCHS = 10
BATCH_SIZE = 64
MAX_LR = 8e-3
# Operators this small gain little from a second thread, and on a busy machine threads that wait for
# each other cost a lot; one thread also makes the weights independent of the number of cores.
THREADS = 1


@dataclass(frozen=True)
class History:
    """What happened, epoch by epoch.

    Attributes:
        loss: mean training loss of each epoch.
        accuracy: share right on the held-out images after each epoch.
        seconds: wall time of the whole training.
    """

    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """How a model does on labelled images.

    Attributes:
        accuracy: share right, 0 to 1.
        predictions: int64 (n,), the class with the highest score.
        confusion: int64 (classes, classes); row is the true class, column the predicted one.
    """

    accuracy: float
    predictions: np.ndarray
    confusion: np.ndarray


def best_device() -> torch.device:
    """The GPU when torch sees one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def jitter(images: Tensor, *, generator: torch.Generator) -> Tensor:
    """Shift, turn and scale every image a little, each in its own way.

    Args:
        images: FP32 (n, 3, 32, 32), paper is -1.
        generator: the source of chance; it lives on the CPU so that every device sees the same draws.
    """
    n = len(images)
    angle, scale, dx, dy = (torch.rand(4, n, generator=generator) * 2 - 1).to(images.device)
    angle, scale, dx, dy = angle * math.radians(10), 1 + 0.08 * scale, 0.10 * dx, 0.10 * dy
    cos, sin = scale * angle.cos(), scale * angle.sin()
    matrix = torch.stack([torch.stack([cos, -sin, dx], 1), torch.stack([sin, cos, dy], 1)], 1)  # (n, 2, 3)
    grid = nn.functional.affine_grid(matrix, list(images.shape), align_corners=False)
    # outside the picture grid_sample reads 0; paper is -1, so move paper to 0 and back
    return nn.functional.grid_sample(images + 1, grid, align_corners=False) - 1


def evaluate(model: nn.Module, images: np.ndarray, labels: np.ndarray, *, batch_size: int = 256) -> Evaluation:
    """Judge a model on prepared images; leaves it in the mode it was in.

    Args:
        images: float32 (n, 3, 32, 32), from `prepare`.
        labels: int64 (n,).
    """
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    with torch.inference_mode():
        scores = [model(part.to(device)).cpu() for part in torch.from_numpy(images).split(batch_size)]
    model.train(was_training)
    predictions = torch.cat(scores).argmax(dim=1).numpy()  # (n,)
    confusion = np.zeros((len(CLASSES), len(CLASSES)), dtype=np.int64)
    np.add.at(confusion, (labels, predictions), 1)
    return Evaluation(float((predictions == labels).mean()), predictions, confusion)


def train(
    model: nn.Module,
    data: Digits,
    *,
    epochs: int = EPOCHS,
    batch_size: int = BATCH_SIZE,
    max_lr: float = MAX_LR,
    seed: int = 0,
    threads: int = THREADS,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> History:
    """Train in place; the model ends on the CPU and in evaluation mode.

    AdamW under a one-cycle learning rate, small random shifts, turns and scalings, slightly smoothed
    labels. One seed gives the same weights again on the same kind of processor.

    Args:
        data: only its train part moves the weights; its held-out part is judged after every epoch.
        threads: CPU threads while training; the number from before is restored afterwards.
        device: `best_device()` by default.

    Returns:
        Loss and held-out accuracy of every epoch.
    """
    device = torch.device(device) if device else best_device()
    generator = torch.Generator().manual_seed(seed)
    images = torch.from_numpy(prepare(data.train_images)).to(device)
    labels = torch.from_numpy(data.train_labels).to(device)
    test_images = prepare(data.test_images)

    model.to(device)
    steps = math.ceil(len(images) / batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=max_lr, weight_decay=0.02, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=max_lr, epochs=epochs, steps_per_epoch=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    losses, accuracies, started = [], [], time.perf_counter()
    bar = tqdm(total=epochs * steps, desc="training", unit="batch", mininterval=0.5, disable=not progress)
    with _threads(threads), bar:
        for _ in range(epochs):
            model.train()
            total = 0.0
            for chosen in torch.randperm(len(images), generator=generator).split(batch_size):
                optimizer.zero_grad()
                loss = loss_of(model(jitter(images[chosen], generator=generator)), labels[chosen])
                loss.backward()
                optimizer.step()
                schedule.step()
                total += loss.item() * len(chosen)
                bar.update()
            losses.append(total / len(images))
            accuracies.append(evaluate(model, test_images, data.test_labels).accuracy)
            bar.set_postfix(loss=f"{losses[-1]:.3f}", held_out=f"{accuracies[-1]:.1%}")
    model.to("cpu").eval()
    return History(losses, accuracies, time.perf_counter() - started)


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def new_model(*, seed: int = 0) -> DenseNet:
    """An untrained digits DenseNet whose first weights follow from the seed alone."""
    with torch.random.fork_rng(devices=[]):  # leave the caller's random numbers as they were
        torch.manual_seed(seed)
        return DenseNet()


def train_digits(*, seed: int = 0, progress: bool = True) -> tuple[DenseNet, Digits, History]:
    """Load, split, train: what notebook 01 does, in one call."""
    data, model = load_digits(seed=seed), new_model(seed=seed)
    return model, data, train(model, data, seed=seed, progress=progress)


def save_trained(model: DenseNet, data: Digits, history: History, path: Path, *, seed: int = 0) -> Path:
    """Write the checkpoint of a finished training, with the numbers it reached."""
    return save_checkpoint(
        model,
        path,
        metrics={"held_out_accuracy": history.accuracy[-1], "train_loss": history.loss[-1]},
        seed=seed,
        training={
            "epochs": len(history.loss),
            "train_images": len(data.train_labels),
            "held_out_images": len(data.test_labels),
        },
    )
