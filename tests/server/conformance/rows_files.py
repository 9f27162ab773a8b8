"""Rows: where the model's file is, what is wrong with one, and the settings of a session."""

from __future__ import annotations

import numpy as np
import onnxruntime_extensions
from onnx import TensorProto

from tests.server.conformance.row import Ask, Row, double, each, entry, graph, io, node, numbers, raw, text, xy

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
OPERATORS = onnxruntime_extensions.get_library_path()
CONTRIB = {"ai.onnx.contrib": 1}
VOCABULARY = "\n".join(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "in", "##voice", "total", "due", "date"))
WEIGHTS = {"w": numbers(3, 2)}
LINEAR = ([node("MatMul", "x w", "y")], [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", 2])])
ASKS = (Ask({"x": numbers(2, 3)}),)


def times(factor: float, path: str) -> object:
    return graph([node("Mul", "x k", "y")], [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", 3])],
                 {"k": np.array(factor, np.float32)}, path=path)  # fmt: skip


def cut(folder) -> None:
    """Half of a good file."""
    double(["n", 3])(folder)
    path = folder / "1" / "model.onnx"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_weights(folder) -> None:
    """A graph whose file of weights did not come along."""
    graph(*LINEAR, WEIGHTS, external=True)(folder)
    (folder / "1" / "weights.bin").unlink()


def setting(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


def with_setting(name: str, *settings: tuple[str, str], more: str = "", asks=ASKS, **known) -> Row:
    return Row(name, double(["n", 3]), "\n".join([*(setting(*pair) for pair in settings), more]), asks=asks, **known)


ROWS = (
    Row("file_named", double(["n", 3], path="1/weights.onnx"), 'default_model_filename: "weights.onnx"', asks=ASKS),
    Row("file_missing", double(["n", 3], path="1/weights.onnx"), refused="file_missing/1/model.onnx"),
    Row(
        "file_named_missing",
        double(["n", 3]),
        'default_model_filename: "other.onnx"',
        refused="failed to stat file",
    ),
    Row(
        "file_outside",
        double(["n", 3]),
        'default_model_filename: "../config.pbtxt"',
        refused="points outside the version folder",
    ),
    Row("file_external_weights", graph(*LINEAR, WEIGHTS, external=True), asks=ASKS),
    Row("file_external_weights_missing", without_weights, refused="weights.bin"),
    Row(
        "folder_with_external_weights",
        graph(*LINEAR, WEIGHTS, external=True, path="1/model.onnx/model.onnx"),
        asks=ASKS,
    ),
    Row(
        "folder_without_model",
        raw("1/model.onnx/notes.txt", b"nothing here"),
        xy([3]) + "max_batch_size: 2",
        refused="/1/model.onnx/model.onnx' for model instance 'folder_without_model'",
    ),
    Row("file_empty", raw("1/model.onnx", b""), refused="onnx runtime error"),
    Row("file_garbage", raw("1/model.onnx", bytes(range(256)) * 8), refused="Protobuf parsing failed"),
    Row("file_cut", cut, refused="onnx runtime error 7: Load model from"),
    Row(
        "file_lfs_pointer",
        raw("1/model.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
        refused="Protobuf parsing failed",
    ),
    Row("cap_ir", double(["n", 3], ir=11), refused="Unsupported model IR version: 11, max supported IR version: 10"),
    Row("cap_opset", double(["n", 3], ir=10, opsets={"": 22}), refused="for domain ai.onnx is till opset 21."),
    Row("cap_reached", double(["n", 3], ir=10, opsets={"": 21}), asks=ASKS),
    Row(
        "versions_latest",
        each(times(2, "1/model.onnx"), times(5, "3/model.onnx")),
        asks=(
            Ask({"x": numbers(1, 3)}, answers={"y": 5 * numbers(1, 3)}),
            Ask({"x": numbers(1, 3)}, version="3"),
            Ask({"x": numbers(1, 3)}, version="1", error="version 1 is not"),
        ),
    ),
    Row(
        "versions_all",
        each(times(2, "1/model.onnx"), times(5, "3/model.onnx")),
        "version_policy { all { } }",
        asks=(
            Ask({"x": numbers(1, 3)}, version="1"),
            Ask({"x": numbers(1, 3)}, version="3"),
            Ask({"x": numbers(1, 3)}, answers={"y": 5 * numbers(1, 3)}),
        ),
    ),
    Row(
        "versions_specific",
        each(times(2, "1/model.onnx"), times(5, "3/model.onnx")),
        "version_policy { specific { versions: [ 1 ] } }",
        asks=(Ask({"x": numbers(1, 3)}),),
    ),
    with_setting(
        "setting_threads", ("intra_op_thread_count", "2"), ("inter_op_thread_count", "2"), ("execution_mode", "1")
    ),
    with_setting("setting_threads_default", ("intra_op_thread_count", "0"), ("inter_op_thread_count", "-1")),
    with_setting(
        "setting_not_a_number",
        ("intra_op_thread_count", "many"),
        asks=(),
        refused="failed to convert 'many' to integral number",
    ),
    with_setting(
        "setting_execution_mode",
        ("execution_mode", "2"),
        asks=(),
        refused="Expected values for  execution_mode are 0 or 1 but got 2 .",
    ),
    with_setting("setting_graph_basic", more="optimization { graph { level: -1 } }"),
    with_setting("setting_graph_extended", more="optimization { graph { level: 1 } }"),
    with_setting("setting_graph_off", more="optimization { graph { level: 2 } }"),
    with_setting("setting_device_allocator", ("session.use_device_allocator_for_initializers", "1")),
    with_setting(
        "setting_session_entry",
        ("session.intra_op_thread_affinities", "nonsense"),
        ("intra_op_thread_count", "2"),
        asks=(),
        refused="Processor id must consist of only digits",
    ),
    with_setting("setting_arena_off", ("enable_mem_arena", "0"), ("enable_mem_pattern", "off")),
    with_setting(
        "setting_arena_not_a_truth_value",
        ("enable_mem_arena", "perhaps"),
        asks=(),
        refused="failed to convert 'perhaps' to boolean",
    ),
    with_setting("setting_arena_shrinkage", ("memory.enable_memory_arena_shrinkage", "cpu:0")),
    with_setting(
        "setting_arena_shrinkage_without_arena",
        ("memory.enable_memory_arena_shrinkage", "cpu:0"),
        ("enable_mem_arena", "0"),
        asks=(Ask({"x": numbers(1, 3)}, error="onnx runtime error"),),
    ),
    with_setting("setting_unknown", ("color", "green")),
    with_setting(
        "setting_shared_session",
        ("share_session_between_instances", "true"),
        more="instance_group [ { count: 2 kind: KIND_CPU } ]",
    ),
    with_setting(
        "accelerator_openvino",
        more='optimization { execution_accelerators { cpu_execution_accelerator [ { name: "openvino" } ] } }',
        logged="this tier has no OpenVINO",
    ),
    with_setting(
        "accelerator_unknown",
        more='optimization { execution_accelerators { cpu_execution_accelerator [ { name: "abacus" } ] } }',
        asks=(),
        refused="unknown Execution Accelerator 'abacus' is requested",
    ),
    with_setting(
        "accelerator_for_gpu",
        more="optimization { execution_accelerators { gpu_execution_accelerator "
        '[ { name: "tensorrt" } ] } } instance_group [ { kind: KIND_CPU } ]',
    ),
    with_setting("instances_two", more="instance_group [ { count: 2 kind: KIND_CPU } ]"),
    with_setting("instances_auto", more="instance_group [ { kind: KIND_AUTO } ]"),
    with_setting(
        "instances_gpu",
        more="instance_group [ { kind: KIND_GPU } ]",
        asks=(),
        refused="has kind KIND_GPU but no GPUs are available",
    ),
    with_setting(
        "warmup",
        more='model_warmup [ { name: "zeros" batch_size: 2 count: 3 inputs { key: "x" value '
        "{ data_type: TYPE_FP32 dims: [ 3 ] zero_data: true } } } ]",
    ),
    with_setting(
        "warmup_wrong_shape",
        more='model_warmup [ { name: "zeros" batch_size: 1 inputs { key: "x" value '
        "{ data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } } ]",
        asks=(),
        refused="Expected [-1,3], got [1,4]",
    ),
    Row(
        "operators_missing",
        double(["n", 3]),
        'model_operations { op_library_filename: "/nowhere/libops.so" }',
        refused="/nowhere/libops.so",
    ),
    Row(
        "operators_not_named",
        graph(
            [node("StringUpper", "x", "y", domain="ai.onnx.contrib")],
            [("x", STRING, ["n", 1])],
            [("y", STRING, ["n", 1])],
            opsets=CONTRIB,
        ),
        refused="ai.onnx.contrib",
    ),
    Row(
        "operators_upper",
        graph(
            [node("StringUpper", "x", "y", domain="ai.onnx.contrib")],
            [("x", STRING, ["n", 1])],
            [("y", STRING, ["n", 1])],
            opsets=CONTRIB,
        ),
        f'model_operations {{ op_library_filename: "{OPERATORS}" }}',
        operators=OPERATORS,
        asks=(Ask({"x": text("invoice", "total due", shape=(2, 1))}),),
    ),
    Row(
        "operators_tokenizer",  # a tokenizer inside the graph: text in, token numbers out
        graph(
            [node("BertTokenizer", "text", "ids types mask", domain="ai.onnx.contrib", vocab_file=VOCABULARY)],
            [("text", STRING, [1])],
            [("ids", INT64, ["t"]), ("types", INT64, ["t"]), ("mask", INT64, ["t"])],
            opsets=CONTRIB,
        ),
        io([entry("text", "STRING", [1])], [entry("ids", "INT64", [-1]), entry("mask", "INT64", [-1])])
        + f'model_operations {{ op_library_filename: "{OPERATORS}" }}',
        operators=OPERATORS,
        asks=(
            Ask({"text": text("Invoice total due")}, outputs=("ids", "mask")),
            Ask({"text": text("Invoice total due")}, outputs=("ids",), answers={"ids": np.array([2, 5, 6, 7, 8, 3])}),
            Ask({"text": text("")}, outputs=("ids", "mask")),
        ),
    ),
)
