"""What a model wants of a picture, read from the server; and the tensor that gives it that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from tritonclient.utils import triton_to_np_dtype

from tutorial_lib.gateway.refusal import Refusal

# mean and deviation of ImageNet's pixels by channel, 0 to 1. Source: torchvision's pretrained models
IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
IMAGENET_STD = np.array([0.229, 0.224, 0.225], np.float32)
_NUMBERS = ("FP32", "FP16", "UINT8")


@dataclass(frozen=True)
class ImageInput:
    """The one input of a picture classifier.

    Attributes:
        model: its name.
        name: the input's name.
        datatype: Triton's word: "FP32", "FP16" or "UINT8".
        channels_first: NCHW, else NHWC.
        channels: 1 or 3.
        size: width and height, or None where the model takes any.
        batched: whether the tensor begins with a batch axis.
        output: the output to classify by.
        classes: how many scores it has; -1 if the server does not say.
    """

    model: str
    name: str
    datatype: str
    channels_first: bool
    channels: int
    size: tuple[int, int] | None
    batched: bool
    output: str
    classes: int

    @property
    def mode(self) -> str:
        """Pillow's name for the channels."""
        return "RGB" if self.channels == 3 else "L"

    def described(self) -> dict[str, Any]:
        """For people and programs that ask what may be sent."""
        layout = "NCHW" if self.channels_first else "NHWC"
        size = None if self.size is None else {"width": self.size[0], "height": self.size[1]}
        return {"model": self.model, "input": self.name, "datatype": self.datatype, "layout": layout,
                "channels": self.channels, "size": size, "output": self.output, "classes": self.classes}  # fmt: skip


def image_input(metadata: Mapping[str, Any], config: Mapping[str, Any]) -> ImageInput:
    """Read a model's metadata and configuration as those of a picture classifier.

    Args:
        metadata: Triton's ModelMetadata as JSON.
        config: Triton's ModelConfig as JSON (its inner "config").

    Raises:
        Refusal: 422, the model takes or gives something else.
    """
    name, inputs, outputs = metadata["name"], metadata.get("inputs", []), metadata.get("outputs", [])
    batched = int(config.get("max_batch_size", 0)) > 0
    if len(inputs) != 1 or inputs[0]["datatype"] not in _NUMBERS:
        found = ", ".join(f"{tensor['name']} {tensor['datatype']}" for tensor in inputs) or "none"
        raise _no_classifier(name, f"inputs {found}; expected one of {', '.join(_NUMBERS)}")
    shape = [int(axis) for axis in inputs[0]["shape"]]
    dims = shape[1:] if batched or len(shape) == 4 else shape
    if len(dims) != 3 or (len(shape) == 4 and not batched and shape[0] not in (1, -1)):
        raise _no_classifier(name, f"input shape {shape}, expected three axes and perhaps a batch")
    form = next((entry.get("format", "") for entry in config.get("input", [])), "")
    first = {"FORMAT_NCHW": True, "FORMAT_NHWC": False}.get(form)
    if first is None:  # the configuration leaves it open: the axis that can be a channel is one
        first = dims[0] in (1, 3)
    channels, size = (dims[0], dims[:0:-1]) if first else (dims[2], dims[1::-1])  # size: width, height
    if channels not in (1, 3):
        raise _no_classifier(name, f"{channels} channels in {dims}, expected 1 or 3")
    if min(size) < 0 and max(size) > 0:
        raise _no_classifier(name, f"size {dims}, expected both sides fixed or both free")
    if not outputs:
        raise _no_classifier(name, "no output")
    classes = int(outputs[0]["shape"][-1])
    return ImageInput(
        name, inputs[0]["name"], inputs[0]["datatype"], first, channels, None if min(size) < 0 else tuple(size),
        batched or len(shape) == 4, outputs[0]["name"], classes,
    )  # fmt: skip


def as_tensor(picture: Image.Image, wanted: ImageInput, scaling: str) -> np.ndarray:
    """The tensor that a model wants, (1, 3, h, w) for one with a batch and NCHW.

    Args:
        picture: of the wanted mode and size.
        wanted: what the model wants.
        scaling: one of `SCALINGS`.

    Raises:
        Refusal: 422, the scaling does not suit the model.
    """
    if wanted.datatype == "UINT8" and scaling != "NONE":
        raise Refusal(422, "wrong_scaling", f"scaling {scaling}: model '{wanted.model}' takes UINT8, expected NONE.")
    if scaling == "IMAGENET" and wanted.channels != 3:
        raise Refusal(422, "wrong_scaling", f"scaling IMAGENET: model '{wanted.model}' has 1 channel, expected 3.")
    pixels = np.frombuffer(picture.tobytes(), np.uint8).reshape(picture.height, picture.width, wanted.channels)
    if wanted.channels_first:
        # before the scaling, as bytes: a quarter of what there is to move afterwards
        pixels = np.ascontiguousarray(pixels.transpose(2, 0, 1))  # (c, h, w)
    if scaling == "INCEPTION":
        pixels = pixels.astype(np.float32)
        pixels /= 127.5
        pixels -= 1
    elif scaling == "IMAGENET":
        by_channel = (3, 1, 1) if wanted.channels_first else (3,)
        pixels = pixels.astype(np.float32)
        pixels /= 255
        pixels -= IMAGENET_MEAN.reshape(by_channel)
        pixels /= IMAGENET_STD.reshape(by_channel)
    if wanted.batched:
        pixels = pixels[None]  # (1, c, h, w)
    return np.ascontiguousarray(pixels, dtype=triton_to_np_dtype(wanted.datatype))


def top_classes(texts: Sequence[bytes]) -> list[dict[str, Any]]:
    """Triton's "score:index:label" taken apart; a model without labels gets the index as name."""
    found = []
    for text in texts:
        score, index, *label = text.decode("utf-8", "replace").split(":", 2)
        found.append({"class_name": label[0] if label else index, "class_id": int(index), "score": float(score)})
    return found


def _no_classifier(name: str, found: str) -> Refusal:
    return Refusal(
        422,
        "not_a_classifier",
        f"model '{name}' is no picture classifier: found {found}.",
        action="Call it directly, with a Triton client.",
    )
