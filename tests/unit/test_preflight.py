"""The preflight: verdicts from facts, and facts compared with what this interpreter says of itself."""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tutorial_lib import preflight

GOOD = {
    "executable": "/usr/bin/python3.11",
    "implementation": "CPython",
    "version": [3, 11, 7],
    "release": "3.11.7",
    "bits": 64,
    "system": "Linux",
    "machine": "x86_64",
    "glibc": "2.36",
    "libpython": "/usr/lib/libpython3.11.so.1.0",
    "libpython_version": "3.11.7",
    "venv": True,
    "torch": None,
}
SOURCE = Path(preflight.__file__)


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_the_syntax_is_that_of_python_3_6_and_the_imports_are_standard():
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 6))
    modules = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    modules |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "__future__" not in modules  # `annotations` came with 3.7
    assert modules <= set(sys.stdlib_module_names)


def test_the_install_needs_only_the_standard_library_and_itself():
    for path in sorted((SOURCE.parent / "environment").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                own = name == "tutorial_lib" or name.startswith("tutorial_lib.environment.")
                assert own or name.split(".")[0] in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_facts_agree_with_the_interpreter():
    found, reason = preflight.examine(sys.executable)
    assert reason == ""
    assert found["version"] == list(sys.version_info[:3])
    assert found["machine"] == os.uname().machine
    assert found["glibc"] == platform.libc_ver()[1]
    assert found["libpython_version"] == platform.python_version()
    assert preflight.system_problem(found) is None
    assert preflight.python_problem(found) is None


def test_the_shared_library_is_the_one_this_process_has_loaded():
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libpython3." in line}
    if not mapped:
        pytest.skip("this Python is linked statically: nothing to compare with")
    assert os.path.realpath(preflight.libpython()) in mapped


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"system": "Darwin"}, ["found macOS", "expected Linux", "docker run", "./workshop run"]),
        ({"system": "Windows"}, ["found Windows", "WSL2"]),
        ({"machine": "armv7l"}, ["found armv7l", "x86_64 or aarch64"]),
        ({"glibc": None}, ["musl", "glibc 2.35", "docker run"]),
        ({"glibc": "2.31"}, ["found glibc 2.31", "2.35", "docker run"]),
        ({"glibc": "2.4"}, ["found glibc 2.4"]),  # as text it would be above 2.35
    ],
)
def test_a_system_that_cannot_run_triton(change, words):
    problem = preflight.system_problem({**GOOD, **change})
    assert all(word in problem for word in words), problem


@pytest.mark.parametrize("change", [{}, {"machine": "aarch64"}, {"glibc": "2.35"}, {"glibc": "2.100"}])
def test_a_system_that_can(change):
    assert preflight.system_problem({**GOOD, **change}) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": [3, 10, 13], "release": "3.10.13"}, "3.11 or 3.12"),
        ({"version": [3, 13, 0], "release": "3.13.0"}, "3.11 or 3.12"),
        ({"implementation": "PyPy"}, "PyPy"),
        ({"bits": 32}, "32-bit"),
        ({"libpython": None, "libpython_version": None}, "libpython3.11.so.1.0 is missing"),
        ({"libpython_version": None}, "does not load"),
        ({"libpython_version": "3.11.2"}, "3.11.7 but its shared library /usr/lib/libpython3.11.so.1.0 is 3.11.2"),
        ({"venv": False}, "ensurepip"),
    ],
)
def test_a_python_that_does_not_suit(change, words):
    assert words in preflight.python_problem({**GOOD, **change})


def test_a_python_that_suits():
    assert preflight.python_problem(GOOD) is None
    assert (
        preflight.python_problem({**GOOD, "version": [3, 12, 1], "release": "3.12.1", "libpython_version": "3.12.1"})
        is None
    )


def test_what_cannot_be_asked(tmp_path):
    shim = script(tmp_path / "shim", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    slow = script(tmp_path / "slow", "exec sleep 60")
    mute = script(tmp_path / "mute", "exit 0")
    assert preflight.examine(str(shim))[1] == "does not run (pyenv: python3.12: command not found)"
    assert "did not answer" in preflight.examine(str(slow), timeout_s=0.3)[1]
    assert preflight.examine(str(mute)) == (None, "does not run")
    assert "does not run" in preflight.examine(str(tmp_path / "none"))[1]


def test_the_first_that_suits_is_chosen_and_broken_ones_are_told(tmp_path):
    shim = script(tmp_path / "python3.12", "exit 127")
    found, refused = preflight.choose([str(shim), sys.executable, "/never/asked"])
    assert found["version"] == list(sys.version_info[:3])
    assert refused == [(str(shim), "does not run")]
    assert Path(found["executable"]).resolve() == Path(sys.executable).resolve()


def fake_path(tmp_path, monkeypatch, *names):
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "NVIDIA_PYTORCH_VERSION", "PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv(preflight.PYTHON_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in names:
        script(tmp_path / "bin" / name, f"echo {name}")


def test_candidates_by_version_then_name(tmp_path, monkeypatch):
    fake_path(tmp_path, monkeypatch, "python", "python3", "python3.12", "python3.11")
    script(tmp_path / "home" / ".pyenv" / "versions" / "3.12.1" / "bin" / "python3.12", "")
    names = [Path(path).name for path in preflight.candidates(str(tmp_path / "checkout")) if str(tmp_path) in path]
    assert names == ["python3.11", "python3.12", "python3", "python", "python3.12"]


def test_candidates_start_with_the_active_environment_but_not_our_own(tmp_path, monkeypatch):
    fake_path(tmp_path, monkeypatch, "python3")
    conda = script(tmp_path / "conda" / "bin" / "python", "")
    script(tmp_path / "checkout" / ".venv" / "bin" / "python", "")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "checkout" / ".venv"))
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    paths = preflight.candidates(str(tmp_path / "checkout"))
    assert paths[0] == str(conda)
    assert not any(".venv" in path for path in paths)


def test_candidates_in_an_ngc_image_start_with_its_own(tmp_path, monkeypatch):
    fake_path(tmp_path, monkeypatch, "python3.11", "python")
    monkeypatch.setenv("NVIDIA_PYTORCH_VERSION", "25.01")
    assert Path(preflight.candidates(str(tmp_path))[0]).name == "python"


def test_a_named_python_is_the_only_candidate(tmp_path, monkeypatch):
    fake_path(tmp_path, monkeypatch, "python3.11")
    monkeypatch.setenv(preflight.PYTHON_VARIABLE, "/some/python")
    assert preflight.candidates(str(tmp_path)) == ["/some/python"]
    assert preflight.PYTHON_VARIABLE in preflight.refusal([("/some/python", "does not run")])


@pytest.mark.parametrize(
    ("torch", "variable", "answer"),
    [
        ("2.6.0a0+ecf3bae40a.nv25.1", None, True),
        ("2.6.0a0+ecf3bae40a", "25.01", True),
        ("2.13.0+cpu", None, False),
        (None, "25.01", False),
    ],
)
def test_inside_ngc(monkeypatch, torch, variable, answer):
    monkeypatch.delenv("NVIDIA_PYTORCH_VERSION", raising=False)
    if variable:
        monkeypatch.setenv("NVIDIA_PYTORCH_VERSION", variable)
    assert preflight.inside_ngc({**GOOD, "torch": torch}) is answer


@pytest.mark.parametrize(
    ("release", "refused", "words"),
    [
        ({"ID": "debian", "VERSION_ID": "12"}, [], "apt install python3.11-venv libpython3.11"),
        ({"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "24.04"}, [], "apt install python3.12-venv libpython3.12"),
        ({"ID": "mint", "ID_LIKE": "ubuntu debian"}, [("p", "its libpython3.12.so.1.0 is missing")], "libpython3.12"),
        ({"ID": "fedora", "VERSION_ID": "42"}, [], "dnf install python3.12"),
        ({}, [], "uv python install 3.11"),
    ],
)
def test_advice_by_system(monkeypatch, release, refused, words):
    monkeypatch.setattr(preflight, "os_release", lambda: release)
    text = preflight.advice(refused)
    assert words in text
    assert "conda create" in text


def test_os_release_is_read(tmp_path):
    (tmp_path / "os-release").write_text("ID=ubuntu\nVERSION_ID=\"24.04\"\n# note\nNAME='U'\n")
    assert preflight.os_release(str(tmp_path / "os-release")) == {"ID": "ubuntu", "VERSION_ID": "24.04", "NAME": "U"}
    assert preflight.os_release(str(tmp_path / "none")) == {}


def test_macos_is_told_before_any_python_is_looked_for(monkeypatch, capsys):
    monkeypatch.setattr(preflight, "facts", lambda: {**GOOD, "system": "Darwin", "glibc": None})
    monkeypatch.setattr(preflight, "choose", lambda paths: pytest.fail("looked for a Python"))
    assert preflight.main(["find"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "macOS" in captured.err


def test_as_a_program():
    environment = {**os.environ, preflight.PYTHON_VARIABLE: sys.executable}
    done = subprocess.run([sys.executable, SOURCE, "find"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).resolve() == Path(sys.executable).resolve()
    done = subprocess.run([sys.executable, SOURCE, "facts"], capture_output=True, text=True)
    assert json.loads(done.stdout)["release"] == platform.python_version()
