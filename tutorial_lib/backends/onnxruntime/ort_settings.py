"""Settings: a model's `parameters` and the server's --backend-config, as ONNX Runtime's session options."""

from __future__ import annotations

import os
import re
from pathlib import Path

import onnxruntime as ort
import triton_python_backend_utils as pb_utils
from ort_file import in_c_words, refuse

EXECUTION_MODES = {0: ort.ExecutionMode.ORT_SEQUENTIAL, 1: ort.ExecutionMode.ORT_PARALLEL}
# optimization.graph.level of config.pbtxt; every other value means all optimisations.
# Source: "Model Config Options" in the README of onnxruntime_backend
GRAPH_LEVELS = {
    -1: ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    1: ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
DEFAULT_MAX_BATCH_SIZE = 4  # Source: "Default Max Batch Size" in the README of onnxruntime_backend
ARENA_SHRINKAGE = "memory.enable_memory_arena_shrinkage"


def backend_settings() -> dict[str, str]:
    """What the server was given as `--backend-config=onnxruntime,NAME=VALUE` or `--backend-config=NAME=VALUE`.

    Triton does not tell a Python-based backend; this process is the server's child and reads its command line.
    """
    try:
        arguments = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
    except OSError:  # a system that hides other processes: then there are no settings to see
        return {}
    found: dict[str, dict[str, str]] = {"": {}, "onnxruntime": {}}
    for position, argument in enumerate(arguments):
        flag, _, given = argument.partition("=")
        if flag == "--backend-config":
            given = given or arguments[position + 1]
            backend, comma, setting = given.partition(",")
            if not comma or "=" in backend:
                backend, setting = "", given
            if backend in found:
                name, _, value = setting.partition("=")
                found[backend][name] = value
    return found[""] | found["onnxruntime"]


def default_max_batch_size() -> int:
    """The `max_batch_size` of a configuration that names none, for a model that can be batched."""
    return max(0, number(backend_settings(), "default-max-batch-size", DEFAULT_MAX_BATCH_SIZE))


def session_options(config: dict) -> ort.SessionOptions:
    """Session options from the `parameters` the C++ backend reads, with threads shared fairly.

    Left to itself every session takes all cores, and several instances then fight over them; so the
    cores are divided by the number of instances unless `intra_op_thread_count` says otherwise.
    """
    parameters = parameters_of(config)
    instances = sum(group["count"] for group in config.get("instance_group", [])) or 1
    options = ort.SessionOptions()
    options.log_severity_level = 3
    server = backend_settings()
    threads = server if boolean(server, "enable-global-threadpool", False) else parameters
    intra, inter = number(threads, "intra_op_thread_count"), number(threads, "inter_op_thread_count")
    options.intra_op_num_threads = intra if intra > 0 else max(1, cores() // instances)
    options.inter_op_num_threads = inter if inter > 0 else 1
    mode = number(parameters, "execution_mode")
    if mode not in EXECUTION_MODES:
        refuse(f"Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 but got {mode} .")
    options.execution_mode = EXECUTION_MODES[mode]
    options.enable_cpu_mem_arena = boolean(parameters, "enable_mem_arena", True)
    options.enable_mem_pattern = boolean(parameters, "enable_mem_pattern", True)
    # a session that spins keeps a core busy while it waits; another instance could use that core
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if instances == 1 else "0")
    for name, value in parameters.items():
        if name.startswith("session."):
            options.add_session_config_entry(name, value)
    optimization = config.get("optimization", {})
    level = int(optimization.get("graph", {}).get("level", 0))
    options.graph_optimization_level = GRAPH_LEVELS.get(level, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
    check_accelerators(config["name"], optimization.get("execution_accelerators", {}))
    register_operators(config, options)
    return options


def cores() -> int:
    """Processors this model may use; the server's starter knows of a container's share, too."""
    return int(os.environ.get("WORKSHOP_CPU_COUNT", 0)) or len(os.sched_getaffinity(0))


def run_options(config: dict) -> ort.RunOptions | None:
    """What each run is given; None for nothing of its own."""
    shrinkage = parameters_of(config).get(ARENA_SHRINKAGE)
    if shrinkage is None:
        return None
    options = ort.RunOptions()
    options.add_run_config_entry(ARENA_SHRINKAGE, shrinkage)
    return options


def check_accelerators(model: str, accelerators: dict) -> None:
    """The container's ONNX Runtime has OpenVINO for the CPU, this tier's has not: the answers are the same.

    Accelerators for a GPU concern instances on a GPU only.
    """
    for accelerator in accelerators.get("cpu_execution_accelerator", []):
        if accelerator["name"] != "openvino":
            refuse(f"unknown Execution Accelerator '{accelerator['name']}' is requested")
        pb_utils.Logger.log_warn(f"model '{model}': this tier has no OpenVINO; it runs on ONNX Runtime's own CPU code")


def register_operators(config: dict, options: ort.SessionOptions) -> None:
    """Register the libraries with custom operators that `model_operations` names."""
    for library in config.get("model_operations", {}).get("op_library_filename", []):
        try:
            options.register_custom_ops_library(library)
        except Exception as error:
            refuse(in_c_words(error))


def parameters_of(config: dict) -> dict[str, str]:
    """config.pbtxt's `parameters`: name → string value."""
    return {name: entry["string_value"] for name, entry in config.get("parameters", {}).items()}


def number(settings: dict[str, str], name: str, default: int = 0) -> int:
    """A setting as a whole number, read as C++ reads one: what follows the digits is not looked at."""
    if name not in settings:
        return default
    match = re.match(r"\s*[+-]?\d+", settings[name])
    if not match:
        refuse(f"failed to convert '{settings[name]}' to integral number")
    return int(match[0])


def boolean(settings: dict[str, str], name: str, default: bool) -> bool:
    """A setting as a truth value: true, on, 1 or false, off, 0."""
    text = settings.get(name, str(default)).lower()
    if text not in ("true", "on", "1", "false", "off", "0"):
        refuse(f"failed to convert '{settings[name]}' to boolean")
    return text in ("true", "on", "1")
