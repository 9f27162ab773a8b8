"""What the model's tensors are, a configuration made from them, and whether a given one fits them."""

from __future__ import annotations

import onnxruntime as ort
import triton_python_backend_utils as pb_utils
from ort_file import refuse
from ort_settings import default_max_batch_size

# ONNX Runtime's name of a tensor's type → Triton's name in config.pbtxt
TRITON_TYPES = {
    "tensor(bool)": "TYPE_BOOL",
    "tensor(uint8)": "TYPE_UINT8",
    "tensor(uint16)": "TYPE_UINT16",
    "tensor(uint32)": "TYPE_UINT32",
    "tensor(uint64)": "TYPE_UINT64",
    "tensor(int8)": "TYPE_INT8",
    "tensor(int16)": "TYPE_INT16",
    "tensor(int32)": "TYPE_INT32",
    "tensor(int64)": "TYPE_INT64",
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
    "tensor(string)": "TYPE_STRING",
}
OTHER_KINDS = {"seq": "SEQUENCE", "map": "MAP", "sparse_tensor": "SPARSETENSOR", "opaque": "OPAQUE"}
CONTROL_TYPES = {"int32_false_true": "TYPE_INT32", "fp32_false_true": "TYPE_FP32", "bool_false_true": "TYPE_BOOL"}
Tensors = dict[str, ort.NodeArg]


def complete(given: pb_utils.ModelConfig, session: ort.InferenceSession) -> None:
    """Fill in what a configuration leaves out: batching, dynamic batching, tensors.

    Args:
        given: changed in place. Its `add_input` knows no `reshape`, so the entries are put into the dictionary.
    """
    config = given.as_dict()
    inputs, outputs = tensors_of(session.get_inputs()), tensors_of(session.get_outputs())
    batched = all(dims_of(tensor)[:1] == [-1] for tensor in (*inputs.values(), *outputs.values()))
    if not batched and config["max_batch_size"] != 0:
        refuse(
            f"autofill failed for model '{config['name']}': model does not support batching while non-zero "
            "max_batch_size is specified"
        )
    if batched and config["max_batch_size"] == 0:
        config["max_batch_size"] = default_max_batch_size()
        pb_utils.Logger.log_warn(
            f"autofilled max_batch_size to {config['max_batch_size']} for model '{config['name']}' since batching is "
            "supporrted but no max_batch_size is specified in model configuration. Must specify max_batch_size to "
            "utilize autofill with a larger max batch size"
        )
    if config["max_batch_size"] > 1 and "sequence_batching" not in config:
        given.set_dynamic_batching()
    first = 1 if config["max_batch_size"] > 0 else 0
    for key, tensors in (("input", inputs), ("output", outputs)):
        if not (config[key] or (key == "input" and config.get("batch_input"))):
            config[key] = [described(tensor, first) for tensor in tensors.values()]


def described(tensor: ort.NodeArg, first: int) -> dict:
    """A tensor as a config.pbtxt entry, with the axes from `first` on."""
    dims = dims_of(tensor)[first:]
    entry = {"name": tensor.name, "data_type": TRITON_TYPES.get(tensor.type, "TYPE_INVALID"), "dims": dims or [1]}
    if not dims and first:
        entry["reshape"] = {"shape": []}
    return entry


def tensors_of(nodes: list[ort.NodeArg]) -> Tensors:
    """name → tensor; refuses sequences, maps and what else is no tensor."""
    for node in nodes:
        if not node.type.startswith("tensor("):
            kind = OTHER_KINDS.get(node.type.partition("(")[0], "UNKNOWN")
            refuse(f"Unsupported ONNX Type 'ONNX_TYPE_{kind}' for I/O '{node.name}', expected 'ONNX_TYPE_TENSOR'.")
    return {node.name: node for node in nodes}


def dims_of(tensor: ort.NodeArg) -> list[int]:
    """A tensor's shape with -1 for every axis that is not a constant."""
    return [axis if isinstance(axis, int) else -1 for axis in tensor.shape]


def check(config: dict, session: ort.InferenceSession) -> tuple[Tensors, Tensors]:
    """The model's inputs and outputs; refuses a configuration that does not fit them.

    Inputs may be narrower than the model's free axes; outputs have to repeat them. Source: the
    verdicts of the official backend, release 24.10, kept in tests/cases, and its source for their order.
    """
    inputs = tensors_of(session.get_inputs())
    optional = tensors_of(session.get_overridable_initializers())
    outputs = tensors_of(session.get_outputs())
    batching = config["max_batch_size"] > 0
    expected = sum(not entry.get("optional") for entry in config["input"])
    expected += len(config.get("batch_input", [])) + sequence_controls(config, inputs, batching)
    if expected != len(inputs):
        refuse(
            f"unable to load model '{config['name']}', configuration expects {expected} inputs, "
            f"model provides {len(inputs)}"
        )
    inputs |= optional
    for entry in config["input"]:
        check_input(config["name"], entry, inputs, batching)
    scattered = {name for output in config.get("batch_output", []) for name in output["target_name"]}
    for entry in config["output"]:
        tensor = check_type(config["name"], "output", entry, outputs)
        if entry["name"] not in scattered:
            check_dims(config["name"], tensor, dims_in(entry), batching, exact=True)
    return inputs, outputs


def check_input(model: str, entry: dict, tensors: Tensors, batching: bool) -> None:
    """One input of the configuration against the model."""
    name, optional, ragged = entry["name"], entry.get("optional"), entry.get("allow_ragged_batch")
    if optional and batching:
        refuse(
            f"unable to load model '{model}', optional input '{name}' is not supported for models that support batching"
        )
    tensor = check_type(model, "input", entry, tensors)
    wanted = f"unable to load model '{model}', configuration expects model provides input with shape [-1]"
    if optional and ragged:
        refuse(f"{wanted} for ragged input '{name}', which is not supported for optional input")
    if not ragged:
        check_dims(model, tensor, dims_in(entry), batching, exact=False)
    elif dims_of(tensor) != [-1]:
        refuse(f"{wanted}  for ragged input '{name}', model provides {text(dims_of(tensor))}")


def check_type(model: str, role: str, entry: dict, tensors: Tensors) -> ort.NodeArg:
    """The tensor an entry names, if its type is the entry's."""
    name, data_type = entry["name"], entry["data_type"]
    if name not in tensors:
        refuse(f"unexpected inference {role} '{name}', allowed {role}s are: {', '.join(sorted(tensors))}")
    if data_type not in TRITON_TYPES.values():
        refuse(f"unsupported datatype {data_type} for {role} '{name}' for model '{model}'")
    provided = TRITON_TYPES.get(tensors[name].type)
    if provided != data_type:
        shown = {"TYPE_STRING": "TYPE_BYTES", None: "TYPE_<invalid>"}.get(provided, provided)
        refuse(
            f"unable to load model '{model}', configuration expects datatype {data_type} for "
            f"{role} '{name}', model provides {shown}"
        )
    return tensors[name]


def check_dims(model: str, tensor: ort.NodeArg, dims: list[int], batching: bool, exact: bool) -> None:
    """Compare a tensor's configured dims with the model's shape."""
    name, expected = tensor.name, dims_of(tensor)
    if expected == []:
        # Triton has no scalars: a model's scalar is one element on the wire
        if any(dim != 1 for dim in dims):
            refuse(
                f"unable to load model '{model}', scalar tensor '{name}', should only provide 1 in the model "
                f"configuration when the model doesn't support batching. Model configuration provided: {text(dims)}."
            )
        return
    if batching and expected[0] != -1:
        refuse(
            f"model '{model}', tensor '{name}': for the model to support batching the shape should have at least "
            f"1 dimension and the first dimension must be -1; but shape expected by the model is {text(expected)}"
        )
    full = [-1, *dims] if batching else dims
    fits = len(full) == len(expected) and all(
        have == want or (want == -1 and not exact) for have, want in zip(full, expected, strict=True)
    )
    if not fits:
        batch = "an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
        found = f"{batch}complete shape {text(full)}" if batching else f"shape {text(full)}"
        refuse(
            f"model '{model}', tensor '{name}': the model expects {len(expected)} dimensions (shape "
            f"{text(expected)}) but the model configuration specifies {len(full)} dimensions ({found})"
        )


def sequence_controls(config: dict, inputs: Tensors, batching: bool) -> int:
    """How many of the model's inputs the sequence batcher fills; refuses those that do not fit."""
    sequence, model = config.get("sequence_batching", {}), config["name"]
    if sequence.get("state"):
        refuse(f"model '{model}': sequence_batching.state needs the C++ backend; this tier keeps no state for a model")
    for control in sequence.get("control_input", []):
        name = control["name"]
        if name not in inputs:
            refuse(f"configuration specified sequence control '{name}', but model does not provide that input")
        dims = dims_of(inputs[name])[1 if batching else 0 :]
        if dims != [1]:
            refuse(
                f"unable to load model '{model}', sequence control '{name}' in model has dims {text(dims)} but dims "
                "[1] is expected"
            )
        for kind in control["control"]:
            given = next((CONTROL_TYPES[key] for key in CONTROL_TYPES if kind.get(key)), kind.get("data_type"))
            if given != TRITON_TYPES.get(inputs[name].type):
                provided = inputs[name].type.removeprefix("tensor(").removesuffix(")").upper()
                refuse(
                    f"unable to load model '{model}', sequence control '{name}', the model expects data-type "
                    f"{provided} but the model configuration specifies data-type {given}"
                )
    return len(sequence.get("control_input", []))


def dims_in(entry: dict) -> list[int]:
    """The shape the model sees: `reshape` where there is one, else `dims`."""
    return [int(dim) for dim in entry.get("reshape", entry).get("shape" if "reshape" in entry else "dims", [])]


def text(shape: list[int]) -> str:
    """A shape as Triton prints it: [-1,3,8,8]."""
    return "[" + ",".join(str(axis) for axis in shape) + "]"
