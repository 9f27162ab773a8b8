"""The runner on small notebooks with real kernels: what it reports, and that it leaves nothing running."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import nbformat
import psutil
import pytest

from tests.notebooks.small import write
from tutorial_lib.paths import CHECKOUT, WORKSPACE_VARIABLE
from tutorial_lib.runner import run_notebooks, select

RECORD = "from tutorial_lib.course.record import record, skip, skip_notebook\n"
UNSTOPPABLE = "while True:\n    try:\n        while True: pass\n    except KeyboardInterrupt: print('no')"
READY_S = 240.0


def wait_for(condition, *, what, timeout_s=READY_S):
    """Poll a condition; gives what it returned once true."""
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    while time.monotonic() < deadline:
        if found := condition():
            return found
        pause.wait(0.05)
    pytest.fail(f"{what} did not happen within {timeout_s:.0f} s")


def processes_naming(text):
    """Processes with the text on their command line or in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(text in part for part in (*process.cmdline(), *process.environ().values())):
                found.append(process.pid)
        except psutil.Error:
            continue  # gone, or not ours
    return [pid for pid in found if pid != os.getpid()]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """One run of notebooks that end in every way there is."""
    folder = tmp_path_factory.mktemp("notebooks")
    home = tmp_path_factory.mktemp("workspace")
    write(
        folder,
        "00_passes",
        RECORD + "import os\nrecord('seed', SEED)\nrecord('where', os.environ['WORKSHOP_WORKSPACE'])",
        ("1 / 0", ["raises-exception"]),
        "skip('docker', 'no engine')",
        "open('/dev/stderr', 'w').write('to the log')",
    )
    write(folder, "01_raises", RECORD + "record('before', 1)", "# the culprit\nraise ValueError('bad <b>')", "2")
    write(folder, "02_skips", RECORD + "skip_notebook('needs Docker')", "raise SystemError")
    write(folder, "03_untagged", "SEED", tags=())
    write(folder, "04_dies", "import os", "os._exit(3)")
    write(folder, "05_floods", "while True: print('y' * 1000)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WORKSPACE_VARIABLE, str(home))
        patch.setenv("HOME", "/nowhere/at/all")
        run = run_notebooks(select(folder=folder), seed=7, timeout_s=300, cwd=folder)
    report = json.loads((run.folder / "report.json").read_text())
    return run, {entry["name"][3:]: entry for entry in report["notebooks"]}, report, home


def test_the_report_has_the_run_in_it(outcomes):
    run, _, report, home = outcomes
    assert run.exit_code == 1
    assert report["complete"] is True
    assert (report["mode"], report["seed"]) == ("quick", 7)
    assert report["machine"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert report["versions"]["papermill"]
    assert (home / "runs" / "latest").resolve() == run.folder
    assert run.index.exists()


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("passes", "passed", ""),
        ("raises", "failed", "ValueError: bad <b> in cell 4: # the culprit"),
        ("skips", "skipped", "needs Docker"),
        ("untagged", "failed", "Give cell 2"),
        ("dies", "failed", "kernel died in cell 4: os._exit(3)"),
        ("floods", "failed", "more output than"),
    ],
)
def test_each_ending_is_told_and_its_copy_kept(outcomes, name, status, reason):
    run, entries, _, _ = outcomes
    entry = entries[name]
    assert entry["status"] == status
    assert reason in entry["reason"] if reason else not entry["reason"]
    assert nbformat.read(run.folder / entry["executed"], as_version=4).cells
    assert (run.folder / entry["html"]).stat().st_size > 1000
    assert entry["seconds"] > 0
    assert entry["left"] == []


def test_parameters_records_and_the_scratch_workspace_arrive(outcomes):
    run, entries, _, _ = outcomes
    numbers = entries["passes"]["numbers"]
    assert numbers["seed"]["value"] == 7
    assert numbers["where"]["value"] == str(run.folder / "workspace")
    assert numbers["seed"]["tier"].startswith("no server")
    assert entries["passes"]["skipped_steps"] == [{"step": "docker", "reason": "no engine"}]
    assert entries["raises"]["numbers"]["before"]["value"] == 1
    assert "to the log" in (run.folder / entries["passes"]["log"]).read_text()


def test_the_failing_cell_can_be_found(outcomes):
    run, entries, _, _ = outcomes
    cell = entries["raises"]["cell"]
    assert cell["number"] == 4
    assert cell["source"].startswith("# the culprit")
    assert cell["error"] == "ValueError: bad <b>"
    page = (run.folder / entries["raises"]["html"]).read_text()
    assert f'id="cell-id={cell["id"]}"' in page
    assert f"01_raises.html#cell-id={cell['id']}" in run.index.read_text()


def test_the_copy_of_a_skipped_notebook_shows_the_reason_and_no_error(outcomes):
    run, entries, _, _ = outcomes
    copy = nbformat.read(run.folder / entries["skips"]["executed"], as_version=4)
    outputs = [output for cell in copy.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [output.output_type for output in outputs] == ["stream"]
    assert "needs Docker" in outputs[0].text


def test_a_flood_is_cut_but_shown(outcomes):
    run, entries, _, _ = outcomes
    size = (run.folder / entries["floods"]["executed"]).stat().st_size
    assert 5_000 < size < 2 * 8 * 2**20


def test_no_process_of_the_run_is_left(outcomes):
    run, *_ = outcomes
    assert processes_naming(str(run.folder)) == []


def test_the_deadline_ends_a_notebook_that_refuses_to_end_and_what_it_started(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    start = "import subprocess\nsubprocess.Popen(['sleep', '1234'], start_new_session=True)"
    write(tmp_path, "00_refuses", start, UNSTOPPABLE)
    write(tmp_path, "01_next", "1")
    run = run_notebooks(select(folder=tmp_path), timeout_s=30, cwd=tmp_path)
    refused, following = run.report.notebooks
    assert refused.reason == "deadline of 30 s passed in cell 4: while True:"
    assert following.status == "passed"
    assert refused.left == ("sleep 1234",)
    assert processes_naming(str(run.folder)) == []


@pytest.fixture
def checkout(tmp_path):
    """A checkout of its own, with small notebooks, to run the command line in."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "tutorial_lib", tmp_path / "tutorial_lib", ignore=ignore)
    (tmp_path / "model_repository").mkdir()
    marker = f"open({str(tmp_path / 'busy')!r}, 'w').close()\n"
    write(tmp_path / "notebooks", "00_stays", marker + "import time\ntime.sleep(1000)")
    write(tmp_path / "notebooks", "01_never", "1")
    return tmp_path


def start_run(checkout):
    environment = {name: value for name, value in os.environ.items() if name != WORKSPACE_VARIABLE}
    process = subprocess.Popen(
        [sys.executable, "-m", "tutorial_lib", "run"],
        cwd=checkout,
        env=environment | {"PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_for((checkout / "busy").exists, what="the first notebook's sleep")
    return process


@pytest.mark.parametrize("how", ["process", "group twice", "terminate"])
def test_an_interrupt_keeps_a_partial_report_and_exits_130(checkout, how):
    process = start_run(checkout)
    if how == "process":
        process.send_signal(signal.SIGINT)
    elif how == "terminate":
        process.terminate()
    else:
        os.killpg(process.pid, signal.SIGINT)
        wait_for(lambda: not processes_naming("ipykernel_launcher") or True, what="a moment")
        os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output
    report = json.loads((checkout / "workspace/runs/latest/report.json").read_text())
    assert report["complete"] is False
    stays, never = report["notebooks"]
    assert stays["reason"].startswith("interrupted in cell 3: open(")
    assert (never["status"], never["reason"]) == ("skipped", "not run: interrupted")
    assert "Traceback" not in output and "partial" in output
    copy = nbformat.read(checkout / "workspace/runs/latest/00_stays.ipynb", as_version=4)
    assert any(output.ename == "KeyboardInterrupt" for cell in copy.cells for output in cell.get("outputs", []))
    assert processes_naming(str(checkout)) == []


def test_a_killed_run_takes_its_children_along(checkout):
    process = start_run(checkout)
    process.kill()
    process.communicate()
    wait_for(lambda: not processes_naming(str(checkout)), what="the end of child and kernel", timeout_s=120)
    report = json.loads((checkout / "workspace/runs/latest/report.json").read_text())
    assert report["complete"] is False
    assert {entry["status"] for entry in report["notebooks"]} == {"skipped"}


def test_a_killed_child_is_a_failed_notebook_and_the_run_goes_on(checkout):
    process = start_run(checkout)
    (child,) = psutil.Process(process.pid).children()
    child.kill()
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    stays, never = json.loads((checkout / "workspace/runs/latest/report.json").read_text())["notebooks"]
    assert "signal 9 (SIGKILL) in cell 3" in stays["reason"]
    assert never["status"] == "passed", output
    assert processes_naming(str(checkout)) == []
