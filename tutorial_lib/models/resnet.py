"""A small ResNet for pictures of 3×64×64: enough to compute that a server's own cost does not hide it.

Its weights are drawn, not trained: it is there for measuring.

Source: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition" (2016), section 3.3: two
    3×3 convolutions in a basic block; the channels double where the picture halves.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

IMAGE_SHAPE = (3, 64, 64)
CLASSES = 10
WIDTHS = (16, 32, 64)
BLOCKS = 2


class BasicBlock(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.around = nn.Identity()
        if stride != 1 or channels != out:
            self.around = nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        new = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(new + self.around(x))


class ResNet(nn.Module):
    """Scores (logits), FP32 (n, 10), of pictures, FP32 (n, 3, 64, 64)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(IMAGE_SHAPE[0], WIDTHS[0], 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(WIDTHS[0])
        )
        blocks, channels = [], WIDTHS[0]
        for stage, width in enumerate(WIDTHS):
            for number in range(BLOCKS):
                blocks.append(BasicBlock(channels, width, 2 if number == 0 and stage else 1))
                channels = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, data_0: Tensor) -> Tensor:
        x = self.blocks(torch.relu(self.stem(data_0)))  # (n, 64, 8, 8)
        return self.head(x.mean(dim=(2, 3)))  # (n, 10)


def small_resnet(seed: int = 0) -> ResNet:
    """The network with weights that follow from the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ResNet().eval()
