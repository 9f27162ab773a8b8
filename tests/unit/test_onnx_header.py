"""The header of an ONNX file, read without its weights."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.unit.onnx_files import FLOAT, matmul, relu, save
from tests.unit.peak import run_measured
from tutorial_lib.errors import ExportError
from tutorial_lib.export.onnx_header import read_header


def test_the_same_graph_as_onnx_reads_less_the_numbers(tmp_path):
    path = matmul(tmp_path / "m.onnx")
    found, whole = read_header(path), onnx.load(path)
    assert len(found.SerializeToString()) < 1000 < path.stat().st_size
    whole.graph.initializer[0].ClearField("raw_data")
    assert found == whole


def test_small_weights_are_kept(tmp_path):
    path = matmul(tmp_path / "m.onnx", rows=2, columns=3)
    assert read_header(path) == onnx.load(path)


def test_constants_inside_branches_lose_their_numbers_too(tmp_path):
    big = helper.make_tensor("big", FLOAT, [5000], np.zeros(5000))
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["z"], value=big)],
        "inner",
        [],
        [helper.make_tensor_value_info("z", 1, [5000])],
    )
    node = helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)
    path = save(tmp_path / "m.onnx", [node], [("c", TensorProto.BOOL, [])], [("z", FLOAT, [5000])])
    found = read_header(path)
    assert len(found.SerializeToString()) < 1000
    assert [a.g.node[0].attribute[0].t.dims[0] for a in found.graph.node[0].attribute] == [5000, 5000]


def test_a_long_list_of_numbers_in_an_attribute_stays(tmp_path):
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", nodes_values=[0.5] * 5000)
    path = save(tmp_path / "m.onnx", [node], [("x", FLOAT, ["n", 2])], [("y", FLOAT, ["n", 1])], domains=["ai.onnx.ml"])
    assert read_header(path) == onnx.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found 0 bytes"),
        (b"hello, world", "12 bytes that are not a whole ONNX graph"),
        (b"\0" * 5000, "5000 bytes that are not"),
        (b"PK\x03\x04rest", "zip archive, such as a PyTorch checkpoint.*Export the model to ONNX"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer.*git lfs pull"),
        (b"<!DOCTYPE html>", "page of HTML"),
        (b"\x08\x09", "found no graph"),
    ],
)
def test_what_is_not_onnx_is_refused(tmp_path, content, message):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ExportError, match=f"(?s){message}"):
        read_header(path)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ExportError, match="No such file"):
        read_header(tmp_path / "none.onnx")
    with pytest.raises(ExportError, match="folder or a device"):
        read_header(tmp_path)


def test_a_cut_file_is_refused_wherever_it_was_cut(tmp_path):
    whole = matmul(tmp_path / "m.onnx").read_bytes()
    for keep in range(1, len(whole), 997):
        (tmp_path / "cut.onnx").write_bytes(whole[:keep])
        with pytest.raises(ExportError):
            read_header(tmp_path / "cut.onnx")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(position=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_broken_byte_is_refused_or_read_but_never_worse(tmp_path_factory, position, byte):
    folder = tmp_path_factory.mktemp("broken")
    data = bytearray(matmul(folder / "m.onnx", rows=40, columns=40).read_bytes())
    data[position % len(data)] = byte
    (folder / "m.onnx").write_bytes(data)
    try:
        assert read_header(folder / "m.onnx").graph.output
    except ExportError as error:
        assert "m.onnx" in error.problem


def test_a_sparse_file_of_3_gb_is_refused_in_little_memory(tmp_path):
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.truncate(3 * 2**30)
    with pytest.raises(ExportError, match="3221225472 bytes that are not"):
        read_header(path)


def test_a_real_graph_around_3_gb_of_weights_is_read_in_little_memory(tmp_path):
    small = relu(tmp_path / "small.onnx").read_bytes()
    length = 3 * 2**30
    # graph { initializer { raw_data: … } }, with the numbers as a hole in the file
    tensor = b"\x4a" + encoded(length)
    initializer = b"\x2a" + encoded(len(tensor) + length) + tensor
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.write(b"\x3a" + encoded(len(initializer) + length) + initializer)
        file.seek(length, 1)
        file.write(small)
    code = """
import sys
from tutorial_lib.export.onnx_header import read_header
import onnx
before = peak_kib()
found = read_header(sys.argv[1])
print([v.name for v in found.graph.input], peak_kib() - before)
"""
    names, grown_kib = run_measured(code, str(path)).rsplit(" ", 1)
    assert names == "['x']"
    assert int(grown_kib) < 64 * 1024


def encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
