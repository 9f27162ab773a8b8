from __future__ import annotations

import multiprocessing
import time

import onnx
import pytest
import torch
from onnx import TensorProto, helper

import tutorial_lib.export.to_onnx
import tutorial_lib.training
from tutorial_lib.checkpoint import default_path, load_checkpoint, save_checkpoint
from tutorial_lib.course.catch_up import catch_up, export_path, served_path
from tutorial_lib.errors import NotebookError
from tutorial_lib.models.densenet import DenseNet
from tutorial_lib.paths import REFERENCE_REPOSITORY, WORKSPACE_VARIABLE, workspace


def quick_training(*, seed=0, progress=True):
    """Stands in for ten seconds of training; the rest of the work is the real one."""
    from tutorial_lib.datasets import load_digits

    history = tutorial_lib.training.History([1.0], [0.5], 0.1)
    return DenseNet(growth=2, blocks=(1,), stem=4).eval(), load_digits(seed=seed), history


def quick_export(model, path, *, checkpoint_sha256=""):
    x = helper.make_tensor_value_info("data_0", TensorProto.FLOAT, ["batch", 10])
    y = helper.make_tensor_value_info("fc6_1", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph([helper.make_node("Relu", ["data_0"], ["fc6_1"])], "g", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    entry = proto.metadata_props.add()
    entry.key, entry.value = "checkpoint_sha256", checkpoint_sha256
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(proto, path)
    return path


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(tutorial_lib.training, "train_digits", quick_training)
    monkeypatch.setattr(tutorial_lib.export.to_onnx, "export_densenet", quick_export)
    return workspace()


def made(space):
    return [path.is_file() for path in (default_path(space), export_path(space), served_path(space))]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("00", [False, False, False]), ("01", [False, False, False]), ("02", [True, False, False]),
        ("04", [True, True, False]), ("05", [True, True, True]), (6, [True, True, True]),
        ("06_call_the_server", [True, True, True]),
    ],
)  # fmt: skip
def test_makes_what_earlier_notebooks_leave_and_no_more(space, step, expected):
    assert catch_up(step, progress=False) == space
    assert made(space) == expected


def test_repository_has_the_reference_files_and_the_exported_model(space):
    catch_up("06", progress=False)
    assert served_path(space).read_bytes() == export_path(space).read_bytes()
    for source in REFERENCE_REPOSITORY.rglob("config.pbtxt"):
        assert (space.model_repository / source.relative_to(REFERENCE_REPOSITORY)).is_file()


def test_the_second_time_is_quick_and_changes_nothing(space, capsys):
    catch_up("06", progress=False)
    before = {path: path.stat().st_mtime_ns for path in space.root.rglob("*") if path.name != "catch_up.lock"}
    capsys.readouterr()
    started = time.perf_counter()
    catch_up("06")
    assert time.perf_counter() - started < 0.05
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert capsys.readouterr().err == ""  # no bar for nothing


def test_a_learners_own_checkpoint_stays_and_what_came_from_another_is_made_again(space):
    catch_up("06", progress=False)
    old = served_path(space).read_bytes()
    torch.manual_seed(99)
    save_checkpoint(DenseNet(growth=2, blocks=(1,), stem=4), default_path(space), metrics={}, seed=99)
    own = default_path(space).read_bytes()
    catch_up("06", progress=False)
    assert default_path(space).read_bytes() == own
    assert served_path(space).read_bytes() == export_path(space).read_bytes() != old


def test_a_model_without_a_note_of_its_checkpoint_is_the_learners_and_stays(space):
    catch_up("06", progress=False)
    proto = onnx.load(served_path(space))
    del proto.metadata_props[:]
    onnx.save(proto, served_path(space))
    mine = served_path(space).read_bytes()
    catch_up("06", progress=False)
    assert served_path(space).read_bytes() == mine


@pytest.mark.parametrize("which", [default_path, export_path, served_path])
def test_a_file_cut_in_half_is_made_again(space, which):
    catch_up("06", progress=False)
    path = which(space)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    catch_up("06", progress=False)
    assert made(space) == [True] * 3
    load_checkpoint(default_path(space))
    for file in (export_path(space), served_path(space)):
        onnx.checker.check_model(file)


@pytest.mark.parametrize("step", ["13", "-1", "x", "", "99_more", None])
def test_steps_that_do_not_exist(space, step):
    with pytest.raises(NotebookError, match="from '00' to '12'"):
        catch_up(step)


def _hold_lock(root, ready, release):
    from tutorial_lib.course.catch_up import _locked
    from tutorial_lib.paths import Workspace

    with _locked(Workspace(root)):
        ready.set()
        release.wait(30)


def test_two_at_once_wait_for_each_other_and_a_killed_one_holds_nothing(space):
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    holder = context.Process(target=_hold_lock, args=(space.root, ready, release))
    waiter = context.Process(target=catch_up, args=("01",), kwargs={"progress": False})
    holder.start()
    assert ready.wait(30)
    waiter.start()
    waiter.join(3)
    assert waiter.is_alive()  # it would have ended long ago
    holder.kill()
    waiter.join(30)
    assert waiter.exitcode == 0
    holder.join(10)
