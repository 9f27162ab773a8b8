"""For every lint rule a small model that breaks it, with what Triton does, and the same model mended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from tests.server.conftest import save_onnx

REFUSED, SERVED = "refused", "served"

ECHO = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        sent = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]) for array in sent]
"""
IN = 'input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
OUT = 'output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
HEAD = 'backend: "python"\nmax_batch_size: 8\n'
PYTHON = HEAD + IN + OUT
NET = 'backend: "onnxruntime"\nmax_batch_size: 8\n'
X = 'input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
Y = 'output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
FLOAT = TensorProto.FLOAT

Make = Callable[[Path], object]


def echo(folder: Path, source: str = ECHO, name: str = "1/model.py") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(source)


def relu(folder: Path, x=("b", 4), y=("b", 4), *, name: str = "1/model.onnx", **versions: int) -> None:
    """An ONNX file with x → y of these shapes."""
    save_onnx(folder / name, [helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, x)], [("y", FLOAT, y)], **versions)


def reduced(folder: Path) -> None:
    """x [b, 4] → y [b], one value per batch item."""
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    save_onnx(folder / "1/model.onnx", [node], [("x", FLOAT, ["b", 4])], [("y", FLOAT, ["b"])], {"axes": np.array([1])})


def scaled(folder: Path, shape=()) -> None:
    """x [b, 4] · scale → y [b, 4]; scale has no batch."""
    node = helper.make_node("Mul", ["x", "scale"], ["y"])
    tensors = [("x", FLOAT, ["b", 4]), ("scale", FLOAT, list(shape))]
    save_onnx(folder / "1/model.onnx", [node], tensors, [("y", FLOAT, ["b", 4])])


def old_weights(folder: Path) -> None:
    """IR 3: the weight is listed among the graph's inputs."""
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    tensors = [("x", FLOAT, ["b", 4]), ("w", FLOAT, [4])]
    weights = {"w": np.ones(4, np.float32)}
    save_onnx(folder / "1/model.onnx", [node], tensors, [("y", FLOAT, ["b", 4])], weights, ir=3, opset=8)


def free_output(folder: Path) -> None:
    """y's second axis is free in the file, whatever x is."""
    node = helper.make_node("Compress", ["x", "keep"], ["y"], axis=1)
    tensors = [("x", FLOAT, ["b", 4]), ("keep", TensorProto.BOOL, ["b"])]
    save_onnx(folder / "1/model.onnx", [node], tensors, [("y", FLOAT, ["b", None])])


def side_file(folder: Path, keep: bool = True) -> None:
    """The weight is in model.onnx.data."""
    import onnx

    node = helper.make_node("Mul", ["x", "w"], ["y"])
    weights = {"w": np.ones(4, np.float32)}
    path = save_onnx(folder / "1/model.onnx", [node], [("x", FLOAT, ["b", 4])], [("y", FLOAT, ["b", 4])], weights)
    model = onnx.load(path)
    options = {"save_as_external_data": True, "location": "model.onnx.data", "size_threshold": 0}
    onnx.save(model, path, **options)
    if not keep:
        (folder / "1/model.onnx.data").unlink()


def text(name: str, content: str | bytes) -> Make:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def both(*makes: Make) -> Make:
    def write(folder: Path) -> None:
        for make in makes:
            make(folder)

    return write


@dataclass(frozen=True)
class Example:
    """A model that breaks a rule.

    Attributes:
        rule: the rule's id.
        name: unique; the folders are bad_<name> and ok_<name>.
        config: config.pbtxt of the bad one; None for none.
        mended: config.pbtxt of the good one; None when config.pbtxt is right and the files are mended.
        verdict: what Triton does with the bad one: REFUSED, or SERVED (slowly, or with wrong answers).
        make: writes the files of the bad one.
        mend: writes the files of the good one; `make` when None.
        says: a part of Triton's reason.
        also: other rules that may rightly be reported instead.
    """

    rule: str
    name: str
    config: str | None
    mended: str | None = None
    verdict: str = REFUSED
    make: Make = echo
    mend: Make | None = None
    says: str = ""
    also: tuple[str, ...] = field(default=())

    def write(self, repository: Path, name: str = "") -> tuple[Path, Path]:
        """Write both; `name` takes the place of the example's own."""
        bad, good = repository / f"bad_{name or self.name}", repository / f"ok_{name or self.name}"
        for folder, config, make in (
            (bad, self.config, self.make),
            (good, self.mended if self.mended is not None else self.config, self.mend or self.make),
        ):
            folder.mkdir(parents=True)
            make(folder)
            if config is not None:
                (folder / "config.pbtxt").write_text(config.replace("NAME", folder.name))
        return bad, good


def changed(old: str, new: str, config: str = PYTHON) -> str:
    assert old in config
    return config.replace(old, new)


TEXTS = (
    Example("placeholder", "dollar", changed("8", "${batch}"), PYTHON, says="failed to read text proto"),
    Example("placeholder", "jinja", changed("8", "{{ batch }}"), PYTHON, says="failed to read text proto"),
    Example("placeholder", "name", changed('"python"', '"${backend}"'), PYTHON, also=("unknown-backend",)),
    Example("unknown-field", "field", changed("max_batch_size", "max_batchsize"), PYTHON, says="read text proto"),
    Example("unknown-field", "nested", PYTHON + "dynamic_batching { max_queue_delay_us: 1 }", PYTHON),
    Example("missing-comma", "dims", changed("[ 4 ]", "[ 1 4 ]"), PYTHON, says="read text proto"),
    Example("missing-comma", "blocks", changed("} ]", '} { name: "B" data_type: TYPE_FP32 dims: [ 4 ] } ]'), PYTHON),
    Example("json-config", "json", '{ "backend": "python", "max_batch_size": 8 }', PYTHON, says="read text proto"),
    Example("json-config", "yaml", 'backend: "python"\ninput:\n  - name: "IN"\n    dims: [ 4 ]\n', PYTHON),
    Example("json-config", "quoted", changed("TYPE_FP32", '"TYPE_FP32"'), PYTHON, also=("type-alias",)),
    Example("type-alias", "type", changed("TYPE_FP32", "TYPE_FLOAT32"), PYTHON, says="read text proto"),
    Example("type-alias", "kind", PYTHON + "instance_group [ { kind: KIND_CUDA } ]", PYTHON),
    Example("type-alias", "bare", changed("TYPE_FP32", "FP32"), PYTHON),
    Example("syntax", "bracket", PYTHON.rstrip()[:-1], PYTHON, says="read text proto"),
    Example("syntax", "quote", changed('"python"', '"python'), PYTHON, says="read text proto"),
    Example("name-differs", "name", PYTHON + 'name: "other"\n', PYTHON + 'name: "NAME"\n', says="directory name"),
    Example("unknown-backend", "alias", changed('"python"', '"py"'), PYTHON, says="unable to find backend library"),
    Example("unknown-backend", "tier", 'backend: "tensorrt"\n' + IN + OUT, PYTHON, says="unable to find backend"),
    Example("unknown-backend", "platform", 'platform: "python"\n' + IN + OUT, PYTHON, says="unexpected platform type"),
    Example(
        "unknown-backend",
        "none",
        IN + OUT,
        PYTHON,
        says="",
        make=lambda folder: echo(folder, name="1/main.py"),
        mend=echo,
        also=("model-file-name", "stray-folder"),
    ),
    Example(
        "version-policy",
        "missing",
        PYTHON + "version_policy { specific { versions: [ 3 ] } }",
        PYTHON + "version_policy { specific { versions: [ 1 ] } }",
        says="at least one version",
    ),
    Example(
        "version-policy",
        "partly",
        PYTHON + "version_policy { specific { versions: [ 1, 3 ] } }",
        PYTHON + "version_policy { specific { versions: [ 1 ] } }",
        SERVED,
    ),
    Example(
        "model-file-name",
        "onnx",
        NET + X + Y,
        NET + X + Y + 'default_model_filename: "best.onnx"\n',
        make=lambda folder: relu(folder, name="1/best.onnx"),
        says="failed to stat file",
    ),
    Example(
        "stray-folder",
        "checkpoints",
        PYTHON,
        None,
        SERVED,
        mend=echo,
        make=both(echo, text(".ipynb_checkpoints/config-checkpoint.pbtxt", "")),
        also=("version-folder",),
    ),
    Example(
        "stray-folder",
        "empty",
        None,
        PYTHON,
        make=text("notes.txt", "not a model"),
        mend=echo,
        says="Could not determine backend",
        also=("unknown-backend",),
    ),
)
