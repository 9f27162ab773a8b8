"""The models that the bench serves, made once and kept in the workspace's cache."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tutorial_lib.bench import digits
from tutorial_lib.bench.digits import pictures, trained_resnet
from tutorial_lib.datasets import load_digits
from tutorial_lib.export import export_onnx, export_torchscript, quantize_int8
from tutorial_lib.models import resnet
from tutorial_lib.models.names import INPUT_NAME
from tutorial_lib.paths import workspace
from tutorial_lib.repository import generate_config
from tutorial_lib.repository.generate import DEFAULT_MAX_BATCH_SIZE

OUTPUT_NAME = "scores"
CALIBRATION_IMAGES, CALIBRATION_BATCHES = 512, 16
FEATURES = 64  # of the linear model, on which the server's own time shows

_TENSORS = {
    "resnet": (
        f'input [ {{ name: "{INPUT_NAME}" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] }} ] '
        f'output [ {{ name: "{OUTPUT_NAME}" data_type: TYPE_FP32 dims: [ 10 ] }} ]'
    ),
    "linear": (
        f'input [ {{ name: "{INPUT_NAME}" data_type: TYPE_FP32 dims: [ {FEATURES} ] }} ] '
        f'output [ {{ name: "{OUTPUT_NAME}" data_type: TYPE_FP32 dims: [ 10 ] }} ]'
    ),
}
_NOTHING = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answer = [pb_utils.Tensor("scores", np.zeros((1, 10), np.float32))]
        return [pb_utils.InferenceResponse(answer) for _ in requests]
"""


@dataclass(frozen=True)
class Settings:
    """How a model is served, in config.pbtxt's terms; `recommended` is what `./workshop config` writes."""

    instances: int | None = None
    threads: int | None = None
    spinning: bool | None = None
    delay_us: int = 0
    batching: bool = True
    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE

    def text(self) -> str:
        """Its part of a config.pbtxt."""
        parts = [f"max_batch_size: {self.max_batch_size}"]
        if self.batching:
            parts.append(f"dynamic_batching {{ max_queue_delay_microseconds: {self.delay_us} }}")
        if self.instances:
            parts.append(f"instance_group [ {{ count: {self.instances} kind: KIND_CPU }} ]")
        given = {"intra_op_thread_count": self.threads and str(self.threads)}
        given["session.intra_op.allow_spinning"] = None if self.spinning is None else str(int(self.spinning))
        for name, value in given.items():
            if value is not None:
                parts.append(f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}')
        return " ".join(parts)


@dataclass(frozen=True)
class Artifacts:
    """Files of the bench's models.

    Attributes:
        folder: where they are.
        weights: safetensors, for torch.
        onnx, int8, torchscript: the small ResNet; `linear` is a layer of 64 to 10.
    """

    folder: Path

    @property
    def weights(self) -> Path:
        return self.folder / "resnet.safetensors"

    @property
    def onnx(self) -> Path:
        return self.folder / "resnet.onnx"

    @property
    def int8(self) -> Path:
        return self.folder / "resnet_int8.onnx"

    @property
    def torchscript(self) -> Path:
        return self.folder / "resnet.pt"

    @property
    def linear(self) -> Path:
        return self.folder / "linear.onnx"


def make(say: Callable[[str], None] = lambda _: None) -> Artifacts:
    """Train, export and quantize what is missing; the first time takes about a minute."""
    import torch

    code = b"".join(Path(module.__file__).read_bytes() for module in (resnet, digits))
    made = Artifacts(workspace().cache / "bench" / hashlib.sha256(code).hexdigest()[:12])
    network = trained_resnet(made.weights, say=say)
    names = {"input_names": [INPUT_NAME], "output_names": [OUTPUT_NAME]}
    example = torch.zeros(2, *resnet.IMAGE_SHAPE)
    if not made.onnx.exists():
        export_onnx(network, made.onnx, example=example, **names)
    if not made.torchscript.exists():
        export_torchscript(network, made.torchscript, example=example)
    if not made.int8.exists():
        straight, crooked = np.split(load_digits().train_images[:CALIBRATION_IMAGES], 2)
        images = np.concatenate([straight, digits.distorted(crooked, np.random.default_rng(0))])
        parts = np.array_split(pictures(images), CALIBRATION_BATCHES)
        quantize_int8(made.onnx, made.int8, samples=[{INPUT_NAME: part} for part in parts])
    if not made.linear.exists():
        export_onnx(torch.nn.Linear(FEATURES, 10).eval(), made.linear, example=torch.zeros(2, FEATURES), **names)
    return made


def lay_out(repository: Path, made: Artifacts, names: Iterable[str], variants: Mapping[str, Settings]) -> None:
    """A model repository with the models named: the recommended ones, ones that compute nothing, TorchScript, and
    variants of settings."""
    sources = {"resnet": made.onnx, "resnet_int8": made.int8, "linear": made.linear}
    for name in names:
        folder = repository / name
        if name in sources:
            text = generate_config(sources[name], name=name)
            _put(folder, sources[name], "model.onnx", text)
        elif name in variants:
            text = f'backend: "onnxruntime" {variants[name].text()} {_TENSORS["resnet"]}'
            _put(folder, made.onnx, "model.onnx", text)
        elif name == "resnet_torch":
            text = f'backend: "pytorch" {Settings(instances=2).text()} {_TENSORS["resnet"]}'
            _put(folder, made.torchscript, "model.pt", text)
        else:
            (folder / "1").mkdir(parents=True)
            (folder / "1" / "model.py").write_text(_NOTHING)
            tensors = _TENSORS[name.removesuffix("_nothing")]
            (folder / "config.pbtxt").write_text(f'backend: "python" {Settings(instances=2).text()} {tensors}')


def _put(folder: Path, source: Path, file: str, config: str) -> None:
    (folder / "1").mkdir(parents=True)
    shutil.copyfile(source, folder / "1" / file)
    (folder / "config.pbtxt").write_text(config)
