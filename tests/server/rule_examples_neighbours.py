"""Examples for the rules whose mistakes no case shows: their neighbours."""

from __future__ import annotations

from onnx import TensorProto, helper

from tests.server.conftest import save_onnx
from tests.server.rule_examples import (
    ECHO,
    HEAD,
    IN,
    NET,
    OUT,
    PYTHON,
    SERVED,
    Example,
    X,
    Y,
    both,
    changed,
    echo,
    relu,
    text,
)
from tutorial_lib.versions import cpu_count

GOOD = NET + X + Y


def complex_input(folder) -> None:
    """x [b, 4] of complex numbers, a type that Triton has not."""
    node = helper.make_node("Identity", ["x"], ["y"])
    kind = TensorProto.COMPLEX64
    save_onnx(folder / "1/model.onnx", [node], [("x", kind, ["b", 4])], [("y", kind, ["b", 4])])


def two_inputs(folder) -> None:
    node = helper.make_node("Add", ["x", "z"], ["y"])
    tensors = [("x", TensorProto.FLOAT, ["b", 4]), ("z", TensorProto.FLOAT, ["b", 4])]
    save_onnx(folder / "1/model.onnx", [node], tensors, [("y", TensorProto.FLOAT, ["b", 4])])


def numbers(folder) -> None:
    """y = x in 64 bits; only the output's name is the learner's."""
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)
    save_onnx(
        folder / "1/model.onnx", [node], [("x", TensorProto.FLOAT, ["b", 4])], [("y", TensorProto.DOUBLE, ["b", 4])]
    )


Z = X.replace('"x"', '"z"')
BATCH_INPUT = (
    'batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "SIZE" data_type: TYPE_FP32 source_input: "SOURCE" } ]\n'
)

NEIGHBOURS = (
    Example(
        "priority-levels",
        "default",
        PYTHON + "dynamic_batching { priority_levels: 2 }",
        PYTHON + "dynamic_batching { priority_levels: 2 default_priority_level: 2 }",
        says="default priority level",
    ),
    Example("no-batching", "network", GOOD, GOOD + "dynamic_batching { }\n", SERVED, make=relu),
    Example(
        "no-batching",
        "one",
        changed("8", "1", GOOD) + "dynamic_batching { }\n",
        GOOD + "dynamic_batching { }\n",
        SERVED,
        make=relu,
    ),
    Example(
        "preferred-size",
        "four",
        PYTHON + "dynamic_batching { preferred_batch_size: [ 4 ] }",
        PYTHON + "dynamic_batching { }",
        SERVED,
    ),
    Example(
        "batch-input",
        "source",
        PYTHON + BATCH_INPUT.replace("SOURCE", "GONE"),
        PYTHON + BATCH_INPUT.replace("SOURCE", "IN"),
        says="unknown source input name",
    ),
    Example(
        "missing-input", "second", GOOD, NET + X + Z + Y, make=two_inputs, says="expects 1 inputs, model provides 2"
    ),
    Example("unsupported-type", "complex", GOOD, None, make=complex_input, mend=relu),
    Example(
        "wrong-data-type",
        "double",
        GOOD,
        NET + X + Y.replace("FP32", "FP64"),
        make=numbers,
        says="model provides TYPE_FP64",
    ),
    Example("config-missing", "onnx", None, GOOD + "dynamic_batching { }\n", SERVED, make=lambda folder: relu(folder)),
    Example(
        "instance-count",
        "many",
        GOOD + f"instance_group [ {{ count: {max(cpu_count(), 2) + 1} kind: KIND_CPU }} ]",
        GOOD + "instance_group [ { count: 1 kind: KIND_CPU } ]",
        SERVED,
        make=relu,
    ),
    Example(
        "config-name",
        "txt",
        None,
        PYTHON,
        SERVED,
        make=both(echo, text("config.pbtxt.txt", PYTHON)),
        mend=echo,
        also=("config-missing",),
    ),
    Example(
        "version-folder",
        "word",
        PYTHON,
        None,
        make=lambda folder: echo(folder, name="v1/model.py"),
        mend=echo,
        says="at least one version",
    ),
    Example(
        "version-folder",
        "zeros",
        PYTHON,
        None,
        make=lambda folder: echo(folder, name="01/model.py"),
        mend=echo,
        says="at least one version",
    ),
    Example(
        "version-folder",
        "flat",
        PYTHON,
        None,
        make=lambda folder: echo(folder, name="model.py"),
        mend=echo,
        says="at least one version",
    ),
    Example("model-path", "outside", GOOD + 'default_model_filename: "../../../outside.onnx"\n', GOOD, make=relu),
    Example(
        "environment-archive",
        "gone",
        PYTHON
        + 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/gone.tar.gz" } }',
        PYTHON,
    ),
    Example("field-twice", "batch", PYTHON + "max_batch_size: 4\n", PYTHON, says="failed to read text proto"),
    Example(
        "text-encoding",
        "mark",
        None,
        PYTHON,
        make=both(echo, text("config.pbtxt", b"\xef\xbb\xbf" + PYTHON.encode())),
        mend=echo,
    ),
    Example(
        "text-encoding",
        "latin",
        None,
        PYTHON,
        make=both(echo, text("config.pbtxt", PYTHON.encode() + b"# gr\xf6\xdfe\n")),
        mend=echo,
        verdict=SERVED,
    ),
    Example(
        "python-input",
        "name",
        PYTHON,
        None,
        SERVED,
        make=lambda folder: echo(folder, ECHO.replace('"IN"', '"INPUT"')),
        mend=echo,
    ),
    Example(
        "python-package",
        "import",
        PYTHON,
        None,
        make=lambda folder: echo(folder, "import no_such_package\n" + ECHO),
        mend=echo,
        says="No module named 'no_such_package'",
    ),
    Example("tensor-incomplete", "name", changed('name: "IN" ', ""), PYTHON, says="must specify 'name'"),
    Example(
        "tensor-format",
        "rank",
        changed("data_type: TYPE_FP32 dims", "format: FORMAT_NHWC data_type: TYPE_FP32 dims", HEAD + IN) + OUT,
        PYTHON,
        says="3 dims",
    ),
    Example(
        "shape-tensor", "python", changed("dims: [ 4 ]", "dims: [ 4 ] is_shape_tensor: true", HEAD + IN) + OUT, PYTHON
    ),
    Example("optional-input", "unchecked", HEAD + IN.replace("dims", "optional: true dims") + OUT, PYTHON, SERVED),
)
