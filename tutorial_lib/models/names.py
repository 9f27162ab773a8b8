"""Names and shapes of the digits model: the one source for torch, ONNX, config.pbtxt and clients.

They stand apart from the network so that a client can read them without importing torch.
"""

from __future__ import annotations

MODEL_NAME = "densenet_onnx"
INPUT_NAME = "data_0"
OUTPUT_NAME = "fc6_1"
IMAGE_SHAPE = (3, 32, 32)
CLASSES = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
