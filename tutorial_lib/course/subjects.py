"""What break-it labs break: whole models, each with a way to tell what it must answer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tutorial_lib.course.exam import Exam
from tutorial_lib.course.judge import BATCH, Finding, Truth, judge
from tutorial_lib.course.parts import export_path
from tutorial_lib.models.names import INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.paths import REFERENCE_REPOSITORY, Workspace
from tutorial_lib.repository.layout import CONFIG
from tutorial_lib.server import Server

Ask = Callable[[Server], Finding | None]


@dataclass(frozen=True)
class Subject:
    """The model that a lab breaks.

    Attributes:
        model: the name that clients ask for.
        build: puts it whole, with the models it needs, into an empty repository.
        oracle: from that repository, what to ask a server that has loaded it.
        answers: how it must answer, for the task.
    """

    model: str
    build: Callable[[Path, Workspace], None]
    oracle: Callable[[Path], Ask]
    answers: str

    @property
    def expected(self) -> str:
        return f"'{self.model}' is loaded and answers a batch of {BATCH} rightly"

    @property
    def task(self) -> str:
        return f"mend it so that Triton loads {self.model} and answers {self.answers}."


def _digits(repository: Path, space: Workspace) -> None:
    """The reference's configuration and labels with the exported file; the learner's own edits stay out of it."""
    model = repository / MODEL_NAME
    shutil.copytree(REFERENCE_REPOSITORY / MODEL_NAME, model, ignore=shutil.ignore_patterns(".*", "[0-9]*"))
    (model / "1").mkdir()
    shutil.copyfile(export_path(space), model / "1" / "model.onnx")
    text = (model / CONFIG).read_text(encoding="utf-8")
    text = text.replace("# two copies of", "# one copy of").replace("count: 2", "count: 1")  # loads in half the time
    (model / CONFIG).write_text(text, encoding="utf-8")


def _digits_oracle(repository: Path) -> Ask:
    return partial(judge, truth=Truth((repository / MODEL_NAME / "1" / "model.onnx").read_bytes()))


def _write(model: Path, config: str, code: str = "") -> None:
    (model / "1").mkdir(parents=True)
    (model / CONFIG).write_text(config.lstrip(), encoding="utf-8")
    if code:
        (model / "1" / "model.py").write_text(code.lstrip(), encoding="utf-8")


def _images() -> np.ndarray:
    """A batch that nobody can know beforehand, as grey digits are, float32 (8, 8, 8)."""
    return np.random.default_rng().integers(0, 17, (BATCH, 8, 8)).astype(np.float32)


def _ink(repository: Path, space: Workspace) -> None:
    ignore = shutil.ignore_patterns(".*", "__pycache__")
    shutil.copytree(REFERENCE_REPOSITORY / "ink_meter", repository / "ink_meter", ignore=ignore)


def _ink_oracle(repository: Path) -> Ask:
    images = _images()
    return Exam("ink_meter", {"image": images}, {"ink": images.reshape(BATCH, -1).mean(axis=1, keepdims=True) / 16})


SCORE_CONFIG = """
name: "brightness"
backend: "onnxruntime"
max_batch_size: 32
input [ { name: "image" data_type: TYPE_FP32 dims: [ 8, 8 ] } ]
output [
  {
    name: "mean"
    data_type: TYPE_FP32
    dims: [ 1 ]
    reshape { shape: [ ] }
  }
]
"""


def _score(repository: Path, space: Workspace) -> None:
    """One number for each image: the graph's output has the batch axis and no other."""
    import onnx
    from onnx import TensorProto, helper

    _write(repository / "brightness", SCORE_CONFIG)
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["image"], ["mean"], axes=[1, 2], keepdims=0)],
        "brightness",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 8, 8])],
        [helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["batch"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, repository / "brightness" / "1" / "model.onnx")


def _score_oracle(repository: Path) -> Ask:
    images = _images()
    return Exam("brightness", {"image": images}, {"mean": images.reshape(BATCH, -1).mean(axis=1, keepdims=True)})


ENLARGE_CONFIG = """
name: "enlarge"
backend: "python"
max_batch_size: 32
input [ { name: "grey" data_type: TYPE_FP32 dims: [ 8, 8 ] } ]
output [ { name: "pixels" data_type: TYPE_FP32 dims: [ 3, 32, 32 ] } ]
"""
ENLARGE_CODE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            grey = pb_utils.get_input_tensor_by_name(request, "grey").as_numpy() / 16  # (batch, 8, 8)
            large = grey.repeat(4, axis=1).repeat(4, axis=2)  # (batch, 32, 32)
            pixels = np.repeat(large[:, None], 3, axis=1).astype(np.float32)  # (batch, 3, 32, 32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("pixels", pixels)]))
        return responses
"""
PIPELINE_CONFIG = f"""
name: "digit_pipeline"
platform: "ensemble"
max_batch_size: 32
input [ {{ name: "image" data_type: TYPE_FP32 dims: [ 8, 8 ] }} ]
output [ {{ name: "scores" data_type: TYPE_FP32 dims: [ 10 ] }} ]
ensemble_scheduling {{
  step [
    {{
      model_name: "enlarge"
      model_version: -1
      input_map {{ key: "grey" value: "image" }}
      output_map {{ key: "pixels" value: "enlarged" }}
    }},
    {{
      model_name: "{MODEL_NAME}"
      model_version: -1
      input_map {{ key: "{INPUT_NAME}" value: "enlarged" }}
      output_map {{ key: "{OUTPUT_NAME}" value: "scores" }}
    }}
  ]
}}
"""


def _pipeline(repository: Path, space: Workspace) -> None:
    _digits(repository, space)
    _write(repository / "enlarge", ENLARGE_CONFIG, ENLARGE_CODE)
    _write(repository / "digit_pipeline", PIPELINE_CONFIG)


def _pipeline_oracle(repository: Path) -> Ask:
    import onnxruntime

    images = _images()
    large = np.kron(images / 16, np.ones((4, 4), np.float32))  # (8, 32, 32)
    data = np.repeat(large[:, None], 3, axis=1).astype(np.float32)  # (8, 3, 32, 32)
    session = onnxruntime.InferenceSession(
        (repository / MODEL_NAME / "1" / "model.onnx").read_bytes(), providers=["CPUExecutionProvider"]
    )
    (scores,) = session.run([OUTPUT_NAME], {INPUT_NAME: data})
    return Exam("digit_pipeline", {"image": images}, {"scores": scores})


_AS_BEFORE = f"batches of {BATCH} and more, as before"
DIGITS = Subject(MODEL_NAME, _digits, _digits_oracle, f"batches of {BATCH} and more, with labels, as before")
INK = Subject("ink_meter", _ink, _ink_oracle, _AS_BEFORE)
SCORE = Subject("brightness", _score, _score_oracle, f"{_AS_BEFORE}: one number for each image")
PIPELINE = Subject("digit_pipeline", _pipeline, _pipeline_oracle, f"{_AS_BEFORE}: ten scores for an 8×8 image")
