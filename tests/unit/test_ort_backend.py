"""The parts of the ONNX Runtime backend that need no server: settings, stamped versions, ragged batches."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.conftest import save_double
from tutorial_lib.paths import CHECKOUT

LEVEL = ort.GraphOptimizationLevel


class Refused(Exception):
    """Stands in for Triton's own exception."""


@pytest.fixture(scope="module")
def backend():
    """The backend's modules, beside a stand-in for what Triton's stub provides."""
    folder = str(CHECKOUT / "tutorial_lib" / "backends" / "onnxruntime")
    utilities = types.ModuleType("triton_python_backend_utils")
    utilities.TritonModelException = Refused
    utilities.ModelConfig = object
    utilities.Logger = types.SimpleNamespace(log_warn=print, log_info=print)
    utilities.triton_string_to_numpy = {"TYPE_FP32": np.float32, "TYPE_INT32": np.int32}.__getitem__
    sys.modules["triton_python_backend_utils"] = utilities
    sys.path.insert(0, folder)
    names = ("ort_file", "ort_settings", "ort_checks", "ort_ragged")
    yield types.SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    sys.path.remove(folder)
    for name in (*names, "triton_python_backend_utils"):
        sys.modules.pop(name)


def config(parameters: dict[str, str] | None = None, **more) -> dict:
    entries = {name: {"string_value": value} for name, value in (parameters or {}).items()}
    return {"name": "m", "parameters": entries, "instance_group": [{"count": 1}], **more}


def test_parameters_of_the_session(backend):
    given = {
        "intra_op_thread_count": "3", "inter_op_thread_count": "2", "execution_mode": "1", "enable_mem_arena": "OFF",
        "enable_mem_pattern": "0", "session.dynamic_block_base": "4",
    }  # fmt: skip
    options = backend.ort_settings.session_options(config(given))
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 2)
    assert options.execution_mode == ort.ExecutionMode.ORT_PARALLEL
    assert not options.enable_cpu_mem_arena and not options.enable_mem_pattern
    assert options.get_session_config_entry("session.dynamic_block_base") == "4"
    run = backend.ort_settings.run_options(config({"memory.enable_memory_arena_shrinkage": "cpu:0"}))
    assert run.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"
    assert backend.ort_settings.run_options(config()) is None


@pytest.mark.parametrize(
    ("level", "expected"),
    [(None, LEVEL.ORT_ENABLE_ALL), (0, LEVEL.ORT_ENABLE_ALL), (-1, LEVEL.ORT_ENABLE_BASIC),
     (1, LEVEL.ORT_ENABLE_EXTENDED), (2, LEVEL.ORT_DISABLE_ALL)],
)  # fmt: skip
def test_graph_levels(backend, level, expected):
    optimization = {} if level is None else {"graph": {"level": level}}
    options = backend.ort_settings.session_options(config(optimization=optimization))
    assert options.graph_optimization_level == expected


def test_cores_are_shared_out(backend, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    for count, threads in ((1, 8), (2, 4), (3, 2), (16, 1)):
        options = backend.ort_settings.session_options(config(instance_group=[{"count": count}]))
        assert options.intra_op_num_threads == threads


def test_the_global_thread_pool(backend, monkeypatch):
    flags = {"enable-global-threadpool": "1", "intra_op_thread_count": "5"}
    monkeypatch.setattr(backend.ort_settings, "backend_settings", lambda: flags)
    options = backend.ort_settings.session_options(config({"intra_op_thread_count": "2"}))
    assert options.intra_op_num_threads == 5, "the model's own counts are ignored then"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--backend-config=onnxruntime,default-max-batch-size=8"], 8),
        (["--backend-config", "onnxruntime,default-max-batch-size=8"], 8),
        (["--backend-config=default-max-batch-size=3"], 3),
        (["--backend-config=onnxruntime,default-max-batch-size=8", "--backend-config=default-max-batch-size=3"], 8),
        (["--backend-config=python,default-max-batch-size=8"], 4),
        (["--backend-config=onnxruntime,default-max-batch-size=-1"], 0),
        ([], 4),
    ],
)
def test_settings_of_the_command_line(backend, monkeypatch, arguments, expected):
    line = "\0".join(["tritonserver", *arguments, "--log-verbose=0", ""])
    monkeypatch.setattr(Path, "read_text", lambda _: line)
    assert backend.ort_settings.default_max_batch_size() == expected


def test_a_number_is_read_as_c_reads_one(backend):
    number = backend.ort_settings.number
    assert number({"n": " 12 threads"}, "n") == 12 and number({"n": "-3"}, "n") == -3 and number({}, "n", 7) == 7
    with pytest.raises(Refused, match="failed to convert 'many' to integral number"):
        number({"n": "many"}, "n")


@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ir=st.integers(3, 12), opset=st.integers(7, 25), extra=st.integers(1, 300))
def test_stamped_versions_are_those_the_onnx_package_reads(backend, tmp_path, ir, opset, extra):
    path = save_double(tmp_path / "model.onnx", ir=ir, opset=opset)
    model = onnx.load(path)
    model.opset_import.add(domain="ai.onnx.ml", version=extra)
    model.doc_string = "x" * extra
    path.write_bytes(model.SerializeToString())
    assert backend.ort_file.stamped_versions(path) == (ir, {"": opset, "ai.onnx.ml": extra})


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=200), cut=st.integers(0, 400))
def test_stamped_versions_of_no_onnx_file(backend, tmp_path, content, cut):
    """Whatever the bytes, there is an answer; a cut file has no versions."""
    path = save_double(tmp_path / "model.onnx")
    whole = path.read_bytes()
    path.write_bytes(content)
    backend.ort_file.stamped_versions(path)
    path.write_bytes(whole[: min(cut, len(whole) - 1)])
    found = backend.ort_file.stamped_versions(path)
    assert found == (0, {}) or len(path.read_bytes()) > len(whole) - 8  # cut between two fields at the very end


@pytest.mark.parametrize("field", ["graph", "opset"])
@pytest.mark.parametrize("length", [2**35, 2**60, 2**62, 2**66])
def test_a_length_beyond_the_file_is_no_field(backend, tmp_path, field, length):
    """Neither memory is asked for nor a place sought that cannot be."""
    tag, number = {"graph": 7, "opset": 8}[field] << 3 | 2, []
    while length:
        length, digit = length >> 7, length & 0x7F
        number.append(digit | (0x80 if length else 0))
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes([8, 9, tag, *number]) + b"rest")
    assert backend.ort_file.stamped_versions(path) == (0, {})


def test_what_a_batch_input_says(backend):
    arrays = [np.zeros((1, 3)), np.zeros((2, 5))]
    described = backend.ort_ragged.described
    assert described("BATCH_ELEMENT_COUNT", arrays).tolist() == [3, 10]
    assert described("BATCH_ACCUMULATED_ELEMENT_COUNT", arrays).tolist() == [3, 13]
    assert described("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", arrays).tolist() == [0, 3, 13]
    assert described("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", arrays).shape == (10,)
    assert described("BATCH_ITEM_SHAPE", arrays).tolist() == [[3], [5], [5]]
    assert described("BATCH_ITEM_SHAPE_FLATTEN", arrays).tolist() == [3, 5, 5]
