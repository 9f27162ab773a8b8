"""Triton backend "onnxruntime", written as a Python-based backend.

The Triton in the PyPI wheel ships without the C++ ONNX Runtime backend, so this file takes its
place: Triton puts it in front of every model whose config.pbtxt says `backend: "onnxruntime"` or
`platform: "onnxruntime_onnx"`. It gives the verdicts of the C++ backend, in that backend's words,
because a configuration that loads here has to load in the container too.

It runs inside Triton's stub process and therefore imports nothing of `tutorial_lib`.
What it needs to know about the release it stands in for arrives in the server's environment:
WORKSHOP_ONNX_MAX_IR and WORKSHOP_ONNX_MAX_OPSET (see `tutorial_lib/versions.py`).

Source for the protocol: "Python-based Backends" in the python_backend documentation,
https://github.com/triton-inference-server/python_backend
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import NoReturn

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb_utils

# ONNX Runtime's name for a tensor's type -> Triton's name in config.pbtxt
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
# The C++ backend sets this maximum when it completes a configuration that names none.
# Source: `default-max-batch-size` in the onnxruntime_backend README.
DEFAULT_MAX_BATCH_SIZE = 4
EXECUTION_MODES = {"0": ort.ExecutionMode.ORT_SEQUENTIAL, "1": ort.ExecutionMode.ORT_PARALLEL}
GRAPH_LEVELS = {
    "-1": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "0": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "1": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "2": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


class TritonPythonModel:
    """One model instance: one ONNX Runtime session."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: pb_utils.ModelConfig) -> pb_utils.ModelConfig:
        """Fill in what config.pbtxt leaves out: tensors, batching, dynamic batching."""
        config = auto_complete_model_config.as_dict()
        if config["input"] and config["output"]:
            return auto_complete_model_config
        path = model_file(config, pb_utils.get_model_dir())
        # no optimisation: only names, types and shapes are read from this session
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        register_operators(config, options)
        session = open_session(path, options)
        tensors = [*session.get_inputs(), *session.get_outputs()]
        batched = all(dims_of(tensor)[:1] == [-1] for tensor in tensors)
        if batched and config["max_batch_size"] == 0:
            auto_complete_model_config.set_max_batch_size(DEFAULT_MAX_BATCH_SIZE)
            config["max_batch_size"] = DEFAULT_MAX_BATCH_SIZE
            # the C++ backend turns dynamic batching on together with the batch size it found
            if not any(key in config for key in ("dynamic_batching", "sequence_batching")):
                auto_complete_model_config.set_dynamic_batching()
        first = 1 if config["max_batch_size"] > 0 else 0
        for tensor in session.get_inputs():
            auto_complete_model_config.add_input(described(tensor, first))
        for tensor in session.get_outputs():
            auto_complete_model_config.add_output(described(tensor, first))
        return auto_complete_model_config

    def initialize(self, args: dict[str, str]) -> None:
        """Open the session and check config.pbtxt against the model's own tensors.

        Args:
            args: Triton's strings: `model_config` (JSON), `model_instance_kind`, `model_name`, ….
        """
        self.config = json.loads(args["model_config"])
        self.name = args["model_name"]
        kind = args["model_instance_kind"]
        if kind not in ("CPU", "AUTO", "MODEL"):
            refuse(f"instance group of model {self.name} has kind KIND_{kind} but this tier has no GPU")
        self.batching = self.config["max_batch_size"] > 0
        options = session_options(self.config)
        self.session = open_session(model_file(self.config, pb_utils.get_model_dir()), options)
        self.inputs = {tensor.name: tensor for tensor in self.session.get_inputs()}
        self.outputs = {tensor.name: tensor for tensor in self.session.get_outputs()}
        self.scalars = {tensor.name for tensor in self.inputs.values() if tensor.shape == []}
        self.strings = {tensor.name for tensor in self.inputs.values() if tensor.type == "tensor(string)"}
        check_tensors(self.config, self.inputs, self.outputs)
        self.input_reshape = reshapes(self.config["input"])
        self.output_reshape = reshapes(self.config["output"])

    def execute(self, requests: list) -> list:
        """Answer every request of the batch; a faulty one is answered alone, with its error.

        Args:
            requests: what Triton's scheduler put together.

        Returns:
            One `InferenceResponse` per request, in order.
        """
        responses = [None] * len(requests)
        groups = {}
        for index, request in enumerate(requests):
            try:
                feeds = self.read(request)
            except Exception as error:
                responses[index] = failed(error)
                continue
            # only requests with the same tensors and the same shapes behind the batch axis concatenate
            first = 1 if self.batching else 0
            key = tuple((name, array.shape[first:]) for name, array in feeds.items())
            key = key if self.batching else (index,)
            groups.setdefault(key, []).append((index, request.requested_output_names(), feeds))
        for members in groups.values():
            self.answer(members, responses)
        return responses

    def answer(self, members: list[tuple], responses: list) -> None:
        """Run one group as one batch; if that fails, each member alone."""
        try:
            for (index, _, _), response in zip(members, self.run(members), strict=True):
                responses[index] = response
        except Exception as error:
            if len(members) == 1:
                responses[members[0][0]] = failed(error)
            else:
                for member in members:
                    self.answer([member], responses)

    def read(self, request: pb_utils.InferenceRequest) -> dict[str, np.ndarray]:
        """The request's tensors as arrays, reshaped and decoded as the session wants them."""
        feeds = {}
        for tensor in request.inputs():
            name, array = tensor.name(), tensor.as_numpy()
            if name in self.input_reshape:
                array = reshaped(array, self.input_reshape[name], self.batching)
            elif name in self.scalars:
                array = array.reshape(())
            if name in self.strings:
                array = np.array([text.decode("utf-8") for text in array.ravel()], dtype=object).reshape(array.shape)
            feeds[name] = array
        return feeds

    def run(self, members: list[tuple]) -> list:
        """Concatenate, run once, split; the split parts are views into the result.

        Args:
            members: (index, requested output names, feeds) of requests that fit together.

        Returns:
            One response per member, in order.
        """
        wanted = [name for name in self.outputs if any(name in asked for _, asked, _ in members)]
        if len(members) == 1:
            feeds, sizes = members[0][2], None
        else:
            parts = [feeds for _, _, feeds in members]
            sizes = [next(iter(feeds.values())).shape[0] for feeds in parts]
            feeds = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        results = dict(zip(wanted, self.session.run(wanted, feeds), strict=True))
        if sizes is not None:
            for name, result in results.items():
                # rows that are not one per sample cannot be told apart: splitting would mix up clients
                if np.shape(result)[:1] != (sum(sizes),):
                    raise ValueError(f"output '{name}' has {np.shape(result)[:1]} rows for a batch of {sum(sizes)}")
        start, responses = 0, []
        for position, (_, asked, _) in enumerate(members):
            stop = None if sizes is None else start + sizes[position]
            tensors = []
            for name in wanted:
                if name in asked:
                    part = results[name] if sizes is None else results[name][start:stop]
                    tensors.append(self.tensor(name, part))
            responses.append(pb_utils.InferenceResponse(tensors))
            start = stop
        return responses

    def tensor(self, name: str, array: np.ndarray) -> pb_utils.Tensor:
        """One output tensor, in the shape config.pbtxt promises."""
        array = np.atleast_1d(array)  # ONNX Runtime answers a scalar; Triton has none
        if name in self.output_reshape:
            array = reshaped(array, self.output_reshape[name], self.batching, to_model=False)
        if array.dtype == object:
            array = np.array([text.encode("utf-8") for text in array.ravel()], dtype=object).reshape(array.shape)
        return pb_utils.Tensor(name, array)

    def finalize(self) -> None:
        """Give the session's memory back before Triton ends the stub."""
        self.session = None


def refuse(message: str) -> NoReturn:
    """Refuse to load, in Triton's own kind of error."""
    raise pb_utils.TritonModelException(message)


def failed(error: Exception) -> pb_utils.InferenceResponse:
    """The answer to a request that could not be run."""
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(in_c_words(error)))


def model_file(config: dict, version_folder: str) -> Path:
    """The model file of this version; `default_model_filename` may name another than model.onnx."""
    folder = Path(version_folder).absolute()
    path = folder / (config.get("default_model_filename") or "model.onnx")
    # by the name alone: weights that are a link to elsewhere are the owner's choice, "../" is not
    if folder not in Path(os.path.normpath(path)).parents:
        refuse(f"default_model_filename '{path}' points outside the version folder {folder}")
    if not path.exists():
        refuse(f"failed to stat file {path}")
    return path / "model.onnx" if path.is_dir() else path


def open_session(path: Path, options: ort.SessionOptions) -> ort.InferenceSession:
    """Open the model, refusing what the target release's ONNX Runtime would refuse."""
    check_caps(path)
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        refuse(in_c_words(error))


def in_c_words(error: Exception) -> str:
    """An error of ONNX Runtime's Python binding as its C interface words it, with the error code."""
    match = re.match(r"\[ONNXRuntimeError\] : (\d+) : \w+ : (.*)", str(error), re.DOTALL)
    return f"onnx runtime error {match[1]}: {match[2]}" if match else f"onnx runtime error 1: {error}"


def check_caps(path: Path) -> None:
    """Compare the file's IR version and opset with the caps of the target release, if any are set."""
    max_ir, max_opset = os.environ.get("WORKSHOP_ONNX_MAX_IR"), os.environ.get("WORKSHOP_ONNX_MAX_OPSET")
    if not (max_ir and max_opset):
        return
    import onnx  # only when there is a cap to check: it costs 0.1 s of a load

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception:
        return  # not a readable model: ONNX Runtime itself says so best
    failure = f"onnx runtime error 1: Load model from {path} failed:"
    if model.ir_version > int(max_ir):
        refuse(f"{failure} Unsupported model IR version: {model.ir_version}, max supported IR version: {max_ir}")
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > int(max_opset):
            refuse(
                f"{failure} ONNX Runtime only *guarantees* support for models stamped with official released onnx "
                f"opset versions. Opset {opset.version} is under development and support for this is limited. "
                f"Current official support for domain ai.onnx is till opset {max_opset}."
            )


def session_options(config: dict) -> ort.SessionOptions:
    """Session options from the `parameters` the C++ backend reads, with threads shared fairly.

    Left to itself every session takes all cores, and several instances then fight over them; so the
    cores are divided by the number of instances unless `intra_op_thread_count` says otherwise.
    """
    parameters = {name: entry["string_value"] for name, entry in config.get("parameters", {}).items()}
    instances = sum(group["count"] for group in config.get("instance_group", [])) or 1
    options = ort.SessionOptions()
    options.log_severity_level = 3
    threads = number(parameters, "intra_op_thread_count")
    options.intra_op_num_threads = threads or max(1, len(os.sched_getaffinity(0)) // instances)
    options.inter_op_num_threads = number(parameters, "inter_op_thread_count") or 1
    mode = parameters.get("execution_mode", "0")
    if mode not in EXECUTION_MODES:
        refuse(f"parameter execution_mode: found '{mode}', expected 0 (sequential) or 1 (parallel)")
    options.execution_mode = EXECUTION_MODES[mode]
    # a session that spins keeps a core busy while it waits; another instance could use that core
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if instances == 1 else "0")
    graph = config.get("optimization", {}).get("graph", {})
    options.graph_optimization_level = GRAPH_LEVELS.get(
        str(graph.get("level", 1)), ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    )
    register_operators(config, options)
    return options


def register_operators(config: dict, options: ort.SessionOptions) -> None:
    """Register the libraries with custom operators that `model_operations` names, as the C++ backend does."""
    for library in config.get("model_operations", {}).get("op_library_filename", []):
        try:
            options.register_custom_ops_library(library)
        except Exception as error:
            refuse(in_c_words(error))


def number(parameters: dict[str, str], name: str) -> int:
    """A whole number >= 0 out of config.pbtxt's `parameters`, 0 when it is not there."""
    text = parameters.get(name, "0")
    if not text.strip().isdecimal():
        refuse(f"parameter {name}: found '{text}', expected a whole number")
    return int(text)


def dims_of(tensor: ort.NodeArg) -> list[int]:
    """A tensor's shape with -1 for every axis that is not a constant."""
    return [axis if isinstance(axis, int) else -1 for axis in tensor.shape]


def described(tensor: ort.NodeArg, first: int) -> dict:
    """A tensor as a config.pbtxt entry, with the axes from `first` on."""
    if tensor.type not in TRITON_TYPES:
        refuse(f"unsupported datatype {tensor.type} for tensor '{tensor.name}'")
    dims = dims_of(tensor)[first:]
    entry = {"name": tensor.name, "data_type": TRITON_TYPES[tensor.type], "dims": dims or [1]}
    if not dims and first:
        entry["reshape"] = {"shape": []}
    return entry


def reshapes(entries: list[dict]) -> dict[str, tuple[list[int], list[int]]]:
    """name -> the model's own shape behind the batch, and the shape clients see."""
    return {
        entry["name"]: ([int(d) for d in entry["reshape"]["shape"]], [int(d) for d in entry["dims"]])
        for entry in entries
        if "reshape" in entry
    }


def reshaped(array: np.ndarray, reshape: tuple[list, list], batching: bool, to_model: bool = True) -> np.ndarray:
    """The array in the other one of an entry's two shapes; the batch axis stays as it is."""
    shape = reshape[0] if to_model else reshape[1]
    lead = array.shape[:1] if batching else ()
    if -1 in shape and shape.count(-1) > 1:
        # several free axes: Triton guarantees they keep their order, so take them from the array
        free = [n for n, d in zip(array.shape[len(lead) :], reshape[1 if to_model else 0], strict=True) if d == -1]
        shape = [free.pop(0) if d == -1 else d for d in shape]
    return array.reshape(*lead, *shape)


def check_tensors(config: dict, inputs: dict[str, ort.NodeArg], outputs: dict[str, ort.NodeArg]) -> None:
    """Refuse a configuration whose tensors are not the model's.

    Inputs may be narrower than the model's free axes; outputs have to repeat them. Source: the
    verdicts of the official backend, release 24.10, kept in tests/cases.
    """
    name, batching = config["name"], config["max_batch_size"] > 0
    if len(config["input"]) != len(inputs):
        refuse(
            f"unable to load model '{name}', configuration expects {len(config['input'])} inputs, "
            f"model provides {len(inputs)}"
        )
    for role, entries, tensors in (("input", config["input"], inputs), ("output", config["output"], outputs)):
        for entry in entries:
            if entry["name"] not in tensors:
                refuse(f"unexpected inference {role} '{entry['name']}', allowed {role}s are: {', '.join(tensors)}")
            tensor = tensors[entry["name"]]
            provided = TRITON_TYPES.get(tensor.type)
            if provided != entry["data_type"]:
                shown = {"TYPE_STRING": "TYPE_BYTES", None: tensor.type}.get(provided, provided)
                refuse(
                    f"unable to load model '{name}', configuration expects datatype {entry['data_type']} for "
                    f"{role} '{entry['name']}', model provides {shown}"
                )
            dims = [int(d) for d in entry.get("reshape", {}).get("shape", entry["dims"])]
            check_dims(name, entry["name"], dims_of(tensor), dims, batching, exact=role == "output")


def check_dims(model: str, name: str, expected: list[int], dims: list[int], batching: bool, exact: bool) -> None:
    """Compare a tensor's configured dims with the model's shape, in the C++ backend's words."""
    if batching and expected[:1] != [-1]:
        refuse(
            f"model '{model}', tensor '{name}': for the model to support batching the shape should have at least "
            f"1 dimension and the first dimension must be -1; but shape expected by the model is {text(expected)}"
        )
    if not batching and expected == [] and dims == [1]:
        return  # Triton has no scalars: a model's scalar is one element on the wire
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


def text(shape: list[int]) -> str:
    """A shape as Triton prints it: [-1,3,8,8]."""
    return "[" + ",".join(str(axis) for axis in shape) + "]"
