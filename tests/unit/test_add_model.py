"""Model folders are laid out whole, with all that belongs to them, or not at all."""

from __future__ import annotations

import os
import shutil

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.unit.onnx_files import FLOAT, matmul, relu, save
from tutorial_lib.errors import ExportError, RepositoryError
from tutorial_lib.repository import add_model, read_config
from tutorial_lib.repository.add_model import model_folder


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_folder_as_triton_wants_it(tmp_path):
    folder = add_model(relu(tmp_path / "some net (v2).onnx"), tmp_path / "r", labels=["a", "b", "c"], version=3)
    assert folder == tmp_path / "r" / "some_net_v2"
    assert tree(tmp_path / "r") == [
        "some_net_v2/3/model.onnx", "some_net_v2/config.pbtxt", "some_net_v2/labels.txt",
    ]  # fmt: skip
    assert read_config(folder).name == "some_net_v2"
    assert folder.stat().st_mode & 0o777 == 0o777 & ~mask()


def mask():
    value = os.umask(0)
    os.umask(value)
    return value


def test_model_onnx_gets_the_name_of_its_folder(tmp_path):
    assert add_model(relu(tmp_path / "magic" / "model.onnx"), tmp_path / "r").name == "magic"


def external(path, location="weights/w.bin"):
    (path.parent / location).parent.mkdir(parents=True, exist_ok=True)
    return matmul(path, save_as_external_data=True, location=location, size_threshold=0)


def test_external_data_comes_along(tmp_path):
    path = external(tmp_path / "in" / "m.onnx")
    folder = add_model(path, tmp_path / "r")
    assert tree(folder) == ["1/model.onnx", "1/weights/w.bin", "config.pbtxt"]
    weights = onnx.numpy_helper.to_array(onnx.load(folder / "1" / "model.onnx").graph.initializer[0])
    assert np.array_equal(weights, onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[0]))


def test_external_data_that_is_missing_or_cut_is_refused(tmp_path):
    path = external(tmp_path / "in" / "m.onnx")
    weights = tmp_path / "in" / "weights" / "w.bin"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(RepositoryError, match="'weights/w.bin': found 100 bytes, expected 16384 at least"):
        add_model(path, tmp_path / "r")
    weights.unlink()
    with pytest.raises(RepositoryError, match="'weights/w.bin': found no such file"):
        add_model(path, tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "a/../../secret", "", "..\\secret", "a\0b"])
def test_external_data_outside_the_folder_is_refused(tmp_path, location):
    path = external(tmp_path / "in" / "m.onnx")
    (tmp_path / "secret").write_bytes(b"x" * 20_000)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(RepositoryError, match="outside the file's folder"):
        add_model(path, tmp_path / "r")


def test_a_link_out_of_the_folder_is_refused_and_a_hub_cache_is_not(tmp_path):
    path = external(tmp_path / "in" / "m.onnx", "w.bin")
    shutil.move(tmp_path / "in" / "w.bin", tmp_path / "elsewhere.bin")
    (tmp_path / "in" / "w.bin").symlink_to(tmp_path / "elsewhere.bin")
    with pytest.raises(RepositoryError, match="a link that leads to"):
        add_model(path, tmp_path / "r")
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for name, source in {"m.onnx": path, "w.bin": tmp_path / "elsewhere.bin"}.items():
        shutil.move(source, blobs / f"hash-{name}")
        (snapshot / name).symlink_to(blobs / f"hash-{name}")
    assert tree(add_model(snapshot / "m.onnx", tmp_path / "r")) == ["1/model.onnx", "1/w.bin", "config.pbtxt"]
    assert not (tmp_path / "r" / "m" / "1" / "w.bin").is_symlink()


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "-rf", "a b", "größe", "a\n", "x" + "\0"])
def test_hostile_names_are_refused(tmp_path, name):
    with pytest.raises(RepositoryError, match="model name: found"):
        add_model(relu(tmp_path / "m.onnx"), tmp_path / "r", name=name)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("name", ["../m.onnx", "w.bin", "a/m.onnx"])
def test_hostile_file_names_are_refused(tmp_path, name):
    path = external(tmp_path / "in" / "m.onnx", "w.bin")
    with pytest.raises(RepositoryError, match="expected a plain file name"):
        add_model(path, tmp_path / "r", model_filename=name)
    assert list((tmp_path / "r").iterdir()) == []


def test_another_file_name_is_kept_and_configured(tmp_path):
    folder = add_model(relu(tmp_path / "best.onnx"), tmp_path / "r", model_filename="best.onnx")
    assert tree(folder) == ["1/best.onnx", "config.pbtxt"]
    assert read_config(folder).default_model_filename == "best.onnx"


def test_a_name_that_is_taken(tmp_path):
    folder = add_model(relu(tmp_path / "m.onnx"), tmp_path / "r")
    (folder / "mine.txt").write_text("keep me")
    with pytest.raises(RepositoryError, match="'m': there is one already.*--replace"):
        add_model(relu(tmp_path / "m.onnx"), tmp_path / "r")
    assert (folder / "mine.txt").exists()
    add_model(relu(tmp_path / "m.onnx"), tmp_path / "r", replace=True, version=2)
    assert tree(folder) == ["2/model.onnx", "config.pbtxt"]
    assert list((tmp_path / "r").iterdir()) == [folder]


def test_a_failure_leaves_the_repository_as_it_was(tmp_path):
    folder = add_model(relu(tmp_path / "m.onnx"), tmp_path / "r")
    before = tree(tmp_path)
    with pytest.raises(ZeroDivisionError), model_folder(tmp_path / "r", "m", replace=True) as new:
        (new / "half").write_text("")
        raise ZeroDivisionError
    bad = save(tmp_path / "bad.onnx", [helper.make_node("No", ["x"], ["y"])], [("x", FLOAT, [1])], [("y", FLOAT, [1])])
    with pytest.raises(ExportError):
        add_model(bad, tmp_path / "r", name="m", replace=True)
    bad.unlink()
    assert tree(tmp_path) == before
    assert [path.name for path in (tmp_path / "r").iterdir()] == [folder.name]


def test_a_version_below_one_is_refused(tmp_path):
    with pytest.raises(RepositoryError, match="found version 0"):
        add_model(relu(tmp_path / "m.onnx"), tmp_path / "r", version=0)
