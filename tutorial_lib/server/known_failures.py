"""What Triton says about a configuration it refuses, in words and with the fix.

Source: the messages of `libtritonserver` 2.51.0 and of the official ONNX Runtime backend of 24.10; most were seen on
the running server (tests/cases, tests/server/test_lint_agrees.py), the others are in the library's own text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """One kind of message.

    Attributes:
        pattern: found somewhere in the message; it needs no more than a part of it, since lines get cut.
        cause: what it means, with the pattern's groups in braces.
        fix: what to do.
        rule: the lint rule that finds it before a server is started, if there is one.
        applies: asked with the pattern's groups, where the numbers in a message decide.
    """

    pattern: re.Pattern[str]
    cause: str
    fix: str
    rule: str = ""
    applies: Callable[[Mapping[str, str]], bool] | None = None

    def words(self, message: str) -> tuple[str, str] | None:
        """Cause and fix for a message of this kind, or None when it is of another."""
        match = self.pattern.search(message)
        if match is None:
            return None
        groups = {name: value if value else "…" for name, value in match.groupdict().items()}
        if self.applies is not None and not self.applies(groups):
            return None
        # config.pbtxt calls BYTES a string
        typed = {name: value.replace("TYPE_BYTES", "TYPE_STRING") for name, value in groups.items()}
        return self.cause.format(**groups), self.fix.format(**typed)


def known(
    pattern: str, cause: str, fix: str, rule: str = "", applies: Callable[[Mapping[str, str]], bool] | None = None
) -> Known:
    """One kind of message, its pattern as text."""
    return Known(re.compile(pattern, re.S), cause, fix, rule, applies)


def _another_size(groups: Mapping[str, str]) -> bool:
    """Two shapes of one rank disagree where both have a number, or the configuration is the wider one."""
    model, written = (groups[name].strip("[]").split(",") for name in ("s", "f"))
    return any(want not in ("-1", have) for want, have in zip(model, written, strict=False))


TENSORS = (
    known(
        r"tensor '(?P<t>[^']*)': the model expects (?P<n>\d+) dimensions \(shape (?P<s>\[-1(?P<r>,[-\d,]+)\])\) but "
        r"the model configuration specifies \d+ dimensions \(an initial .*complete shape (?P<f>\[-1,(?:-1|1)(?P=r)\])",
        "tensor '{t}': dims repeat the batch; max_batch_size > 0 already puts it in front, which makes {f}, and the "
        "model has {s}.",
        "Take the first number out of the dims of '{t}'; clients still send the batch.",
        "batch-in-dims",
    ),
    known(
        r"tensor '(?P<t>[^']*)': the model expects 1 dimensions \(shape \[-1\]\) but the model configuration specifies "
        r"2 dimensions",
        "tensor '{t}': the model has one value per batch item (shape [-1]) and no axis behind the batch.",
        "Write for '{t}': dims: [ 1 ] reshape {{ shape: [ ] }}.",
        "rank-needs-reshape",
    ),
    known(
        r"tensor '(?P<t>[^']*)': the model expects (?P<n>\d+) dimensions \(shape (?P<s>\[[-\d,]*\])\) but the model "
        r"configuration specifies (?P=n) dimensions \(.*?shape (?P<f>\[[-\d,]*\])",
        "tensor '{t}': dims make the shape {f}, the model has {s}.",
        "Write the dims of '{t}' after the model's shape {s} (without the batch when max_batch_size > 0).",
        "tensor-shape",
        _another_size,
    ),
    known(
        r"tensor '(?P<t>[^']*)': the model expects (?P<n>\d+) dimensions \(shape (?P<s>\[[-\d,]*\])\) but the model "
        r"configuration specifies (?P=n) dimensions \(.*?shape (?P<f>\[[-\d,]*\])",
        "tensor '{t}': dims make the shape {f}, the model has {s}. An output must repeat -1 wherever the model's own "
        "axis is free; an input may be narrower, but never another fixed number.",
        "Write the dims of '{t}' after the model's shape {s} (without the batch when max_batch_size > 0).",
        "output-narrower",
    ),
    known(
        r"tensor '(?P<t>[^']*)': the model expects (?P<n>\d+) dimensions \(shape (?P<s>\[[-\d,]*\])\) but the model "
        r"configuration specifies (?P<c>\d+) dimensions \([^\]]*shape \[[-\d,]*\]\)",
        "tensor '{t}': with the batch, config.pbtxt makes {c} axes; the model has {n}: {s}.",
        "Write the dims of '{t}' after the model's shape {s}, without the batch when max_batch_size > 0.",
        "rank-needs-reshape",
    ),
    known(  # the end of the line is cut off
        r"tensor '(?P<t>[^']*)': the model expects (?P<n>\d+) dimensions",
        "tensor '{t}': config.pbtxt does not describe the model's shape, which has {n} axes.",
        "Compare its dims with the model's; `./workshop lint` does.",
    ),
    known(
        r"tensor '(?P<t>[^']*)': for the model to support batching the shape should have at least 1 dimension and the "
        r"first dimension must be -1; but shape expected by the model is (?P<s>\[(?!1\b)[-\d,]*\])",
        "tensor '{t}': max_batch_size > 0 needs a free first axis on every tensor; this one has {s}, no batch.",
        "Write max_batch_size: 0 and all axes into every tensor's dims; one tensor without a batch is enough for that.",
        "unbatched-side-input",
    ),
    known(
        r"tensor '(?P<t>[^']*)': for the model to support batching the shape should have at least 1 dimension and the "
        r"first dimension must be -1; but shape expected by the model is (?P<s>\[[-\d,]*\])",
        "tensor '{t}': max_batch_size > 0 needs a free first axis on every tensor; the model has {s} here.",
        "Export again with a dynamic batch axis on every input and output, or write max_batch_size: 0 and all axes "
        "into every tensor's dims.",
        "fixed-batch",
    ),
    known(  # the end of the line is cut off
        r"tensor '(?P<t>[^']*)': for the model to support batching",
        "tensor '{t}': max_batch_size > 0 needs a free first axis on every tensor; this one has none.",
        "Export again with a dynamic batch axis, or write max_batch_size: 0 and all axes into every tensor's dims.",
    ),
    known(
        r"cannot have empty reshape for non-batching model",
        "an empty reshape on a model without batching: Triton knows no scalars.",
        "Write dims: [ 1 ] without a reshape.",
        "scalar-dims",
    ),
    known(
        r"(?P<r>input|output) '(?P<t>[^']*)' must specify 'dim|must specify 'dims'",
        "{r} '{t}' has no dims, or an empty list, which is the same to protobuf.",
        "Write dims; for one value per batch item: dims: [ 1 ] reshape {{ shape: [ ] }}.",
        "empty-dims",
    ),
    known(
        r"must specify '(?P<f>name|data_type)'",
        "a tensor has no {f}.",
        'Add it: name: "…" as in the model, data_type: such as TYPE_FP32, dims.',
        "tensor-incomplete",
    ),
    known(
        r"NHWC/NCHW require 3 dims",
        "format says image, dims are not three.",
        "Delete the format line.",
        "tensor-format",
    ),
    known(
        r"shape tensors are only supported for TensorRT",
        "is_shape_tensor is for TensorRT models only.",
        "Delete is_shape_tensor.",
        "shape-tensor",
    ),
    known(
        r"unknown (?:source input|target output) name '(?P<t>[^']*)'",
        "a batch_input or batch_output refers to '{t}', which is no tensor of this configuration.",
        "Use the name of one of its inputs (outputs).",
        "batch-input",
    ),
    known(
        r"MLDataType for:|unsupported datatype (?P<d>\S+)",
        "the graph has a tensor of a type that ONNX Runtime or Triton does not serve.",
        "Cast it inside the model to one of Triton's types, and export again.",
        "unsupported-type",
    ),
    known(
        r"configuration expects datatype (?P<c>\w+) for (?P<r>\w+) '(?P<t>[^']*)'(?:, model provides (?P<m>\w+))?",
        "{r} '{t}': the model has {m}, config.pbtxt says {c}.",
        "Write data_type: {m}.",
        "wrong-data-type",
    ),
    known(
        r"unexpected inference (?P<r>input|output) '(?P<t>[^']*)', allowed (?:\w+)s? are: (?P<a>[^\"]*)",
        "config.pbtxt names {r} '{t}', which the model has not; it has: {a}.",
        "Use the model's own name.",
        "unknown-tensor",
    ),
    known(
        r"configuration expects (?P<c>\d+) inputs, model provides (?P<m>\d+)",
        "config.pbtxt lists {c} of the {m} inputs that the model takes.",
        "List them all; `./workshop config MODEL.onnx` writes them.",
        "missing-input",
        lambda groups: int(groups["c"]) < int(groups["m"]),
    ),
    known(
        r"configuration expects (?P<c>\d+) inputs, model provides (?P<m>\d+)",
        "config.pbtxt lists {c} inputs, the model takes {m}. Weights that an old exporter lists as inputs are none.",
        "List the inputs a caller must give, no others; `./workshop config MODEL.onnx` writes them.",
        "initializer-as-input",
    ),
    known(
        r"Unsupported model IR version: (?P<f>\d+)(?:, max supported IR version: (?P<m>\d+))?",
        "the ONNX file has IR version {f}; this server's ONNX Runtime reads up to {m}.",
        "Export for the server's release, or set model.ir_version = {m} before onnx.save.",
        "model-too-new",
    ),
    known(
        r"Opset (?P<f>\d+) is under development|Current official support for domain ai\.onnx is till opset",
        "the ONNX file's opset {f} is newer than this server's ONNX Runtime knows.",
        "Export again with a lower opset_version; 24.10 reads up to 21.",
        "model-too-new",
    ),
    known(
        r"failed to stat file (?P<p>\S+)|unable to find '(?P<q>[^']+)' for model",
        "the model file is not where Triton looks: {p}.",
        "Give the file this name, or name the file there is in default_model_filename.",
        "model-file-name",
    ),
    known(
        r"Load model from (?P<p>\S+) failed:\s*(?:Protobuf parsing failed|No graph|.*ModelProto )",
        "{p} is not a whole ONNX file: empty, cut, or something else.",
        "Copy or export it again; compare its size with the original's.",
    ),
    known(
        r"(?:External data|external data|GetExtDataFromTensorProto|open file .*\.data\b|cannot get file size)",
        "the ONNX file keeps its weights in a second file, which is missing or cut.",
        "Copy the side file (such as model.onnx.data) into the version folder, under the name the graph gives it.",
        "external-data",
    ),
    known(
        r"(?:is not a registered function/op|Fatal error: (?P<o>\S+) is not)",
        "the graph uses an operator that ONNX Runtime has no implementation of.",
        "Name the library with the operator: model_operations {{ op_library_filename: … }}, or export without it.",
    ),
    known(
        r"has different size for dims and reshape|different number of variable-size",
        "reshape does not hold the same number of elements, or of free axes, as dims.",
        "Give dims and reshape the same product and the same number of -1.",
        "reshape-size",
    ),
    known(
        r"dimensions? must be integer >= 1, or -1",
        "dims hold a 0, or a negative number other than -1.",
        "Write the size, or -1 for a free axis.",
        "dims-value",
    ),
)

TEXT = (
    known(
        r"got: \$|Expected (?:integer|double), got: \{",
        "a placeholder such as ${{NAME}} was never filled in: the template was not rendered.",
        "Fill it in, or run the tool that renders the template.",
        "placeholder",
    ),
    known(
        r'Message type "inference\.(?P<m>\w+)" has no field named "(?P<f>[^"]*)"',
        "'{f}' is no field of {m}.",
        "Correct the spelling; `./workshop lint` names the nearest field.",
        "unknown-field",
    ),
    known(
        r'Field "ensemble_scheduling" is specified along with field "(?P<f>\w+)"|'
        r'along with field "ensemble_scheduling"',
        "an ensemble has no scheduler of its own ({f}); it only joins models.",
        "Move it to the step model it is meant for.",
        "ensemble-scheduling",
    ),
    known(
        r'is specified along with field "(?P<f>\w+)"',
        "two of dynamic_batching, sequence_batching and ensemble_scheduling are given; a model has one scheduler.",
        "Delete one of them; an ensemble batches in its step models.",
        "batching-contradiction",
    ),
    known(
        r'Expected ",", found "(?P<f>[^"]+)"',
        "inside [ ] a comma is missing before '{f}'.",
        "Put a comma between the items; repeated blocks without [ ] need none.",
        "missing-comma",
    ),
    known(
        r'1:1: Expected identifier, got: \{|Expected "\{", found "-"|Expected integer or identifier, got: "',
        "JSON or YAML in a file that has to be protobuf text.",
        "Take the quotes off field names and enum values; `./workshop lint` shows the converted text.",
        "json-config",
    ),
    known(
        r"Unknown enumeration value of \"(?P<f>[^\"]*)\" for field \"(?P<n>[^\"]*)\"",
        "'{f}' is no value of {n}.",
        "Use Triton's spelling, such as TYPE_FP32 or KIND_CPU.",
        "type-alias",
    ),
    known(
        r'Non-repeated field "(?P<f>[^"]*)" is specified multiple times',
        "{f} is written twice, and is no list.",
        "Delete one of the two.",
        "field-twice",
    ),
    known(
        r"Error parsing text-format|(?:\.pbtxt:|(?<!\S))\d+:\d+: |failed to read text proto",
        "config.pbtxt cannot be read as protobuf text at this place.",
        "Look for a missing bracket, comma or quote at or before it; `./workshop lint` shows the line.",
        "syntax",
    ),
)
