from __future__ import annotations

import errno
import multiprocessing
import shutil
import timeit

import onnx
import pytest
import torch
from onnx import TensorProto, helper

import tutorial_lib.export.to_onnx
import tutorial_lib.paths
import tutorial_lib.training
from tutorial_lib.checkpoint import default_path, load_checkpoint, save_checkpoint
from tutorial_lib.course import catch_up as catch_up_module
from tutorial_lib.course import manifest, parts
from tutorial_lib.course.catch_up import catch_up, export_path, served_path
from tutorial_lib.errors import NotebookError, SetupError
from tutorial_lib.models.densenet import DenseNet
from tutorial_lib.paths import CHECKOUT, REFERENCE_REPOSITORY, WORKSPACE_VARIABLE, workspace


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
    assert min(timeit.repeat(lambda: catch_up("06"), number=1, repeat=5)) < 0.05
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
    from tutorial_lib.course.catch_up import locked
    from tutorial_lib.paths import Workspace

    with locked(Workspace(root)):
        ready.set()
        release.wait(300)


def test_two_at_once_wait_for_each_other_and_a_killed_one_holds_nothing(space):
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    holder = context.Process(target=_hold_lock, args=(space.root, ready, release))
    waiter = context.Process(target=catch_up, args=("01",), kwargs={"progress": False})
    holder.start()
    assert ready.wait(120)
    waiter.start()
    waiter.join(3)
    assert waiter.is_alive()  # it would have ended long ago
    holder.kill()
    waiter.join(120)
    assert waiter.exitcode == 0
    holder.join(10)


class Counted:
    """Counts the trainings and exports that the stand-ins do."""

    def __init__(self, monkeypatch):
        self.training = self.export = 0

        def train(**options):
            self.training += 1
            return quick_training(**options)

        def export(*arguments, **options):
            self.export += 1
            return quick_export(*arguments, **options)

        monkeypatch.setattr(tutorial_lib.training, "train_digits", train)
        monkeypatch.setattr(tutorial_lib.export.to_onnx, "export_densenet", export)

    def __call__(self):
        return self.training, self.export


@pytest.fixture
def counted(space, monkeypatch):
    return Counted(monkeypatch)


def test_what_is_fresh_is_used_again_and_nothing_is_left_over(space, counted):
    for step in ("02", "04", "06", "06"):
        catch_up(step, progress=False)
    assert counted() == (1, 1)
    assert not list(space.cache.glob("making-*")) and not (space.root / "backups").exists()


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ({"_TRAINING": ("training.py",)}, (1, 0)),  # same weights as before: what comes after is still fresh
        ({"SEED": 7}, (1, 0)),
        ({"_EXPORT": ("export/to_onnx.py",)}, (0, 1)),
    ],
)
def test_what_was_made_from_other_code_or_another_seed_is_made_again(
    space, counted, monkeypatch, capsys, changed, again
):
    monkeypatch.setattr(DenseNet, "__init__", seeded(DenseNet.__init__))
    catch_up("06", progress=False)
    for name, value in changed.items():
        monkeypatch.setattr(parts, name, value)
    catch_up("06", progress=False)
    assert counted() == (1 + again[0], 1 + again[1])
    catch_up("06", progress=False)
    assert counted() == (1 + again[0], 1 + again[1])
    assert not (space.root / "backups").exists()  # it was nobody's work
    assert capsys.readouterr().out == ""


def seeded(init):
    def make(self, **options):
        torch.manual_seed(0)
        init(self, **options)

    return make


def test_another_target_release_exports_again(space, counted, monkeypatch):
    catch_up("06", progress=False)
    monkeypatch.setenv("WORKSHOP_TARGET", "24.05")
    catch_up("06", progress=False)
    assert counted() == (1, 2)


def test_a_changed_checkpoint_makes_all_that_follows_again(space, counted):
    """The stand-in trains from another start each time, so its second checkpoint differs."""
    catch_up("06", progress=False)
    default_path(space).unlink()
    catch_up("06", progress=False)
    assert counted() == (2, 2)
    stamp = onnx.load(served_path(space)).metadata_props[0].value
    assert stamp == load_checkpoint(default_path(space)).metadata["weights"]["sha256"]


def test_code_version_sees_code_and_not_comments(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "CHECKOUT", tmp_path)
    (tmp_path / "tutorial_lib").mkdir()
    texts = [
        '"""A."""\nx = 1\n\n\ndef f():\n    """B."""\n',
        "# other\nx = 1\ndef f(): pass\n",
        "x = 2\ndef f(): pass\n",
    ]
    versions = []
    for number, text in enumerate(texts):
        (tmp_path / "tutorial_lib" / f"{number}.py").write_text(text)
        versions.append(manifest.code_version(f"{number}.py"))
    assert versions[0] == versions[1] != versions[2]


def test_a_checkpoint_of_another_seed_is_kept_and_said(space, capsys):
    save_checkpoint(DenseNet(growth=2, blocks=(1,), stem=4), default_path(space), metrics={}, seed=5)
    mine = default_path(space).read_bytes()
    catch_up("06", progress=False)
    assert default_path(space).read_bytes() == mine
    assert capsys.readouterr().out == ("○ catch_up keeps what is yours: checkpoints/densenet_digits.safetensors.\n")


def test_an_edited_configuration_is_kept_and_said_and_an_unedited_one_follows_the_reference(
    space, tmp_path_factory, monkeypatch, capsys
):
    reference = tmp_path_factory.mktemp("reference") / "model_repository"
    shutil.copytree(REFERENCE_REPOSITORY, reference, ignore=shutil.ignore_patterns("__pycache__"))
    for module in (tutorial_lib.paths, catch_up_module):
        monkeypatch.setattr(module, "REFERENCE_REPOSITORY", reference)
    space.seed()  # as notebook 00 does: the manifest does not know of it
    catch_up("06", progress=False)
    config, labels = (space.model_repository / "densenet_onnx" / name for name in ("config.pbtxt", "labels.txt"))
    config.write_text("# mine\n" + config.read_text())
    for name in ("config.pbtxt", "labels.txt"):
        with (reference / "densenet_onnx" / name).open("a") as file:
            file.write("\n")
    catch_up("06", progress=False)
    assert config.read_text().startswith("# mine\n")
    assert labels.read_bytes() == (reference / "densenet_onnx" / "labels.txt").read_bytes()
    assert capsys.readouterr().out == ("○ catch_up keeps what is yours: model_repository/densenet_onnx/config.pbtxt.\n")
    catch_up("06", progress=False, say_kept=False)
    assert capsys.readouterr().out == ""


def test_an_export_of_the_learners_from_another_checkpoint_is_set_aside_and_said(space, capsys):
    catch_up("02", progress=False)
    quick_export(None, export_path(space), checkpoint_sha256="0" * 64)
    mine = export_path(space).read_bytes()
    catch_up("04", progress=False)
    assert "it came from another checkpoint. It is kept in backups/" in capsys.readouterr().out
    (kept,) = (space.root / "backups").rglob("*.onnx")
    assert kept.read_bytes() == mine != export_path(space).read_bytes()


def test_a_cut_checkpoint_of_the_learners_is_set_aside_not_lost(space, capsys):
    save_checkpoint(DenseNet(growth=2, blocks=(1,), stem=4), default_path(space), metrics={}, seed=5)
    half = default_path(space).read_bytes()[:1000]
    default_path(space).write_bytes(half)
    catch_up("02", progress=False)
    assert load_checkpoint(default_path(space)).metadata["seed"] == 0
    kept = sorted((space.root / "backups").rglob("*.*s*"))
    assert [path.suffix for path in kept] == [".json", ".safetensors"]
    assert kept[1].read_bytes() == half
    assert "found 1000 bytes, expected" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": 99, "parts": {}, "reference": {}}',
                                  '{"version": 1, "parts": {"checkpoint": 3}, "reference": {}}'])  # fmt: skip
def test_without_a_readable_manifest_everything_counts_as_the_learners(space, counted, text):
    catch_up("06", progress=False)
    before = default_path(space).read_bytes()
    (space.root / "catch_up.json").write_text(text)
    catch_up("06", progress=False)
    assert default_path(space).read_bytes() == before and counted() == (1, 1)


@pytest.mark.parametrize("place", ["training", "export", "copy 1", "copy 2", "copy 3", "note 1", "note 2"])
def test_an_interrupt_leaves_nothing_half_written_and_the_next_call_goes_on(space, monkeypatch, counted, place):
    where, _, wanted = place.partition(" ")
    calls = {"copy": 0, "note": 0}

    def interrupted(name, real):
        def act(*arguments, **options):
            calls[name] += 1
            if str(calls[name]) == wanted:
                raise KeyboardInterrupt
            return real(*arguments, **options)

        return act

    def at_once(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if where == "training":
            patch.setattr(tutorial_lib.training, "train_digits", at_once)
        elif where == "export":
            patch.setattr(tutorial_lib.export.to_onnx, "export_densenet", at_once)
        elif where == "copy":
            patch.setattr(catch_up_module, "_copy", interrupted("copy", catch_up_module._copy))
        else:
            patch.setattr(manifest.Manifest, "note", interrupted("note", manifest.Manifest.note))
        with pytest.raises(KeyboardInterrupt):
            catch_up("06", progress=False)
    for path in (export_path(space), served_path(space)):
        assert not path.exists() or onnx.load(path)
    assert not list(space.cache.glob("making-*"))
    catch_up("06", progress=False)
    load_checkpoint(default_path(space))
    assert made(space) == [True] * 3
    assert not (space.root / "backups").exists()


def test_killed_while_it_replaced_a_stale_checkpoint(space, counted, monkeypatch):
    """New weights beside old metadata: both are known, so both are made again, and nothing is 'yours'."""
    catch_up("02", progress=False)
    monkeypatch.setattr(parts, "SEED", 7)
    real, calls = catch_up_module._copy, []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(catch_up_module, "_copy", killed)
        with pytest.raises(KeyboardInterrupt):
            catch_up("02", progress=False)
    catch_up("02", progress=False)
    assert load_checkpoint(default_path(space)).metadata["seed"] == 7
    assert counted() == (3, 0) and not (space.root / "backups").exists()


def test_leftovers_of_a_killed_call_are_swept(space):
    (space.cache / "making-dead").mkdir(parents=True)
    catch_up("02", progress=False)
    assert not (space.cache / "making-dead").exists()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, r"its disk is full; .*Nothing was lost.*workshop clean"),
        (errno.EROFS, "cannot be written.*WORKSHOP_WORKSPACE"),
        (errno.EACCES, "cannot be written.*WORKSHOP_WORKSPACE"),
    ],
)
def test_a_disk_that_cannot_be_written_is_said_and_nothing_is_lost(space, monkeypatch, number, said):
    save_checkpoint(DenseNet(growth=2, blocks=(1,), stem=4), default_path(space), metrics={}, seed=5)
    catch_up("04", progress=False)
    before = {path: path.read_bytes() for path in space.root.rglob("*") if path.is_file()}

    def full(*_):
        raise OSError(number, "no")

    with monkeypatch.context() as patch:
        patch.setattr(catch_up_module.shutil, "copyfile", full)
        with pytest.raises(SetupError, match=said):
            catch_up("06", progress=False)
    assert {path: path.read_bytes() for path in before} == before
    catch_up("06", progress=False)
    assert made(space) == [True] * 3


def test_a_disk_that_is_full_already_is_said_before_the_training(space, counted, monkeypatch):
    usage = shutil.disk_usage(space.root)._replace(free=2**20)
    with monkeypatch.context() as patch:
        patch.setattr(catch_up_module.shutil, "disk_usage", lambda _: usage)
        with pytest.raises(SetupError, match=r"found 1\.0 MiB free, expected 5 or more"):
            catch_up("02", progress=False)
    assert counted() == (0, 0)


@pytest.mark.parametrize("name", ["", "notebooks", "model_repository", "tests/unit", ".."])
def test_the_course_itself_is_no_workspace(monkeypatch, name):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(CHECKOUT / name))
    with pytest.raises(SetupError, match="expected a folder of its own"):
        workspace()
