"""For every lint rule: repositories that break it, and the same ones mended."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from tests.unit.onnx_files import FLOAT, INT64, relu, save

Files = dict[str, "str | bytes | Callable[[Path], object]"]

ECHO = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]) for array in arrays]
"""
IN = 'input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
OUT = 'output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
PY = 'backend: "python"\nmax_batch_size: 8\n' + IN + OUT
X = 'input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]\n'
Y = 'output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]\n'
TORCH = (
    'backend: "pytorch"\nmax_batch_size: 8\n'
    'input [ { name: "A__0" data_type: TYPE_FP32 dims: [ 3 ] }, { name: "B__1" data_type: TYPE_FP32 dims: [ 3 ] } ]\n'
    'output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 3 ] } ]\n'
)
NET = 'backend: "onnxruntime"\nmax_batch_size: 8\ndynamic_batching { }\n'


def archive(*names: str) -> bytes:
    """A zip archive as torch makes them, all in one folder."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            file.writestr(f"model/{name}", "")
    return buffer.getvalue()


TORCHSCRIPT = archive("constants.pkl", "data.pkl", "code/__torch__.py")


@dataclass(frozen=True)
class Example:
    """A repository, as {path: content}, that breaks a rule, and what is different when it is mended.

    Attributes:
        good: files to write over the bad ones; None takes a file away.
        line: where the finding points; 0 for anywhere.
        options: for `lint_repository`.
    """

    rule: str
    bad: Files
    good: Files
    line: int = 0
    severity: str = "error"
    options: tuple[tuple[str, object], ...] = ()

    def write(self, root: Path, *, mended: bool) -> Path:
        files = self.bad | (self.good if mended else {})
        for name, content in files.items():
            path = root / name
            if content is None:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            else:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root


def py(rule: str, config: str, good: str = PY, line: int = 0, *, source: str = ECHO, **options) -> Example:
    """A Python model whose configuration is wrong."""
    return Example(rule, {"m/config.pbtxt": config, "m/1/model.py": source}, {"m/config.pbtxt": good}, line, **options)


def script(rule: str, source: str, line: int = 0, *, good: str = ECHO, config: str = PY, **options) -> Example:
    """A Python model whose script is wrong."""
    return Example(rule, {"m/config.pbtxt": config, "m/1/model.py": source}, {"m/1/model.py": good}, line, **options)


def net(rule: str, bad: str, good: str, graph: Callable[[Path], object] = relu, line: int = 0, **options) -> Example:
    """An ONNX model whose configuration is wrong."""
    return Example(rule, {"m/config.pbtxt": bad, "m/1/model.onnx": graph}, {"m/config.pbtxt": good}, line, **options)


def swap(old: str, new: str, text: str = PY) -> str:
    assert old in text, (old, text)
    return text.replace(old, new, 1)


def fixed(path: Path) -> None:
    relu(path, (1, 3))


def wide(path: Path) -> None:
    """y's last axis is open, and no inference closes it."""
    nodes = [helper.make_node("Compress", ["x", "keep"], ["y"], axis=1)]
    keep = {"keep": np.array([True, False, True])}
    save(path, nodes, [("x", FLOAT, ["batch", 3])], [("y", FLOAT, ["batch", None])], keep)


def loosely_typed(path: Path) -> None:
    """The file leaves y open, ONNX Runtime knows that it is x's shape."""
    save(path, [helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, ["batch", 3])], [("y", FLOAT, ["p", "q"])])


def summed(path: Path) -> None:
    """One number an item."""
    nodes = [helper.make_node("ReduceSum", ["x", "axis"], ["y"], keepdims=0)]
    save(path, nodes, [("x", FLOAT, ["batch", 3])], [("y", FLOAT, ["batch"])], {"axis": np.array([1])})


def scaled(path: Path) -> None:
    """A second input without a batch axis."""
    nodes = [helper.make_node("Mul", ["x", "s"], ["y"])]
    save(path, nodes, [("x", FLOAT, ["batch", 3]), ("s", FLOAT, [3])], [("y", FLOAT, ["batch", 3])])


def listed_weight(path: Path) -> None:
    nodes, inputs = [helper.make_node("Mul", ["x", "w"], ["y"])], [("x", FLOAT, ["batch", 3]), ("w", FLOAT, [3])]
    save(path, nodes, inputs, [("y", FLOAT, ["batch", 3])], {"w": np.ones(3, np.float32)}, ir=3, opset=8)


def maps(path: Path) -> None:
    """The second output is a sequence of maps, as scikit-learn's converter writes it."""
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("ZipMap", ["x"], ["p"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]
    kind = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, None))
    value = helper.make_value_info("p", helper.make_sequence_type_proto(kind))
    save(path, nodes, [("x", FLOAT, ["batch", 3])], [("y", FLOAT, ["batch", 3]), value], domains=["ai.onnx.ml"])


def outside(path: Path) -> None:
    """The weights lie in a file of their own."""
    weights = {"w": np.ones((3, 512), np.float32)}
    nodes, y = [helper.make_node("MatMul", ["x", "w"], ["y"])], ("y", FLOAT, ["batch", 512])
    save(path, nodes, [("x", FLOAT, ["batch", 3])], [y], weights, save_as_external_data=True, location="w.bin")


def outside_alone(path: Path) -> None:
    outside(path)
    (path.parent / "w.bin").unlink()


def newer(path: Path) -> None:
    relu(path, ir=11)


def newer_opset(path: Path) -> None:
    relu(path, opset=22, ir=10)


def plan(version: tuple[int, ...]) -> bytes:
    return b"ftrt" + bytes(20) + bytes(version) + bytes(64)


def ensemble(steps: str, *, most: int = 8, head: str = 'platform: "ensemble"\n', tail: str = "") -> str:
    return f"{head}max_batch_size: {most}\n{IN}{OUT}ensemble_scheduling {{ step [ {steps} ] }}\n{tail}"


def step(name: str, source: str, target: str, *, key: str = "IN", out: str = "OUT", version: int = -1) -> str:
    maps = f'input_map {{ key: "{key}" value: "{source}" }} output_map {{ key: "{out}" value: "{target}" }}'
    return f'{{ model_name: "{name}" model_version: {version} {maps} }}'


CHAIN = ensemble(f"{step('a', 'IN', 'mid')}, {step('b', 'mid', 'OUT')}")


def chain(rule: str, config: str, *, b: str = PY, good_b: str | None = None, **options) -> Example:
    """An ensemble of two Python models that is wrong, or whose second step is."""
    bad: Files = {"a/config.pbtxt": PY, "a/1/model.py": ECHO, "b/config.pbtxt": b, "b/1/model.py": ECHO}
    bad |= {"e/config.pbtxt": config, "e/1/.gitkeep": ""}
    return Example(rule, bad, {"e/config.pbtxt": CHAIN, "b/config.pbtxt": good_b or PY}, **options)


def warm(inner: str, *, size: int = 1, key: str = "x") -> str:
    sample = f'name: "w" batch_size: {size} inputs {{ key: "{key}" value {{ {inner} }} }}'
    return f"{NET}{X}{Y}model_warmup [ {{ {sample} }} ]\n"


def sequence(control: str) -> str:
    return f"{PY}sequence_batching {{ control_input [ {control} ] }}\n"


WARM = "data_type: TYPE_FP32 dims: [ 3 ]"
START = '{ name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] }'
ALL_Y = 'output [ { name: "y" data_type: TYPE_FP32 dims: [ -1, 3 ] } ]\n'
ALL_X = 'input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] } ]\n'
FLAT = 'backend: "onnxruntime"\n'
BF16 = TensorProto.BFLOAT16
CONTAINER = (("tier", "container"),)
TWO_GPUS = (("tier", "container"), ("gpus", 2))
WARNING, INFO = {"severity": "warning"}, {"severity": "info"}

TEXT = [
    py("placeholder", swap("8", "${batch}"), line=2),
    py("placeholder", swap("8", "{{ batch }}"), line=2),
    py("placeholder", PY + 'parameters { key: "dir" value { string_value: "${DIR}" } }', line=5, **WARNING),
    py("unknown-field", swap("max_batch_size", "max_batchsize"), line=2),
    py("unknown-field", PY + "instance_group [ { cout: 1 } ]", line=5),
    py("unknown-field", swap("dims", "shape"), line=3),
    py("unknown-field", PY + "max_queue_delay_microseconds: 5", line=5),
    py("type-alias", swap("TYPE_FP32", "TYPE_FLOAT32"), line=3),
    py("type-alias", swap("TYPE_FP32", "FP32"), line=3),
    py("type-alias", swap("TYPE_FP32", "TYPE_BYTES"), line=3),
    py("type-alias", PY + "instance_group [ { kind: KIND_TPU } ]", line=5),
    py("missing-comma", swap("[ 4 ]", "[ 2 2 ]"), line=3),
    py("missing-comma", swap("} ]", '} { name: "B" data_type: TYPE_FP32 dims: [ 4 ] } ]'), line=3),
    py("json-config", '{ "backend": "python", "max_batch_size": 8 }', line=1),
    py("json-config", swap("TYPE_FP32", '"TYPE_FP32"'), line=3),
    py("json-config", 'backend: "python"\ninput:\n  - name: "IN"\n    dims: [ 4 ]\n', line=3),
    py("field-twice", PY + "max_batch_size: 8\n", line=5),
    py("syntax", swap("] }", "]"), line=3),
    py("syntax", swap('"python"', '"python'), line=1),
    py("text-encoding", "\ufeff" + PY, line=1),
    py("text-encoding", PY.encode("utf-16"), line=1),
    py("text-encoding", PY.encode() + b"# caf\xe9\n", line=5, **WARNING),
]
LAYOUT = [
    Example(
        "path-level",
        {"config.pbtxt": PY, "1/model.py": ECHO},
        {"config.pbtxt": None, "1/model.py": None, "m/config.pbtxt": PY, "m/1/model.py": ECHO},
    ),
    Example(
        "path-level",
        {"deep/m/config.pbtxt": PY, "deep/m/1/model.py": ECHO},
        {"deep/m/config.pbtxt": None, "deep/m/1/model.py": None, "m/config.pbtxt": PY, "m/1/model.py": ECHO},
    ),
    Example("path-level", {"model.onnx": relu}, {"model.onnx": None, "m/1/model.onnx": relu}),
    Example("stray-folder", {".git/HEAD": "ref", "m/config.pbtxt": PY, "m/1/model.py": ECHO}, {".git/HEAD": None}),
    Example(
        "stray-folder",
        {"docs/a.md": "", "m/config.pbtxt": PY, "m/1/model.py": ECHO},
        {"docs/a.md": None, "README.md": ""},
    ),
    Example(
        "stray-folder",
        {"m/config.pbtxt": PY, "m/1/model.py": ECHO, "m/.ipynb_checkpoints/x": ""},
        {"m/.ipynb_checkpoints/x": None},
        **INFO,
    ),
    py("name-differs", 'name: "other"\n' + PY, 'name: "m"\n' + PY, line=1),
    Example(
        "folder-name",
        {"my model/config.pbtxt": PY, "my model/1/model.py": ECHO},
        {"my model/config.pbtxt": None, "my model/1/model.py": None, "m/config.pbtxt": PY, "m/1/model.py": ECHO},
    ),
    Example(
        "folder-name",
        {"größe/config.pbtxt": NET + X + Y, "größe/1/model.onnx": relu},
        {"größe/config.pbtxt": None, "größe/1/model.onnx": None, "m/1/model.onnx": relu},
    ),
    Example(
        "folder-name",
        {"net /config.pbtxt": NET + X + Y, "net /1/model.onnx": relu},
        {"net /config.pbtxt": None, "net /1/model.onnx": None, "net/1/model.onnx": relu},
        severity="warning",
        options=CONTAINER,
    ),
    Example(
        "version-folder", {"m/config.pbtxt": PY, "m/v1/model.py": ECHO}, {"m/v1/model.py": None, "m/1/model.py": ECHO}
    ),
    Example(
        "version-folder", {"m/config.pbtxt": PY, "m/01/model.py": ECHO}, {"m/01/model.py": None, "m/1/model.py": ECHO}
    ),
    Example("version-folder", {"m/config.pbtxt": PY, "m/model.py": ECHO}, {"m/model.py": None, "m/1/model.py": ECHO}),
    Example("version-folder", {"m/config.pbtxt": PY}, {"m/1/model.py": ECHO}),
    Example(
        "version-folder",
        {"m/config.pbtxt": PY, "m/0/model.py": ECHO, "m/02/model.py": ECHO},
        {"m/02/model.py": None},
        **WARNING,
    ),
    py(
        "version-policy",
        PY + "version_policy { specific { versions: [ 3 ] } }",
        PY + "version_policy { specific { versions: [ 1 ] } }",
        line=5,
    ),
    py(
        "version-policy",
        PY + "version_policy { specific { versions: [ 1, 3 ] } }",
        PY + "version_policy { specific { versions: [ 1 ] } }",
        line=5,
        **WARNING,
    ),
    py(
        "version-policy",
        PY + "version_policy { latest { num_versions: 0 } }",
        PY + "version_policy { all { } }",
        line=5,
    ),
    Example(
        "version-policy",
        {"m/config.pbtxt": PY, "m/1/model.py": ECHO, "m/2/model.py": ECHO},
        {"m/config.pbtxt": PY + "version_policy { all { } }"},
        **INFO,
    ),
    Example(
        "config-name",
        {"m/config.pbtxt.txt": PY, "m/1/model.py": ECHO},
        {"m/config.pbtxt.txt": None, "m/config.pbtxt": PY},
        **WARNING,
    ),
    Example(
        "config-name",
        {"m/1/config.pbtxt": PY, "m/1/model.py": ECHO},
        {"m/1/config.pbtxt": None, "m/config.pbtxt": PY},
        **WARNING,
    ),
    Example(
        "unreadable", {"m/config.pbtxt/x": "", "m/1/model.py": ECHO}, {"m/config.pbtxt/x": None, "m/config.pbtxt": PY}
    ),
]
BACKENDS = [
    py("unknown-backend", swap('"python"', '"py"'), line=1),
    py("unknown-backend", swap('backend: "python"', 'platform: "python"'), line=1),
    py("unknown-backend", PY + 'platform: "onnxruntime_onnx"', line=5),
    net(
        "unknown-backend",
        swap("onnxruntime", "onnxruntime_onnx", NET + X + Y),
        'platform: "onnxruntime_onnx"\n' + NET + X + Y,
    ),
    Example(
        "unknown-backend",
        {"m/config.pbtxt": IN + OUT, "m/1/main.py": ECHO},
        {"m/1/main.py": None, "m/1/model.py": ECHO},
    ),
    Example(
        "unknown-backend",
        {"m/config.pbtxt": 'backend: "openvino"', "m/1/model.xml": "<net/>"},
        {"m/config.pbtxt": NET + X + Y, "m/1/model.onnx": relu},
    ),
]
TENSORS = [
    py("tensor-incomplete", swap('name: "IN" ', ""), line=3),
    py("tensor-incomplete", swap("data_type: TYPE_FP32 ", ""), line=3),
    py("empty-dims", swap("[ 4 ]", "[ ]"), line=3),
    py("empty-dims", swap("dims: [ 4 ] ", ""), line=3),
    py("dims-value", swap("[ 4 ]", "[ 0 ]"), line=3),
    py("dims-value", swap("[ 4 ]", "[ -2 ]"), line=3),
    py(
        "scalar-dims",
        swap("8", "0", swap("[ 4 ]", "[ 1 ] reshape { shape: [ ] }")),
        swap("[ 4 ]", "[ 1 ] reshape { shape: [ ] }"),
        line=3,
    ),
    py(
        "reshape-size",
        swap("[ 4 ]", "[ 4 ] reshape { shape: [ 3 ] }"),
        swap("[ 4 ]", "[ 4 ] reshape { shape: [ 2, 2 ] }"),
        line=3,
    ),
    py(
        "reshape-size",
        swap("[ 4 ]", "[ -1 ] reshape { shape: [ 3, -1 ] }"),
        swap("[ 4 ]", "[ -1 ] reshape { shape: [ 1, -1 ] }"),
    ),
    py(
        "tensor-format",
        swap("[ 4 ]", "[ 4 ] format: FORMAT_NCHW"),
        swap("[ 4 ]", "[ 3, 4, 4 ] format: FORMAT_NCHW"),
        line=3,
    ),
    py("shape-tensor", swap("[ 4 ]", "[ 4 ] is_shape_tensor: true"), line=3),
    py("tensor-twice", swap("} ]", '}, { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]'), line=3, **WARNING),
    Example(
        "label-file",
        {"m/config.pbtxt": PY[:-4] + ' label_filename: "l.txt" } ]', "m/1/model.py": ECHO},
        {"m/l.txt": "a\nb\nc\nd\n"},
        line=4,
    ),
    Example(
        "label-file",
        {"m/config.pbtxt": PY[:-4] + ' label_filename: "l.txt" } ]', "m/1/model.py": ECHO, "m/l.txt": "a\n"},
        {"m/l.txt": "a\nb\nc\nd"},
        line=4,
        **WARNING,
    ),
    Example(
        "label-file",
        {"m/config.pbtxt": PY[:-4] + ' label_filename: "../l" } ]', "m/1/model.py": ECHO, "l": "a\nb\nc\nd\n"},
        {"m/config.pbtxt": PY[:-4] + ' label_filename: "l" } ]', "m/l": "a\nb\nc\nd\n"},
        line=4,
    ),
]
GRAPHS = [
    net("batch-in-dims", NET + swap("[ 3 ]", "[ -1, 3 ]", X) + Y, NET + X + Y, line=4),
    net("batch-in-dims", NET + X + swap("[ 3 ]", "[ 8, 3 ]", Y), NET + X + Y, line=5),
    net("fixed-batch", NET + X + Y, FLAT + swap("[ 3 ]", "[ 1, 3 ]", X) + swap("[ 3 ]", "[ 1, 3 ]", Y), fixed, line=4),
    net("fixed-batch", NET, FLAT, fixed),
    net(
        "unbatched-side-input",
        NET + swap("} ]", '}, { name: "s" data_type: TYPE_FP32 dims: [ 3 ] } ]', X) + Y,
        FLAT + swap("} ]", '}, { name: "s" data_type: TYPE_FP32 dims: [ 3 ] } ]', ALL_X) + ALL_Y,
        scaled,
        line=4,
    ),
    net("output-narrower", NET + X + swap("[ 3 ]", "[ 2 ]", Y), NET + X + swap("[ 3 ]", "[ -1 ]", Y), wide, line=5),
    net("tensor-shape", NET + X + swap("[ 3 ]", "[ -1 ]", Y), NET + X + Y, loosely_typed, line=5),
    net("tensor-shape", NET + swap("[ 3 ]", "[ 4 ]", X) + Y, NET + X + Y, line=4),
    net("tensor-shape", FLAT + X + Y, FLAT + ALL_X + ALL_Y, line=2),
    net(
        "rank-needs-reshape",
        NET + X + swap("[ 3 ]", "[ 1 ]", Y),
        NET + X + swap("[ 3 ]", "[ 1 ] reshape { shape: [ ] }", Y),
        summed,
        line=5,
    ),
    net("wrong-data-type", NET + swap("FP32", "INT64", X) + Y, NET + X + Y, line=4),
    net("unknown-tensor", NET + X + swap('"y"', '"logits"', Y), NET + X + Y, line=5),
    net("unknown-tensor", NET + swap('"x"', '"image"', X) + Y, NET + X + Y, line=4),
    net(
        "missing-input",
        NET + X + Y,
        FLAT + swap("} ]", '}, { name: "s" data_type: TYPE_FP32 dims: [ 3 ] } ]', ALL_X) + ALL_Y,
        scaled,
    ),
    net(
        "initializer-as-input",
        NET + swap("} ]", '}, { name: "w" data_type: TYPE_FP32 dims: [ 3 ] } ]', X) + Y,
        NET + X + Y,
        listed_weight,
        line=4,
    ),
    net("unsupported-type", NET, NET + X + Y, maps),
    Example(
        "unsupported-type",
        {
            "m/1/model.onnx": lambda path: save(
                path, [helper.make_node("Identity", ["x"], ["y"])], [("x", BF16, ["b"])], [("y", BF16, ["b"])]
            )
        },
        {"m/1/model.onnx": relu},
    ),
    Example("config-missing", {"m/1/model.onnx": relu}, {"m/config.pbtxt": NET + X + Y}, **INFO),
]
FILES = [
    py("model-path", PY + 'default_model_filename: "/etc/passwd"', PY + 'default_model_filename: "model.py"', line=5),
    net("model-path", NET + X + Y + 'default_model_filename: "../../other/1/model.onnx"', NET + X + Y, line=6),
    Example(
        "model-path",
        {"m/config.pbtxt": PY + 'default_model_filename: "../model.py"', "m/model.py": ECHO, "m/1/x": ""},
        {"m/config.pbtxt": PY, "m/1/model.py": ECHO, "m/model.py": None},
        line=5,
        **WARNING,
    ),
    Example(
        "model-file-name",
        {"m/config.pbtxt": NET + X + Y, "m/1/best.onnx": relu},
        {"m/config.pbtxt": NET + X + Y + 'default_model_filename: "best.onnx"'},
    ),
    Example("model-file-name", {"m/config.pbtxt": PY, "m/1/notes.txt": ""}, {"m/1/model.py": ECHO}),
    Example("model-file", {"m/config.pbtxt": NET + X + Y, "m/1/model.onnx": b""}, {"m/1/model.onnx": relu}),
    Example(
        "model-file", {"m/config.pbtxt": NET + X + Y, "m/1/model.onnx": b"not a model at all"}, {"m/1/model.onnx": relu}
    ),
    Example(
        "model-file",
        {"m/config.pbtxt": NET + X + Y, "m/1/model.onnx": b"version https://git-lfs.github.com/spec/v1\n"},
        {"m/1/model.onnx": relu},
    ),
    Example(
        "model-file",
        {"m/config.pbtxt": TORCH, "m/1/model.pt": b""},
        {"m/1/model.pt": archive("constants.pkl", "code/__torch__.py")},
        options=CONTAINER,
    ),
    *(
        Example("torchscript-file", {"m/config.pbtxt": TORCH, "m/1/model.pt": found}, {"m/1/model.pt": TORCHSCRIPT})
        for found in (
            archive("data.pkl"),
            archive("archive_format", "models/model.json"),
            archive("a.txt"),
            b"pickle",
            TORCHSCRIPT[:-8],
        )
    ),
    Example(
        "torchscript-tensors",
        {"m/config.pbtxt": TORCH.partition("output")[0], "m/1/model.pt": TORCHSCRIPT},
        {"m/config.pbtxt": TORCH},
    ),
    Example(
        "torchscript-tensors",
        {"m/config.pbtxt": TORCH.replace("B__1", "B__0"), "m/1/model.pt": TORCHSCRIPT},
        {"m/config.pbtxt": TORCH},
    ),
    Example("model-too-new", {"m/config.pbtxt": NET + X + Y, "m/1/model.onnx": newer}, {"m/1/model.onnx": relu}),
    Example("model-too-new", {"m/config.pbtxt": NET + X + Y, "m/1/model.onnx": newer_opset}, {"m/1/model.onnx": relu}),
    Example("external-data", {"m/1/model.onnx": outside_alone}, {"m/1/model.onnx": outside}),
    Example(
        "plan-version",
        {"m/config.pbtxt": 'backend: "tensorrt"', "m/1/model.plan": plan((10, 0, 1, 6))},
        {"m/1/model.plan": plan((10, 7, 0, 23))},
        options=(("tier", "container"), ("release", "24.12")),
    ),
    Example(
        "plan-version",
        {"m/config.pbtxt": 'backend: "tensorrt"', "m/1/model.plan": b"onnx?"},
        {"m/1/model.plan": plan((10, 7, 0, 23))},
        severity="warning",
        options=(("tier", "container"), ("release", "24.12")),
    ),
    Example(
        "environment-archive",
        {
            "m/config.pbtxt": PY + 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: '
            '"$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }',
            "m/1/model.py": ECHO,
        },
        {"m/env.tar.gz": b"x"},
        line=5,
    ),
]
LEVEL_5 = "dynamic_batching { priority_levels: 1 default_priority_level: 1 priority_queue_policy { key: 5 value { } } }"
HASTY = "max_queue_delay_microseconds: 500 default_queue_policy { default_timeout_microseconds: 100 }"
HASTY = f"dynamic_batching {{ {HASTY} }}"
BATCHING = [
    py("batching-contradiction", swap("8", "-1"), line=2),
    py(
        "batching-contradiction",
        PY + "dynamic_batching { preferred_batch_size: [ 4, 16 ] }",
        PY + "dynamic_batching { preferred_batch_size: [ 4, 8 ] }",
        line=5,
    ),
    py("batching-contradiction", PY + "dynamic_batching { preferred_batch_size: [ 0 ] }", line=5),
    py("batching-contradiction", swap("8", "0") + "dynamic_batching { preferred_batch_size: [ 2 ] }", line=5),
    py(
        "batching-contradiction",
        PY + "dynamic_batching { }\nsequence_batching { }",
        PY + "dynamic_batching { }",
        line=6,
    ),
    py(
        "batching-contradiction",
        PY + "response_cache { enable: true }\nmodel_transaction_policy { decoupled: true }",
        PY + "response_cache { enable: true }",
        line=5,
    ),
    py(
        "priority-levels",
        PY + "dynamic_batching { priority_levels: 3 }",
        PY + "dynamic_batching { priority_levels: 3 default_priority_level: 2 }",
        line=5,
    ),
    py("priority-levels", PY + "dynamic_batching { priority_levels: 3 default_priority_level: 4 }", line=5),
    py(
        "priority-levels",
        PY + "dynamic_batching { priority_levels: 2 default_priority_level: 1 preserve_ordering: true }",
        line=5,
    ),
    py(
        "priority-levels",
        PY + LEVEL_5,
        line=5,
    ),
    py(
        "queue-policy",
        PY + "dynamic_batching { default_queue_policy { timeout_action: DELAY } }",
        PY + "dynamic_batching { default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 100000 } }",
        line=5,
        **WARNING,
    ),
    py(
        "queue-policy",
        PY + HASTY,
        line=5,
        **WARNING,
    ),
    net(
        "batching-without-batch", FLAT + ALL_X + ALL_Y + "dynamic_batching { }", FLAT + ALL_X + ALL_Y, line=4, **WARNING
    ),
    py(
        "queue-delay",
        PY + "dynamic_batching { max_queue_delay_microseconds: 300000 }",
        PY + "dynamic_batching { max_queue_delay_microseconds: 500 }",
        line=5,
        **WARNING,
    ),
    py(
        "mixed-shapes",
        swap("[ 4 ]", "[ -1 ]") + "dynamic_batching { }",
        swap("[ 4 ]", "[ -1 ] allow_ragged_batch: true") + "dynamic_batching { }",
        line=3,
        **INFO,
    ),
    net("no-batching", swap("dynamic_batching { }\n", "", NET) + X + Y, NET + X + Y, line=2, **INFO),
    net("no-batching", swap("8", "1", NET) + X + Y, NET + X + Y, line=2, **INFO),
    py(
        "preferred-size",
        PY + "dynamic_batching { preferred_batch_size: [ 4, 8 ] }",
        PY + "dynamic_batching { }",
        line=5,
        **INFO,
    ),
    net("no-batching", swap("8", "1", swap("dynamic_batching { }\n", "", NET)) + X + Y, NET + X + Y, line=2, **INFO),
    py(
        "batch-input",
        PY + 'batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "n" data_type: TYPE_FP32 source_input: "no" } ]',
        PY + 'batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "n" data_type: TYPE_FP32 source_input: "IN" } ]',
        line=5,
    ),
]
GROUP = "instance_group [ { %s } ]"
INSTANCES = [
    py("instance-group", PY + GROUP % "kind: KIND_GPU", PY + GROUP % "kind: KIND_CPU", line=5),
    py("instance-group", PY + GROUP % "kind: KIND_GPU", PY + GROUP % "kind: KIND_AUTO", line=5, options=CONTAINER),
    py(
        "instance-group",
        PY + GROUP % "kind: KIND_GPU gpus: [ 2 ]",
        PY + GROUP % "kind: KIND_GPU gpus: [ 1 ]",
        line=5,
        options=TWO_GPUS,
    ),
    py(
        "instance-group",
        PY + GROUP % "kind: KIND_CPU gpus: [ 0 ]",
        PY + GROUP % "gpus: [ 0 ]",
        line=5,
        options=TWO_GPUS,
    ),
    py("instance-group", PY + GROUP % "gpus: [ 0 ]", PY + GROUP % "count: 2", line=5),
    py("instance-group", PY + GROUP % 'kind: KIND_CPU profile: [ "0" ]', line=5),
    py("instance-group", PY + GROUP % "count: 0", PY + GROUP % "count: 1", line=5, **WARNING),
    net("instance-count", NET + X + Y + GROUP % "count: 999", NET + X + Y + GROUP % "count: 1", line=6, **INFO),
]
ENSEMBLES = [
    chain("ensemble-scheduling", CHAIN + "dynamic_batching { }\n"),
    chain("ensemble-scheduling", CHAIN + 'backend: "python"\n'),
    chain("ensemble-scheduling", CHAIN + GROUP % "count: 1"),
    chain("ensemble-scheduling", CHAIN + "optimization { priority: PRIORITY_MAX }\n"),
    chain("ensemble-scheduling", swap('platform: "ensemble"\n', "", CHAIN)),
    chain("ensemble-scheduling", ensemble("")),
    chain("ensemble-scheduling", 'platform: "ensemble"\nmax_batch_size: 8\n' + IN + OUT),
    chain("ensemble-model-missing", swap('"b"', '"bb"', CHAIN)),
    chain("ensemble-model-missing", swap('model_name: "b" ', "", CHAIN)),
    chain("ensemble-model-missing", swap("-1", "7", CHAIN)),
    chain("ensemble-cycle", ensemble(step("e", "IN", "OUT"))),
    chain("ensemble-cycle", ensemble(f"{step('a', 'q', 'p')}, {step('b', 'p', 'q')}, {step('a', 'IN', 'OUT')}")),
    chain("ensemble-map", ensemble(f"{step('a', 'IN', 'OUT', key='IN2')}")),
    chain("ensemble-map", ensemble(f"{step('a', 'IN', 'mid')}, {step('b', 'middle', 'OUT')}")),
    chain("ensemble-map", ensemble(f"{step('a', 'IN', 'mid')}, {step('b', 'IN', 'OUT')}")),
    chain("ensemble-map", ensemble(f"{step('a', 'IN', 'OUT')}, {step('b', 'IN', 'OUT')}")),
    chain("ensemble-map", swap("} ]", '}, { name: "Z" data_type: TYPE_FP32 dims: [ 4 ] } ]', CHAIN)),
    chain(
        "ensemble-map",
        CHAIN,
        b=swap("} ]", '}, { name: "B" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
        good_b=swap("} ]", '}, { name: "B" data_type: TYPE_FP32 dims: [ 4 ] optional: true } ]'),
    ),
    chain("ensemble-type", CHAIN, b=swap("FP32", "INT64")),
    chain("ensemble-shape", CHAIN, b=swap("[ 4 ]", "[ 1, 4 ]")),
    chain("ensemble-shape", swap("size: 8", "size: 0", CHAIN), **WARNING),
    chain("ensemble-batch", CHAIN, b=swap("8", "4")),
    chain("ensemble-step-broken", CHAIN, b=swap("[ 4 ]", "[ 0 ]")),
]
WARMUPS = [
    net("warmup", warm(WARM + " zero_data: true", key="image"), warm(WARM + " zero_data: true"), line=6),
    net("warmup", warm("data_type: TYPE_INT8 dims: [ 3 ] zero_data: true"), warm(WARM + " random_data: true"), line=6),
    net("warmup", warm("data_type: TYPE_FP32 dims: [ 1, 3 ] zero_data: true"), warm(WARM + " zero_data: true"), line=6),
    net("warmup", warm("data_type: TYPE_FP32 dims: [ -1 ] zero_data: true"), warm(WARM + " zero_data: true"), line=6),
    net("warmup", warm(WARM + ' input_data_file: "gone"'), warm(WARM + " zero_data: true"), line=6),
    net("warmup", warm(WARM + ' input_data_file: "../../m/config.pbtxt"'), warm(WARM + " zero_data: true"), line=6),
    net("warmup", warm(WARM + " zero_data: true", size=9), warm(WARM + " zero_data: true", size=8), line=6),
    net("warmup", warm(WARM + " zero_data: true", size=0), warm(WARM + " zero_data: true"), line=6, **WARNING),
    net("warmup", warm(WARM + " zero_data: false"), warm(WARM + " zero_data: true"), line=6, **WARNING),
    Example(
        "warmup",
        {"m/config.pbtxt": warm(WARM + ' input_data_file: "raw"'), "m/1/model.onnx": relu, "m/warmup/raw": bytes(11)},
        {"m/warmup/raw": bytes(12)},
        line=6,
    ),
]
SEQUENCES = [
    py("sequence-control", sequence(START.replace("[ 0, 1 ]", "[ 1 ]")), sequence(START), line=5),
    py("sequence-control", sequence(START.replace(" fp32_false_true: [ 0, 1 ]", "")), sequence(START), line=5),
    py(
        "sequence-control",
        sequence(START.replace("0, 1 ]", "0, 1 ] int32_false_true: [ 0, 1 ]")),
        sequence(START),
        line=5,
    ),
    py("sequence-control", sequence(f"{START}, {START.replace('START', 'S2', 1)}"), sequence(START), line=5),
    py(
        "sequence-control",
        sequence('{ name: "C" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32 } ] }'),
        sequence('{ name: "C" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] }'),
        line=5,
    ),
    py("sequence-control", sequence(START.replace('name: "START" ', "")), sequence(START), line=5),
    py("sequence-control", sequence(START.replace('"START"', '"IN"')), sequence(START), line=3, **WARNING),
    py(
        "sequence-control",
        PY + "sequence_batching { direct { minimum_slot_utilization: 3 } }",
        PY + "sequence_batching { direct { minimum_slot_utilization: 0.5 } }",
        line=5,
    ),
]
OPTIONAL = swap("} ]", '}, { name: "T" data_type: TYPE_FP32 dims: [ 4 ] optional: true } ]')
READ_T = ECHO.replace(
    "return [", 't = [pb_utils.get_input_tensor_by_name(r, "T").as_numpy() for r in requests]\n        return ['
)
CHECKED = ECHO.replace(
    "return [", 't = [pb_utils.get_input_tensor_by_name(r, "T") for r in requests]\n        return ['
)
SCRIPTS = [
    script("python-model", "class TritonPythonModel\n    pass\n", line=1),
    script("python-model", ECHO.replace("TritonPythonModel", "Model")),
    script("python-model", "class TritonPythonModel:\n    def initialize(self, args):\n        pass\n", line=1),
    script(
        "python-model",
        ECHO + "\n    def initialize(self):\n        pass\n",
        line=9,
        good=ECHO + "\n    def initialize(self, args):\n        pass\n",
    ),
    script(
        "python-model",
        ECHO.replace("self, requests", "self, requests, more"),
        line=5,
        good=ECHO.replace("self, requests", "self, requests, *more"),
    ),
    script("python-model", ECHO + "\n    def finalize(self, x):\n        pass\n", line=9, **WARNING),
    script(
        "python-model",
        ECHO + "\n    def auto_complete_config(self, config):\n        return config\n",
        line=9,
        good=ECHO + "\n    @staticmethod\n    def auto_complete_config(config):\n        return config\n",
    ),
    script("no-return", ECHO.replace("return [", "answers = ["), line=5),
    script("no-return", ECHO.replace("return [pb", "return None\n        [pb"), line=7),
    script(
        "no-return", ECHO.replace("        return [", "        if arrays:\n            return ["), line=5, **WARNING
    ),
    script("python-output", ECHO.replace('Tensor("OUT"', 'Tensor("OUTPUT"'), line=7),
    script(
        "python-output",
        ECHO.replace('"OUT", array', '"OUT", array.astype(np.float64)'),
        line=7,
        good=ECHO.replace('"OUT", array', '"OUT", array.astype(np.float32)'),
    ),
    script(
        "python-output",
        ECHO.replace('"OUT", array', '"OUT", np.array([t.decode() for t in array])'),
        line=7,
        config=swap("FP32", "STRING", swap('"OUT" data_type: TYPE_FP32', '"OUT" data_type: TYPE_STRING')),
    ),
    script(
        "python-output",
        ECHO,
        good=ECHO.replace(
            'pb_utils.Tensor("OUT", array)', 'pb_utils.Tensor("OUT", array), pb_utils.Tensor("P", array)'
        ),
        config=PY + OUT.replace("OUT", "P"),
        **WARNING,
    ),
    script("python-input", ECHO.replace('"IN"', '"INPUT"'), line=6),
    script("optional-input", READ_T, line=7, good=CHECKED, config=OPTIONAL, **WARNING),
    script(
        "python-package",
        "import not_there_at_all\n" + ECHO,
        line=1,
        good="try:\n    import not_there_at_all\nexcept ImportError:\n    pass\n" + ECHO,
    ),
    script(
        "python-package",
        "import torch\n" + ECHO,
        line=1,
        good="import json\nimport numpy as np\n" + ECHO,
        options=CONTAINER,
        **WARNING,
    ),
]
COUNTED = 'batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "T" data_type: TYPE_INT64 source_input: "IN" } ]\n'
SCATTERED = 'batch_output [ { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "OUT" source_input: [ "IN" ] } ]\n'
EXTRA = warm(f"{WARM} zero_data: true").replace(
    "inputs {", f'inputs {{ key: "w" value {{ {WARM} zero_data: true }} }} inputs {{', 1
)
INITIAL = "data_type: TYPE_FP32 dims: [ 2 ] zero_data: true"
STATE = (
    'sequence_batching { state [ { input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [ 2 ] '
    f'initial_state [ {{ name: "zero" {INITIAL} }} ] }} ] }}\n'
)
FUZZED = [  # what a fuzz against the real server showed
    py("text-encoding", swap("max_batch_size: 8", "max_batch_size:\u00a08"), line=2),
    py("text-encoding", swap("8", "\uff18"), line=2),
    py("syntax", swap("8", "+8"), line=2),
    py("syntax", swap("8", "1_0"), line=2),
    py("syntax", PY + 'parameters { key: "a\\q" }', PY + 'parameters { key: "a\\\\q" }', line=5),
    py("dims-value", swap("[ 4 ]", "[ - 2 ]"), swap("[ 4 ]", "[ - 1 ]"), line=3),
    py("text-encoding", PY + 'parameters { key: "a\\xff" }', line=5, **WARNING),
    py("unknown-field", PY + "model_metrics { }", line=5),
    py("dims-value", swap("[ 4 ]", "[ 4 ] reshape { shape: [ -2, -2 ] }"), line=3),
    py("version-policy", PY + "version_policy { specific { } }", line=5),
    py("instance-group", PY + 'instance_group [ { name: "a b" } ]', line=5),
    py("extra-library", PY + 'model_repository_agents { agents [ { name: "x" } ] }', line=5),
    py("extra-library", PY + 'runtime: "x.so"', line=5),
    py("model-path", PY + 'default_model_filename: "./model.py"', line=5),
    py("batch-input", PY + COUNTED, PY + COUNTED.replace("INT64", "INT32"), line=5),
    py("batch-input", PY + SCATTERED.replace('"OUT"', '"GONE"'), PY + SCATTERED, line=5),
    py("batch-input", PY + SCATTERED.replace('"IN"', '"IN", "IN"'), PY + SCATTERED, line=5),
    *(
        py("sequence-state", PY + STATE.replace(INITIAL, wrong), PY + STATE, line=5)
        for wrong in (
            INITIAL.replace("FP32", "INT32"),
            INITIAL.replace("[ 2 ]", "[ 5 ]"),
            INITIAL.replace("[ 2 ]", "[ 1, 2 ]"),
            INITIAL.replace("zero_data: true", ""),
            INITIAL.replace("zero_data: true", 'data_file: "gone"'),
        )
    ),
    Example(
        "version-folder",
        {"m/config.pbtxt": PY, "m/1/model.py": ECHO, "m/9223372036854775808/model.py": ECHO},
        {"m/9223372036854775808/model.py": None},
    ),
    Example(
        "label-file",
        {"m/config.pbtxt": PY[:-4] + ' label_filename: "l" } ]', "m/1/model.py": ECHO, "m/l/x": ""},
        {"m/l/x": None, "m/l": "a\nb\nc\nd\n"},
        line=4,
    ),
    net("warmup", EXTRA, warm(f"{WARM} zero_data: true"), **WARNING),
    script("python-model", ECHO + "\n    def __init__(self, more):\n        self.more = more\n", line=9),
    script("python-model", ECHO + "from __future__ import annotations\n", line=8),
    script("python-model", ECHO + "\n    @staticmethod\n    def auto_complete_config(c):\n        pass\n", line=10),
    chain("ensemble-model-missing", CHAIN.replace("model_version: -1 ", "")),
    chain("ensemble-model-missing", CHAIN.replace("model_version: -1", "model_version: -2", 1)),
    chain("ensemble-shape", CHAIN.replace("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 2, 2 ] }", 1)),
    chain("unknown-field", CHAIN.replace("ensemble_scheduling {", "ensemble_scheduling { max_inflight_requests: 4 ")),
]
EXAMPLES = [
    *TEXT,
    *LAYOUT,
    *BACKENDS,
    *TENSORS,
    *GRAPHS,
    *FILES,
    *BATCHING,
    *INSTANCES,
    *ENSEMBLES,
    *WARMUPS,
    *SEQUENCES,
    *SCRIPTS,
    *FUZZED,
]
