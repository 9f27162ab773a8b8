"""Names and shapes of the digits model: the one source for torch, ONNX, config.pbtxt and clients.

They stand apart from the network so that a client can read them without importing torch.
"""

from __future__ import annotations

MODEL_NAME = "densenet_onnx"
INPUT_NAME = "data_0"
OUTPUT_NAME = "fc6_1"
IMAGE_SHAPE = (3, 32, 32)
CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
