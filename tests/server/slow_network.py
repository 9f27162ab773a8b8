"""A network that computes nothing for a while, for the naive app."""

from __future__ import annotations

import threading

import torch

SECONDS = 2.5


class Slow(torch.nn.Module):
    def forward(self, data_0):
        threading.Event().wait(SECONDS)
        return data_0.mean(dim=(2, 3))  # (n, 3)


def slow():
    return Slow()
