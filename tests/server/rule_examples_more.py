"""Examples for the rules about tensors, schedulers, hardware, warm-up and Python models."""

from __future__ import annotations

from pathlib import Path

from tests.server.rule_examples import (
    ECHO,
    HEAD,
    IN,
    NET,
    OUT,
    PYTHON,
    SERVED,
    TEXTS,
    Example,
    X,
    Y,
    both,
    changed,
    echo,
    free_output,
    old_weights,
    reduced,
    relu,
    scaled,
    side_file,
    text,
)

GOOD = NET + X + Y
ONE = 'output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]\n'
NONE = 'backend: "onnxruntime"\nmax_batch_size: 0\n'
FULL_X, FULL_Y = X.replace("[ 4 ]", "[ -1, 4 ]"), Y.replace("[ 4 ]", "[ -1, 4 ]")


def python(source: str):
    return lambda folder: echo(folder, source)


TORCH = (
    'backend: "pytorch"\nmax_batch_size: 8\n'
    'input [ { name: "A__0" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "B__1" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
    'output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
)


def same(folder: Path) -> None:
    """TorchScript of x + y."""
    import torch

    class Sum(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    (folder / "1").mkdir(parents=True)
    torch.jit.trace(Sum(), (torch.ones(2, 4), torch.ones(2, 4))).save(str(folder / "1" / "model.pt"))


def weights_alone(folder: Path) -> None:
    """A state_dict where TorchScript belongs."""
    import torch

    (folder / "1").mkdir(parents=True)
    torch.save(torch.nn.Linear(4, 4).state_dict(), folder / "1" / "model.pt")


TENSORS = (
    Example("batch-in-dims", "minus", changed("[ 4 ]", "[ -1, 4 ]", GOOD), GOOD, make=relu, says="[-1,-1,4]"),
    Example("batch-in-dims", "one", NET + X.replace("[ 4 ]", "[ 1, 4 ]") + Y, GOOD, make=relu, says="[-1,1,4]"),
    Example(
        "fixed-batch",
        "one",
        GOOD,
        NONE + X.replace("[ 4 ]", "[ 1, 4 ]") + Y.replace("[ 4 ]", "[ 1, 4 ]"),
        make=lambda folder: relu(folder, (1, 4), (1, 4)),
        says="first dimension must be -1",
    ),
    Example(
        "unbatched-side-input",
        "scale",
        NET + X + 'input [ { name: "scale" data_type: TYPE_FP32 dims: [ 4 ] } ]\n' + Y,
        NONE + FULL_X + 'input [ { name: "scale" data_type: TYPE_FP32 dims: [ 4 ] } ]\n' + FULL_Y,
        make=lambda folder: scaled(folder, [4]),
        says="'scale': for the model to support batching",
    ),
    Example(
        "output-narrower",
        "columns",
        NONE + FULL_X + 'input [ { name: "keep" data_type: TYPE_BOOL dims: [ -1 ] } ]\n' + FULL_Y,
        NONE
        + FULL_X
        + 'input [ { name: "keep" data_type: TYPE_BOOL dims: [ -1 ] } ]\n'
        + Y.replace("[ 4 ]", "[ -1, -1 ]"),
        make=free_output,
        says="'y': the model expects 2 dimensions",
    ),
    Example(
        "tensor-shape", "size", NET + X.replace("4", "5") + Y, GOOD, make=relu, says="[-1,5]", also=("output-narrower",)
    ),
    Example(
        "rank-needs-reshape",
        "sum",
        NET + X + Y.replace("4", "1"),
        NET + X + ONE,
        make=reduced,
        says="the model expects 1 dimensions",
    ),
    Example(
        "scalar-dims",
        "scale",
        NONE
        + FULL_X
        + 'input [ { name: "scale" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]\n'
        + FULL_Y,
        NONE + FULL_X + 'input [ { name: "scale" data_type: TYPE_FP32 dims: [ 1 ] } ]\n' + FULL_Y,
        make=scaled,
        says="cannot have empty reshape",
    ),
    Example(
        "empty-dims",
        "list",
        NET + X + Y.replace("[ 4 ]", "[ ]"),
        NET + X + ONE,
        make=reduced,
        says="must specify 'dims'",
    ),
    Example("wrong-data-type", "int", changed("FP32", "INT64", GOOD), GOOD, make=relu, says="model provides TYPE_FP32"),
    Example(
        "tensor-incomplete",
        "none",
        NET + 'input [ { name: "x" dims: [ 4 ] } ]\n' + Y,
        GOOD,
        make=relu,
        says="must specify 'data_type'",
    ),
    Example(
        "unknown-tensor", "output", NET + X + Y.replace('"y"', '"logits"'), GOOD, make=relu, says="allowed outputs are"
    ),
    Example(
        "unknown-tensor", "input", NET + X.replace('"x"', '"image"') + Y, GOOD, make=relu, says="allowed inputs are"
    ),
    Example(
        "initializer-as-input",
        "weight",
        NET + X + 'input [ { name: "w" data_type: TYPE_FP32 dims: [ 4 ] } ]\n' + Y,
        GOOD,
        make=old_weights,
        says="expects 2 inputs, model provides 1",
    ),
    Example(
        "model-too-new", "ir", GOOD, None, make=lambda folder: relu(folder, ir=11), mend=relu, says="IR version: 11"
    ),
    Example(
        "model-too-new",
        "opset",
        GOOD,
        None,
        make=lambda folder: relu(folder, opset=22),
        mend=relu,
        says="till opset 21",
    ),
    Example("model-file", "empty", GOOD, None, make=text("1/model.onnx", b""), mend=relu),
    Example("model-file", "text", GOOD, None, make=text("1/model.onnx", "<html>404</html>"), mend=relu),
    Example("torchscript-file", "weights_alone", TORCH, None, make=weights_alone, mend=same, says="state_dict"),
    Example("torchscript-tensors", "no_output", TORCH.partition("output")[0], TORCH, make=same, says="output"),
    Example("torchscript-tensors", "one_index", TORCH.replace("B__1", "B__0"), TORCH, make=same, says="[0, 0]"),
    Example("external-data", "gone", GOOD, None, make=lambda folder: side_file(folder, keep=False), mend=side_file),
    Example("dims-value", "zero", changed("[ 4 ]", "[ 0 ]"), PYTHON, says="dimension must be integer >= 1"),
    Example("dims-value", "negative", changed("[ 4 ]", "[ -2 ]"), PYTHON, says="dimension must be integer >= 1"),
    Example(
        "reshape-size",
        "size",
        changed("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 3 ] }"),
        changed("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 2, 2 ] }"),
        says="different size for dims and reshape",
    ),
    Example("tensor-twice", "input", PYTHON + IN, PYTHON, SERVED),
)
SCHEDULERS = (
    Example(
        "batching-contradiction",
        "large",
        PYTHON + "dynamic_batching { preferred_batch_size: [ 16 ] }",
        PYTHON + "dynamic_batching { preferred_batch_size: [ 4 ] }",
        says="must be <= max batch size",
    ),
    Example(
        "batching-contradiction",
        "zero",
        PYTHON + "dynamic_batching { preferred_batch_size: [ 0 ] }",
        PYTHON + "dynamic_batching { }",
        says="must be positive",
    ),
    Example("batching-contradiction", "negative", changed("8", "-1"), PYTHON, says="must be non-negative"),
    Example("batching-contradiction", "two", PYTHON + "dynamic_batching { }\nsequence_batching { }", PYTHON),
    Example("batching-without-batch", "dynamic", changed("8", "0") + "dynamic_batching { }", changed("8", "0"), SERVED),
    Example(
        "queue-delay",
        "second",
        PYTHON + "dynamic_batching { max_queue_delay_microseconds: 1000000 }",
        PYTHON + "dynamic_batching { max_queue_delay_microseconds: 200 }",
        SERVED,
    ),
    Example(
        "mixed-shapes",
        "free",
        changed("[ 4 ]", "[ -1 ]") + "dynamic_batching { }",
        PYTHON + "dynamic_batching { }",
        SERVED,
    ),
    Example(
        "priority-levels",
        "level",
        PYTHON + "dynamic_batching { priority_levels: 2 default_priority_level: 3 }",
        PYTHON + "dynamic_batching { priority_levels: 2 default_priority_level: 1 }",
        says="default priority level",
    ),
    Example(
        "priority-levels",
        "key",
        PYTHON + "dynamic_batching { priority_levels: 2 default_priority_level: 1 "
        "priority_queue_policy { key: 5 value: { max_queue_size: 3 } } }",
        PYTHON,
        says="priority queue policy",
    ),
    Example(
        "priority-levels",
        "order",
        PYTHON + "dynamic_batching { priority_levels: 2 default_priority_level: 1 preserve_ordering: true }",
        PYTHON,
        says="Only one priority level",
    ),
    Example(
        "queue-policy",
        "delay",
        PYTHON + "dynamic_batching { preserve_ordering: true "
        "default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 } }",
        PYTHON,
        says="DELAY",
    ),
    Example(
        "sequence-control",
        "pair",
        PYTHON + 'sequence_batching { control_input [ { name: "START" control [ { '
        "kind: CONTROL_SEQUENCE_START fp32_false_true: [ 1 ] } ] } ] }",
        PYTHON,
        says="exactly 2 entries",
    ),
    Example(
        "sequence-control",
        "name",
        PYTHON + "sequence_batching { control_input [ { control [ { "
        "kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ] }",
        PYTHON,
        says="must have a name",
    ),
    Example(
        "sequence-control",
        "listed",
        PYTHON + 'sequence_batching { control_input [ { name: "IN" control [ { '
        "kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ] }",
        PYTHON,
        SERVED,
    ),
    Example(
        "batching-contradiction",
        "sequence",
        PYTHON + "sequence_batching { }\nresponse_cache { enable: true }",
        PYTHON + "sequence_batching { }",
        says="Response Cache does not currently support",
    ),
    Example(
        "batching-contradiction",
        "decoupled",
        PYTHON + "model_transaction_policy { decoupled: true }\nresponse_cache { enable: true }",
        PYTHON,
        says="'decoupled' transaction policy",
    ),
    Example(
        "instance-group",
        "gpu",
        PYTHON + "instance_group [ { kind: KIND_GPU } ]",
        PYTHON + "instance_group [ { kind: KIND_CPU } ]",
        says="no GPUs are available",
    ),
    Example(
        "instance-group", "id", PYTHON + "instance_group [ { kind: KIND_GPU gpus: [ 7 ] } ]", PYTHON, says="gpu id 7"
    ),
    Example(
        "instance-group",
        "cpu",
        PYTHON + "instance_group [ { kind: KIND_CPU gpus: [ 0 ] } ]",
        PYTHON,
        says="specifies one or more GPUs",
    ),
    Example("instance-group", "negative", PYTHON + "instance_group [ { count: -1 } ]", PYTHON, SERVED),
)


def warm(inputs: str) -> str:
    return PYTHON + 'model_warmup [ { name: "w" batch_size: 1 inputs { ' + inputs + " } } ]\n"


WARM = 'key: "IN" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true }'
RETURNS = "        return [pb_utils"
MODELS = (
    Example("warmup", "key", warm(WARM.replace('"IN"', '"image"')), warm(WARM), says="missing required input"),
    Example("warmup", "dims", warm(WARM.replace("4", "5")), warm(WARM), says="unexpected shape"),
    Example("warmup", "batch", warm(WARM.replace("[ 4 ]", "[ 1, 4 ]")), warm(WARM), says="unexpected shape"),
    Example("warmup", "type", warm(WARM.replace("FP32", "UINT8")), warm(WARM), says="data-type is 'UINT8'"),
    Example("warmup", "free", warm(WARM.replace("4", "-1")), warm(WARM), says="variable-size dimensions"),
    Example(
        "warmup",
        "file",
        warm(WARM.replace("zero_data: true", 'input_data_file: "gone"')),
        warm(WARM),
        says="failed to open text file",
    ),
    Example(
        "warmup",
        "bytes",
        warm(WARM.replace("zero_data: true", 'input_data_file: "short"')),
        warm(WARM),
        make=both(echo, text("warmup/short", b"1234")),
        mend=echo,
        says="warmup setting expects 16 bytes",
    ),
    Example(
        "python-model", "syntax", PYTHON, None, make=python("class TritonPythonModel\n"), mend=echo, says="SyntaxError"
    ),
    Example(
        "python-model",
        "class",
        PYTHON,
        None,
        make=python(ECHO.replace("TritonPythonModel", "Model")),
        mend=echo,
        says="no attribute 'TritonPythonModel'",
    ),
    Example(
        "python-model",
        "initialize",
        PYTHON,
        None,
        mend=echo,
        says="takes 1 positional argument",
        make=python(ECHO + "\n    def initialize(self):\n        self.ready = True\n"),
    ),
    Example(
        "python-model",
        "execute",
        PYTHON,
        None,
        SERVED,
        make=python("class TritonPythonModel:\n    ready = True\n"),
        mend=echo,
    ),
    Example(
        "python-model",
        "arguments",
        PYTHON,
        None,
        SERVED,
        mend=echo,
        make=python(ECHO.replace("def execute(self, requests)", "def execute(self)").replace("requests]", "()]")),
    ),
    Example(
        "no-return", "none", PYTHON, None, SERVED, make=python(ECHO.replace(RETURNS, "        [pb_utils")), mend=echo
    ),
    Example("python-output", "name", PYTHON, None, SERVED, make=python(ECHO.replace('"OUT"', '"RESULT"')), mend=echo),
    Example("label-file", "gone", HEAD + IN + OUT.replace("dims", 'label_filename: "gone.txt" dims'), PYTHON),
    Example(
        "label-file",
        "few",
        HEAD + IN + OUT.replace("dims", 'label_filename: "labels.txt" dims'),
        None,
        SERVED,
        make=both(echo, text("labels.txt", "one\ntwo\n")),
        mend=both(echo, text("labels.txt", "1\n2\n3\n4\n")),
    ),
)
EXAMPLES: tuple[Example, ...] = (*TEXTS, *TENSORS, *SCHEDULERS, *MODELS)
