"""Break-it labs on a real Triton: what it says, which repairs it takes, and what is left behind."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import psutil
import pytest
from onnx import TensorProto, helper

from tests.server.conftest import save_onnx
from tutorial_lib.course import break_it as module
from tutorial_lib.course import checks, checks_break_it, scratch
from tutorial_lib.course.break_it import break_it, fixed
from tutorial_lib.course.catch_up import export_path
from tutorial_lib.course.fault import AGAIN, Fault
from tutorial_lib.course.faults import FAULTS
from tutorial_lib.course.progress import exercise_state
from tutorial_lib.errors import ExerciseError, NotebookError, ServerError, SetupError
from tutorial_lib.models.names import IMAGE_SHAPE, INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from tutorial_lib.paths import WORKSPACE_VARIABLE, workspace
from tutorial_lib.server import servers

PIXELS = int(np.prod(IMAGE_SHAPE))


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    """A workspace as notebook 04 finds it, with a small model in place of the trained one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WORKSPACE_VARIABLE, str(tmp_path_factory.mktemp("break_it")))
        space = workspace()
        patch.setattr(scratch, "catch_up", lambda step, **_: space)
        save_onnx(
            export_path(space),
            [helper.make_node("Flatten", [INPUT_NAME], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["fc6_1"])],
            [(INPUT_NAME, TensorProto.FLOAT, ["batch", *IMAGE_SHAPE])],
            [(OUTPUT_NAME, TensorProto.FLOAT, ["batch", 10])],
            {"w": np.random.default_rng(0).standard_normal((PIXELS, 10), dtype=np.float32)},
        )
        space.seed()
        (space.model_repository / MODEL_NAME / "config.pbtxt").write_text("# mine, half finished")
        yield space
        if module._latest:
            module._latest.stop()
            module._latest = None
        for server in servers():
            if any(path.is_relative_to(space.root) for path in server.repositories):
                server.stop()


@pytest.fixture(autouse=True)
def learners_repository(space):
    """No lab touches the learner's own repository."""
    before = scratch.contents(space.model_repository)
    yield
    assert scratch.contents(space.model_repository) == before


@pytest.fixture
def plant(monkeypatch):
    """Make `break_it` know one more fault, for one test."""

    def plant(inject=lambda model: None, **more):
        fault = Fault(
            name="planted",
            notebook="04",
            story="A test planted it.",
            symptom="",
            look=("config.pbtxt",),
            inject=inject,
            hints=("first", "second"),
            proves="it is mended",
            repair="",
            wrong=(),
            **more,
        )
        monkeypatch.setitem(FAULTS, fault.name, fault)
        monkeypatch.setattr(checks, "_exercises", dict(checks._exercises))
        monkeypatch.setitem(checks_break_it.REPAIRED, fault.name, checks_break_it._check(fault))
        return fault

    return plant


def run(code, lab, space):
    exec(code, {"lab": lab, "shutil": shutil, "space": space})


def mend(lab):
    run(f"{AGAIN}\n{lab.fault.repair}", lab, workspace())


@pytest.mark.parametrize("name", FAULTS)
def test_symptom_wrong_repairs_and_the_reference_repair(name, space, capsys):
    lab = break_it(name)
    shown = capsys.readouterr().out
    assert lab.fault.symptom in shown
    assert lab.fault.story in shown and "Task: " in shown
    assert all(str(lab.model / place).rstrip("/") in shown for place in lab.fault.look)
    assert lab.model.is_relative_to(space.root / scratch.FOLDER)
    fixed()
    told = capsys.readouterr().out
    assert "Not attempted" in told and str(lab.model / lab.fault.look[0]) in told and "run only this cell" in told
    assert exercise_state(lab.fault.exercise) == "not attempted"
    for number, repair in enumerate(lab.fault.wrong, 1):
        lab.again()
        run(repair.code, lab, space)
        with pytest.raises(ExerciseError) as refused:
            fixed()
        assert repair.says in str(refused.value)
        assert lab.fault.hints[min(number, len(lab.fault.hints)) - 1] in str(refused.value)
    mend(lab)
    fixed(lab)
    assert capsys.readouterr().out.startswith(f"✓ Right: lab {name}: ")
    assert exercise_state(lab.fault.exercise) == "right"
    assert len([one for one in servers() if lab.repository in one.repositories]) == 1, "labs share one server"


def test_a_model_that_still_runs_does_not_answer_for_a_broken_one(space):
    lab = break_it("wrong_dtype")
    mend(lab)
    fixed()
    assert lab.server.ready(MODEL_NAME)
    lab.config_path.write_text(lab.config_path.read_text().replace("TYPE_FP32", "TYPE_INT8", 1))
    with pytest.raises(ExerciseError, match="TYPE_INT8"):
        fixed()
    assert not lab.server.ready(MODEL_NAME)


def test_a_lab_of_several_models_leaves_none_of_them_behind(space, capsys):
    lab = break_it("swapped_map")
    mend(lab)
    fixed()
    assert sorted(path.name for path in lab.repository.iterdir()) == ["densenet_onnx", "digit_pipeline", "enlarge"]
    after = break_it("scalar_output")
    assert after.server is lab.server
    assert [path.name for path in after.repository.iterdir()] == ["brightness"]
    assert not [entry for entry in after.server.control.index() if entry.get("state") == "READY"]
    mend(after)
    fixed()
    assert capsys.readouterr().out.count("✓ Right") == 2


def test_another_step_than_the_broken_one_may_be_edited_and_counts_as_an_attempt(space):
    lab = break_it("swapped_map")
    (lab.repository / "enlarge" / "config.pbtxt").write_text('backend: "python"')
    with pytest.raises(ExerciseError, match=r"digit_pipeline"):
        fixed()


def test_the_labs_can_be_ended(space):
    lab = break_it("missing_comma")
    server = lab.server
    module.end_labs()
    assert not server.running
    with pytest.raises(NotebookError, match="no lab is open"):
        fixed()
    module.end_labs()  # nothing is left to end


def test_what_an_editor_leaves_is_no_attempt_and_does_no_harm(space, capsys):
    lab = break_it("misspelt_output")
    (lab.model / ".ipynb_checkpoints").mkdir()
    (lab.model / ".ipynb_checkpoints" / "config-checkpoint.pbtxt").write_text(lab.config_path.read_text())
    lab.config_path.write_text(lab.config_path.read_text())
    fixed()
    assert "Not attempted" in capsys.readouterr().out
    lab.config_path.write_text(lab.config_path.read_text().replace("fc6_l", "fc6_1"))  # by hand, without a cell
    fixed()
    assert "✓ Right" in capsys.readouterr().out


def test_a_deleted_model_is_not_repaired(space):
    lab = break_it("missing_version_folder")
    shutil.rmtree(lab.model)
    with pytest.raises(ExerciseError, match=r"lab\.again\(\) brings the broken files back"):
        fixed()
    lab.again()
    assert not lab.touched


def test_twice_in_a_row_begins_afresh(space, capsys):
    first = break_it("missing_version_folder")
    mend(first)
    second = break_it("missing_version_folder")
    assert first.server is second.server
    assert (second.model / "model.onnx").is_file() and not (second.model / "1").exists()
    with pytest.raises(NotebookError, match=r"followed by another.*break_it\(\"missing_version_folder\"\)"):
        fixed(first)
    capsys.readouterr()
    fixed()
    assert "Not attempted" in capsys.readouterr().out


@pytest.mark.parametrize(("said", "meant"), [("batch_in_dim", "batch_in_dims"), ("Wrong_DType", "wrong_dtype")])
def test_an_unknown_lab_suggests_the_nearest(said, meant):
    with pytest.raises(NotebookError, match=rf"no lab '{said}'.*Did you mean break_it\(\"{meant}\"\)"):
        break_it(said)


def test_fixed_wants_a_lab(space):
    break_it("missing_version_folder")
    with pytest.raises(NotebookError, match="found 'missing_version_folder', expected what break_it"):
        fixed("missing_version_folder")


def test_an_unknown_lab_far_from_all_lists_them():
    with pytest.raises(NotebookError, match="there are: batch_in_dims, .*Give one of these"):
        break_it("xyzzy")


@pytest.mark.parametrize(
    ("error", "raised"),
    [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(errno.ENOSPC, "No space left"), SetupError)],
)
def test_an_interrupted_injection_leaves_nothing_half_written(space, plant, error, raised):
    lab = break_it("missing_version_folder")
    before = scratch.contents(lab.model)

    def inject(model):
        (model / "config.pbtxt").write_text("half")
        raise error

    plant(inject)
    with pytest.raises(raised):
        break_it("planted")
    assert scratch.contents(lab.model) == before
    assert [path.name for path in lab.repository.iterdir()] == [MODEL_NAME]
    assert not list(lab.repository.parent.glob("*.new-*"))
    with pytest.raises(NotebookError, match="no lab is open"):
        fixed()


def test_a_killed_server_is_an_error_that_says_what_to_do(space, capsys):
    lab = break_it("missing_version_folder")
    lost = lab.server
    os.kill(lost.process.pid, signal.SIGKILL)
    mend(lab)
    with pytest.raises(
        ServerError,
        match=r"'missing_version_folder': its server has ended.*break_it\(\"missing_version_folder\"\) again",
    ):
        fixed()
    deadline = time.monotonic() + 20
    while lost.running and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    lab = break_it("missing_version_folder")
    assert lab.server is not lost
    mend(lab)
    fixed()
    assert "✓ Right" in capsys.readouterr().out


def test_a_fault_in_the_start_is_mended_in_the_start(space, plant, capsys):
    plant(start={"extra_arguments": ("--log-verbosity=1",)})
    lab = break_it("planted")
    assert lab.server is None
    assert "unrecognized option '--log-verbosity=1'" in capsys.readouterr().out
    fixed()
    assert "Not attempted" in capsys.readouterr().out
    lab.start["extra_argument"] = ()
    with pytest.raises(ExerciseError, match="extra_argument"):
        fixed()
    lab.again()
    lab.start["extra_arguments"] = ()
    fixed()
    assert "✓ Right" in capsys.readouterr().out
    faulty = lab.server
    break_it("missing_version_folder")
    assert not faulty.running, "a server that a lab started in its own way is not left behind"


def test_a_fault_in_a_start_that_loads_everything(space, plant, capsys):
    plant(start={"model_control_mode": "none", "extra_arguments": ("--log-verbosity=1",)})
    lab = break_it("planted")
    assert "unrecognized option '--log-verbosity=1'" in capsys.readouterr().out
    lab.start["extra_arguments"] = ()
    fixed()
    assert "✓ Right" in capsys.readouterr().out


def test_a_fault_that_does_not_show_here_is_skipped(space, plant, capsys):
    fault = plant()
    break_it("planted")
    fixed()
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("○ Skipped: lab planted") and second.startswith("○ Skipped")
    assert exercise_state(fault.exercise) == "not attempted"


def test_a_second_kernel_has_its_own_copy_and_takes_it_along(space):
    here = break_it("missing_version_folder")
    left = space.root / scratch.FOLDER / "2" / "left"  # by a kernel that was killed
    left.mkdir(parents=True)
    code = """
        from tutorial_lib.course import scratch
        from tutorial_lib.paths import workspace
        scratch.catch_up = lambda step, **_: workspace()
        from tutorial_lib.course.break_it import break_it
        lab = break_it("missing_version_folder")
        print("\\n", lab.model, lab.server.process.pid, sep="\\n")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, check=True
    )
    *_, model, pid = done.stdout.splitlines()
    assert model == str(space.root / scratch.FOLDER / "2" / MODEL_NAME)
    assert not left.parent.exists()
    assert not psutil.pid_exists(int(pid))
    assert here.model.is_dir() and here.server.running
