"""The doctor: each verdict on a machine made to have the fault, and the report that shows them."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import socket
import time

import psutil
import pytest
from jupyter_client import kernelspec

from tutorial_lib import preflight
from tutorial_lib.doctor import CheckResult, Report, Status, accelerators, check, doctor, interpreter, machine, packages
from tutorial_lib.doctor.checks import CHECKS
from tutorial_lib.versions import RELEASES, target


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Put commands of our own on PATH: `commands("docker", "exit 1")`; there are no others."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(accelerators, "WSL_SMI", tmp_path / "none")

    def add(name: str, body: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)

    return add


def smi(driver: str, name: str = "NVIDIA H200") -> str:
    return f'echo "{name}, {driver}"; echo "{name}, {driver}"'


def engine(**info: object) -> str:
    return f"/bin/cat <<'END'\n{json.dumps({'ServerVersion': '27.1', 'Runtimes': {'runc': {}}} | info)}\nEND"


def test_this_machine_can_run_the_course():
    start = time.monotonic()
    report = doctor()
    assert report.ok, repr(report)
    assert len(report.results) == len(CHECKS)
    assert len({result.name for result in report.results}) == len(CHECKS)
    assert time.monotonic() - start < 60
    found = {result.name: result.found for result in report.results}
    assert importlib.metadata.version("numpy") in found["numpy"]


def test_everything_that_warns_or_fails_says_what_to_do():
    assert all(result.fix for result in doctor().results if result.status != Status.OK)


def test_a_check_that_breaks_is_a_warning():
    @check.check("thing")
    def broken():
        raise ValueError("no such thing")

    assert broken() == CheckResult("thing", Status.WARN, "could not be checked (ValueError: no such thing)")


def test_a_command_that_hangs_is_left(commands, monkeypatch):
    monkeypatch.setattr(check, "COMMAND_TIMEOUT_S", 0.2)
    commands("docker", "exec /bin/sleep 30")
    start = time.monotonic()
    result = accelerators.docker()
    assert time.monotonic() - start < 5
    assert result.status == Status.WARN
    assert "did not answer within" in result.found


REPORT = Report(
    [
        CheckResult("numpy", Status.OK, "1.26.4"),
        CheckResult("ports", Status.WARN, "8000 is taken by <nginx>", "Nothing."),
        CheckResult("disk", Status.FAIL, "full", "Free some."),
    ]
)


def test_report_in_a_terminal(capsys):
    REPORT.print()
    out = capsys.readouterr().out
    assert "FAIL" in out
    assert "→ Free some." in out
    assert "3 checks: 1 failed, 1 warnings." in out


def test_report_in_a_notebook():
    html = REPORT._repr_html_()
    assert html.count("<tr>") == 4
    assert "&lt;nginx&gt;" in html
    assert "<nginx>" not in html


def test_report_as_data():
    frame = REPORT.frame()
    assert list(frame.columns) == ["name", "status", "found", "fix"]
    assert list(frame["status"]) == ["OK", "WARN", "FAIL"]
    assert [result.name for result in REPORT.failed] == ["disk"]
    assert not REPORT.ok
    assert Report(REPORT.results[:2]).ok
    assert "FAIL  disk: full → Free some." in repr(REPORT)


HERE = preflight.facts()


@pytest.mark.parametrize(
    ("change", "subject", "words"),
    [
        ({"system": "Darwin"}, interpreter.system, "container tier"),
        ({"glibc": "2.31"}, interpreter.system, "found glibc 2.31"),
        ({"glibc": None}, interpreter.system, "container tier"),
        ({"version": [3, 13, 0]}, interpreter.python, "3.11 or 3.12"),
        ({"libpython": None}, interpreter.shared_library, "libpython3."),
        ({"libpython_version": None}, interpreter.shared_library, "libpython3."),
        ({"libpython_version": "3.11.99"}, interpreter.shared_library, "one source"),
    ],
)
def test_a_machine_or_python_that_does_not_suit(monkeypatch, change, subject, words):
    monkeypatch.setattr(preflight, "facts", lambda: {**HERE, **change})
    result = subject()
    assert result.status == Status.FAIL
    assert words in result.fix


def test_numpy_2_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.1.0")
    result = packages.numpy()
    assert result.status == Status.FAIL
    assert "2.1.0" in result.found
    assert "silently empty" in result.found


@pytest.mark.parametrize(
    ("installed", "status", "words"),
    [
        ({"torch": "2.13.0+cpu", "onnx": "1.23.2"}, Status.OK, "all 2"),
        ({"torch": "2.6.0a0+ecf3.nv25.1", "onnx": "1.23.2"}, Status.OK, "all 2"),
        ({"torch": "2.12.0", "onnx": "1.23.2"}, Status.WARN, "torch 2.12.0 instead of 2.13.0"),
        ({"torch": "2.13.0"}, Status.FAIL, "1 missing: onnx 1.23.2"),
    ],
)
def test_packages_against_their_pins(installed, status, words):
    verdict = packages.compare({"torch": "2.13.0", "onnx": "1.23.2"}, installed)
    assert verdict[0] == status
    assert words in verdict[1]


def test_a_missing_server(monkeypatch):
    monkeypatch.setenv("WORKSHOP_TRITONSERVER", "/none/tritonserver")
    result = packages.tritonserver()
    assert result.status == Status.FAIL
    assert "/none/tritonserver" in result.found
    assert result.fix


@pytest.mark.parametrize(("program", "status"), [("python", Status.OK), ("/other/bin/python", Status.WARN)])
def test_the_kernel_starts_this_environment(monkeypatch, tmp_path, program, status):
    (tmp_path / "python3").mkdir()
    spec = {"argv": [program, "-m", "ipykernel_launcher"], "display_name": "P", "language": "python"}
    (tmp_path / "python3" / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setattr(kernelspec.KernelSpecManager, "_kernel_dirs_default", lambda self: [str(tmp_path)])
    assert interpreter.kernel().status == status


def test_a_kernel_that_is_not_registered(monkeypatch):
    def refuse(self, name):
        raise kernelspec.NoSuchKernel(name)

    monkeypatch.setattr(kernelspec.KernelSpecManager, "get_kernel_spec", refuse)
    result = interpreter.kernel()
    assert result.status == Status.FAIL
    assert "ipykernel install --sys-prefix" in result.fix


def test_a_taken_port_is_named_with_its_owner(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(machine, "TRITON_PORTS", {port: "HTTP"})
        monkeypatch.setattr(machine, "JUPYTER_PORT", port)
        for result in (machine.triton_ports(), machine.jupyter_port()):
            assert result.status == Status.WARN
            assert f"{port} (" in result.found
            assert f"{psutil.Process().name()} (pid {psutil.Process().pid})" in result.found
    assert machine.triton_ports().status == Status.OK


@pytest.mark.parametrize(("mib", "status"), [(64, Status.WARN), (1024, Status.OK)])
def test_shared_memory_of_a_container(monkeypatch, mib, status):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(mib * 2**20, 0, mib * 2**20))
    result = machine.shared_memory()
    assert result.status == status
    assert ("--shm-size" in result.fix) is (status == Status.WARN)


@pytest.mark.parametrize(("gib", "status"), [(0.1, Status.FAIL), (1, Status.WARN), (50, Status.OK)])
def test_the_disk_of_the_workspace(monkeypatch, tmp_path, gib, status):
    monkeypatch.setenv("WORKSHOP_WORKSPACE", str(tmp_path / "not" / "made"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2**40, 0, int(gib * 2**30)))
    result = machine.disk()
    assert result.status == status
    assert str(tmp_path) in result.found


def test_one_processor_and_little_memory(monkeypatch):
    monkeypatch.setattr(machine, "cpu_count", lambda: 1)
    assert machine.processors().status == Status.WARN
    monkeypatch.setattr(machine, "_cgroup_limit", lambda: 2**30)
    assert machine.memory().status == Status.WARN


def test_without_gpu_and_docker_all_is_well(commands):
    assert accelerators.gpu().status == Status.OK
    assert accelerators.docker().status == Status.OK


@pytest.mark.parametrize(("shift", "status"), [(-1, Status.WARN), (0, Status.OK), (20, Status.OK)])
def test_the_driver_is_compared_with_the_target(commands, shift, status):
    driver = f"{target().min_driver + shift}.35.05"
    commands("nvidia-smi", smi(driver))
    result = accelerators.gpu()
    assert result.status == status
    assert result.found == f"2 × NVIDIA H200, driver {driver}"
    assert (str(target().min_driver) in result.fix) is (status == Status.WARN)


def test_another_target_wants_another_driver(commands, monkeypatch):
    tag = max(RELEASES, key=lambda tag: RELEASES[tag].min_driver)
    monkeypatch.setenv("WORKSHOP_TARGET", tag)
    commands("nvidia-smi", smi(f"{RELEASES[tag].min_driver - 1}.10"))
    assert f"The {tag} image" in accelerators.gpu().fix


def test_a_driver_that_fails(commands):
    commands("nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    result = accelerators.gpu()
    assert result.status == Status.WARN
    assert "Driver/library version mismatch" in result.found


def test_docker_without_engine(commands):
    commands("docker", engine(ServerVersion="", ServerErrors=["Cannot connect to the Docker daemon at unix:///x"]))
    result = accelerators.docker()
    assert result.status == Status.WARN
    assert "Cannot connect to the Docker daemon" in result.found


def test_docker_with_and_without_nvidia(commands):
    commands("docker", engine())
    assert accelerators.docker().found == "engine 27.1, NVIDIA runtime absent"
    assert accelerators.docker().status == Status.OK
    commands("nvidia-smi", smi("570.1"))
    assert accelerators.docker().status == Status.WARN
    commands("docker", engine(Runtimes={"nvidia": {}}))
    assert accelerators.docker().status == Status.OK
