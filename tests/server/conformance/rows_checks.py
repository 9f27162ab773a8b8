"""Rows: configurations compared with the model, and the words of a refusal."""

from __future__ import annotations

from onnx import TensorProto, helper

from tests.server.conformance.row import Ask, Row, double, entry, graph, io, node, numbers, same, text, xy
from tests.server.conformance.rows_complete import two

FLOAT, INT64, STRING, BF16 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BFLOAT16
A_B_Y = io([entry("a", "FP32", [3]), entry("b", "FP32", [3])], [entry("y", "FP32", [3])])
BATCH = "an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete "


def expects(name: str, tensor: str, model: str, config: str, *, batch: bool = True) -> str:
    """The C++ backend's words on dims that do not fit."""
    count = [shape.count(",") + 1 for shape in (model, config)]
    found = f"{BATCH if batch else ''}shape {config}"
    return (
        f"model '{name}', tensor '{tensor}': the model expects {count[0]} dimensions (shape {model}) but the model "
        f"configuration specifies {count[1]} dimensions ({found})"
    )


def refused(name: str, model, config: str, words: str) -> Row:
    return Row(name, model, config, refused=words)


def other_kind(value) -> object:
    """A graph whose output is a sequence or a map, no tensor."""
    operator = node("SequenceConstruct", "x", "y")
    return graph([operator], [("x", FLOAT, ["n", 3])], [value])


ROWS = (
    refused(
        "check_input_name",
        double(["n", 3]),
        f"input [ {entry('z', 'FP32', [3])} ] output [ {entry('y', 'FP32', [3])} ] max_batch_size: 2",
        "unexpected inference input 'z', allowed inputs are: x",
    ),
    refused(
        "check_input_names_sorted",
        two(["n", 3], ["n", 3]),
        A_B_Y.replace('"a"', '"c"') + "max_batch_size: 2",
        "unexpected inference input 'c', allowed inputs are: a, b",
    ),
    refused(
        "check_output_name",
        double(["n", 3]),
        f"input [ {entry('x', 'FP32', [3])} ] output [ {entry('z', 'FP32', [3])} ] max_batch_size: 2",
        "unexpected inference output 'z', allowed outputs are: y",
    ),
    refused(
        "check_too_many_inputs",
        double(["n", 3]),
        A_B_Y + "max_batch_size: 2",
        "unable to load model 'check_too_many_inputs', configuration expects 2 inputs, model provides 1",
    ),
    refused(
        "check_too_few_inputs",
        two(["n", 3], ["n", 3]),
        xy([3]).replace('"x"', '"a"') + "max_batch_size: 2",
        "unable to load model 'check_too_few_inputs', configuration expects 1 inputs, model provides 2",
    ),
    Row(
        "check_fewer_outputs",
        graph(
            [node("Add", "x x", "y"), node("Sub", "x x", "z")],
            [("x", FLOAT, ["n", 3])],
            [("y", FLOAT, ["n", 3]), ("z", FLOAT, ["n", 3])],
        ),
        xy([3]) + "max_batch_size: 2",
        asks=(Ask({"x": numbers(2, 3)}, outputs=("y",)),),
    ),
    refused(
        "check_input_type",
        double(["n", 3], kind=INT64),
        xy([3]) + "max_batch_size: 2",
        "configuration expects datatype TYPE_FP32 for input 'x', model provides TYPE_INT64",
    ),
    refused(
        "check_output_type",
        graph([node("Cast", "x", "y", to=INT64)], [("x", FLOAT, ["n", 3])], [("y", INT64, ["n", 3])]),
        xy([3]) + "max_batch_size: 2",
        "configuration expects datatype TYPE_FP32 for output 'y', model provides TYPE_INT64",
    ),
    refused(
        "check_string_type",
        graph([node("Identity", "x", "y")], [("x", STRING, ["n", 3])], [("y", STRING, ["n", 3])]),
        xy([3], kind="UINT8") + "max_batch_size: 2",
        "configuration expects datatype TYPE_UINT8 for input 'x', model provides TYPE_BYTES",
    ),
    refused(
        "check_bf16_in_config",
        double(["n", 3]),
        xy([3], kind="BF16") + "max_batch_size: 2",
        "unsupported datatype TYPE_BF16 for input 'x' for model 'check_bf16_in_config'",
    ),
    refused(
        "check_bf16_in_model",
        same(["n", 3], BF16),
        xy([3]) + "max_batch_size: 2",
        "configuration expects datatype TYPE_FP32 for input 'x', model provides TYPE_<invalid>",
    ),
    refused(
        "check_sequence_output",
        other_kind(helper.make_tensor_sequence_value_info("y", FLOAT, None)),
        "",
        "Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'y', expected 'ONNX_TYPE_TENSOR'.",
    ),
    refused(
        "check_rank_too_high",
        double(["n", 3]),
        xy([-1, 3]) + "max_batch_size: 2",
        expects("check_rank_too_high", "x", "[-1,3]", "[-1,-1,3]"),
    ),
    refused(
        "check_rank_too_low",
        double(["n", "t", 3]),
        xy([3]) + "max_batch_size: 2",
        expects("check_rank_too_low", "x", "[-1,-1,3]", "[-1,3]"),
    ),
    refused(
        "check_rank_unbatched",
        double([2, 3]),
        xy([6]),
        expects("check_rank_unbatched", "x", "[2,3]", "[6]", batch=False),
    ),
    refused(
        "check_fixed_dim",
        double(["n", 3]),
        xy([4]) + "max_batch_size: 2",
        expects("check_fixed_dim", "x", "[-1,3]", "[-1,4]"),
    ),
    refused(
        "check_wider_input",
        double(["n", 3]),
        xy([-1], [3]) + "max_batch_size: 2",
        expects("check_wider_input", "x", "[-1,3]", "[-1,-1]"),
    ),
    Row(
        "check_narrower_input",
        double(["n", "t"]),
        xy([4], [-1]) + "max_batch_size: 2",
        asks=(Ask({"x": numbers(2, 4)}), Ask({"x": numbers(2, 3)}, error="Expected [-1,4], got [2,3]")),
    ),
    refused(
        "check_narrower_output",
        double(["n", "t"]),
        xy([4]) + "max_batch_size: 2",
        expects("check_narrower_output", "y", "[-1,-1]", "[-1,4]"),
    ),
    refused(
        "check_fixed_batch",
        double([1, 3]),
        xy([3]) + "max_batch_size: 2",
        "model 'check_fixed_batch', tensor 'x': for the model to support batching the shape should have at least 1 "
        "dimension and the first dimension must be -1; but shape expected by the model is [1,3]",
    ),
    refused(
        "check_side_input",
        two(["n", 3], [3]),
        A_B_Y + "max_batch_size: 2",
        "tensor 'b': for the model to support batching the shape should have at least 1 dimension and the first "
        "dimension must be -1; but shape expected by the model is [3]",
    ),
    refused(
        "check_scalar",
        double([]),
        xy([2]),
        "unable to load model 'check_scalar', scalar tensor 'x', should only provide 1 in the model configuration when "
        "the model doesn't support batching. Model configuration provided: [2].",
    ),
    Row(
        "check_scalar_of_rank_two",
        double([]),
        xy([1, 1]),
        asks=(Ask({"x": numbers(1, 1)}, direct={"x": numbers(1, 1).reshape(())}, shapes={"y": (1, 1)}),),
    ),
    refused(
        "check_empty_reshape",
        double([]),
        xy([1], more="reshape { shape: [ ] }"),
        "model input 'x' cannot have empty reshape for non-batching model as scalar tensors are not supported",
    ),
    refused("check_empty_dims", double(["n", 3]), xy([]) + "max_batch_size: 2", "must specify 'dims'"),
    refused(
        "check_optional_with_batching",
        double(["n", 3]),
        xy([3], more="optional: true") + "max_batch_size: 2",
        "configuration expects 0 inputs, model provides 1",
    ),
    refused(
        "check_ragged_rank",
        double(["n", 3]),
        xy([3], more="allow_ragged_batch: true") + "max_batch_size: 2",
        "configuration expects model provides input with shape [-1]  for ragged input 'x', model provides [-1,3]",
    ),
    refused(
        "check_sequence_control",
        double(["n", 3]),
        xy([3]) + "max_batch_size: 2 sequence_batching { control_input [ "
        '{ name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ] }',
        "configuration specified sequence control 'START', but model does not provide that input",
    ),
    refused(
        "check_sequence_state",
        double(["n", 3]),
        xy([3])
        + "max_batch_size: 2 sequence_batching { state [ { input_name: 'x' output_name: 'y' data_type: TYPE_FP32 dims: "
        "[ 3 ] } ] }",
        "sequence_batching.state needs the C++ backend",
    ),
    Row(
        "check_request_names",
        double(["n", 3]),
        xy([3]) + "max_batch_size: 2",
        asks=(
            Ask({"z": numbers(1, 3)}, error="unexpected inference input 'z' for model 'check_request_names'"),
            Ask({"x": numbers(1, 3)}, outputs=("z",), error="unexpected inference output 'z' for model"),
        ),
    ),
    Row(
        "check_request_type",
        double(["n", 3]),
        xy([3]) + "max_batch_size: 2",
        asks=(
            Ask(
                {"x": numbers(1, 3, kind=int)},
                error="inference input 'x' data-type is 'INT64', but model 'check_request_type' expects 'FP32'",
            ),
        ),
    ),
    Row(
        "check_request_shape",
        double(["n", 3]),
        xy([3]) + "max_batch_size: 8",
        asks=(
            Ask({"x": numbers(3)}, error="Expected [-1,3], got [3]"),
            Ask({"x": numbers(1, 4)}, error="Expected [-1,3], got [1,4]"),
        ),
    ),
    Row(
        "check_string_request",
        graph([node("Identity", "x", "y")], [("x", STRING, ["n", 1])], [("y", STRING, ["n", 1])]),
        xy([1], kind="STRING") + "max_batch_size: 2",
        asks=(Ask({"x": text("a", "b")}, error="Expected [-1,1], got [2]"), Ask({"x": text("a", "b", shape=(2, 1))})),
    ),
)
