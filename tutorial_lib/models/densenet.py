"""A small DenseNet for the digits: dense layers, dense blocks, transitions.

The same network is written by hand in notebook 01; a test holds the two equal.

Source: Huang, Liu, van der Maaten, Weinberger, "Densely Connected Convolutional Networks" (2017),
    section 3: composite function BN-ReLU-Conv, bottleneck of 4k channels, compression of 0.5.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tutorial_lib.models.names import CLASSES, IMAGE_SHAPE, INPUT_NAME, MODEL_NAME, OUTPUT_NAME

__all__ = [
    "CLASSES",
    "IMAGE_SHAPE",
    "INPUT_NAME",
    "MODEL_NAME",
    "OUTPUT_NAME",
    "DenseLayer",
    "DenseNet",
    "Transition",
    "dense_block",
    "parameter_count",
]


class DenseLayer(nn.Module):
    """Computes `growth` new channels and appends them to everything it was given.

    Args:
        channels: channels coming in; `channels + growth` go out.
        growth: new channels this layer adds.
        bottleneck: width of the 1×1 convolution before the 3×3 one, in multiples of `growth`.
    """

    def __init__(self, channels: int, growth: int, *, bottleneck: int = 4) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, bottleneck * growth, kernel_size=1, bias=False)
        self.norm2 = nn.BatchNorm2d(bottleneck * growth)
        self.conv2 = nn.Conv2d(bottleneck * growth, growth, kernel_size=3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        new = self.conv1(torch.relu(self.norm1(x)))
        new = self.conv2(torch.relu(self.norm2(new)))  # (n, growth, h, w)
        return torch.cat([x, new], dim=1)  # (n, channels + growth, h, w)


class Transition(nn.Module):
    """Between blocks: a 1×1 convolution halves the channels, average pooling halves the image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels // 2, kernel_size=1, bias=False)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.conv(torch.relu(self.norm(x))))  # (n, channels // 2, h / 2, w / 2)


def dense_block(channels: int, growth: int, layers: int, *, bottleneck: int = 4) -> nn.Sequential:
    """`layers` dense layers, each seeing what all layers before it made."""
    return nn.Sequential(*(DenseLayer(channels + i * growth, growth, bottleneck=bottleneck) for i in range(layers)))


class DenseNet(nn.Module):
    """Digits in, one score per class out.

    Args:
        growth: channels each dense layer adds.
        blocks: dense layers in each block; a transition stands between two blocks.
        stem: channels after the first convolution; stem and pooling shrink the image to 8×8.
        classes: number of scores.

    The constructor's arguments are kept in `architecture`, so that a checkpoint can rebuild the model.
    """

    def __init__(
        self,
        *,
        growth: int = 12,
        blocks: tuple[int, ...] = (3, 3, 3),
        stem: int = 24,
        classes: int = len(CLASSES),
    ) -> None:
        super().__init__()
        self.architecture = {"growth": growth, "blocks": list(blocks), "stem": stem, "classes": classes}
        # 32 → 16 by the stride, 16 → 8 by the pool, before anything expensive happens
        self.stem = nn.Sequential(
            nn.Conv2d(IMAGE_SHAPE[0], stem, kernel_size=5, stride=2, padding=2, bias=False), nn.MaxPool2d(2)
        )
        features, channels = nn.Sequential(), stem
        for number, layers in enumerate(blocks, start=1):
            features.add_module(f"block{number}", dense_block(channels, growth, layers))
            channels += layers * growth
            if number < len(blocks):
                features.add_module(f"transition{number}", Transition(channels))
                channels //= 2
        self.features = features
        self.norm = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, data_0: Tensor) -> Tensor:
        """Scores (logits), FP32 (n, classes), of images, FP32 (n, 3, 32, 32)."""
        x = self.stem(data_0)  # (n, stem, 8, 8)
        x = torch.relu(self.norm(self.features(x)))  # (n, channels, 2, 2)
        return self.classifier(x.mean(dim=(2, 3)))  # (n, classes)


def parameter_count(model: nn.Module) -> int:
    """How many numbers training adjusts."""
    return sum(parameter.numel() for parameter in model.parameters())
