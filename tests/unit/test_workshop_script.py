"""The `workshop` script, run in small checkouts whose Python and install are stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tutorial_lib.paths import CHECKOUT

SCRIPT = CHECKOUT / "workshop"


class Checkout:
    """A checkout with the real script; everything it calls writes down that it was called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "tutorial_lib" / "environment").mkdir(parents=True)
        shutil.copy2(SCRIPT, root / "workshop")
        (root / "requirements.lock").write_text("numpy==1.26.4\n")
        (root / "requirements-cuda.lock").write_text("triton==3.7.1\n")
        self.program = root / "bin" / "python3"  # stands for every Python on PATH
        self.write(
            self.program,
            'case "$2" in\n'
            "-c) exit 0 ;;\n"
            f'*preflight.py) echo preflight >>"{root}/calls"; echo "{self.program}"; exit ${{PREFLIGHT-0}} ;;\n'
            f'*install.py) echo install >>"{root}/calls"; [ "${{INSTALL-0}}" = 0 ] || exit $INSTALL\n'
            f'  mkdir -p "{root}/.venv/bin"; echo "$4" >"{root}/.venv/workshop-stamp"\n'
            f'  cp "{root}/inner" "{root}/.venv/bin/python" ;;\n'
            "esac",
        )
        inner = 'echo "$@"; echo "path=$PATH"; echo "pythonpath=${PYTHONPATH-unset}"; exit ${INNER-0}'
        self.write(root / "inner", inner)

    def write(self, path: Path, body: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, *arguments: str, script: Path | None = None, **settings: str) -> subprocess.CompletedProcess:
        environment = {"PATH": f"{self.root / 'bin'}:/usr/bin:/bin", "HOME": str(self.root)}
        command = [str(script or self.root / "workshop"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment | settings, cwd="/", timeout=120)

    @property
    def calls(self) -> list[str]:
        path = self.root / "calls"
        calls = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return calls


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "a course")


def test_the_first_call_installs_and_later_ones_go_straight_on(checkout):
    first = checkout.run("run", "04", "a b")
    assert first.returncode == 0, first.stderr
    assert checkout.calls == ["preflight", "install"]
    assert first.stdout.splitlines()[0] == "-P -m tutorial_lib run 04 a b"
    second = checkout.run("run")
    assert second.stdout.splitlines()[0] == "-P -m tutorial_lib run"
    assert checkout.calls == []


def test_the_environment_comes_first_and_a_foreign_pythonpath_is_dropped(checkout):
    lines = checkout.run("doctor", PYTHONPATH="/opt/ros/lib").stdout.splitlines()
    assert lines[1].startswith(f"path={checkout.root}/.venv/bin:")
    assert lines[2] == "pythonpath=unset"


def test_a_changed_lock_is_stale(checkout):
    checkout.run("doctor")
    assert checkout.calls
    (checkout.root / "requirements-cuda.lock").write_text("triton==3.8.0\n")
    checkout.run("doctor")
    assert checkout.calls == ["preflight", "install"]


def test_a_moved_checkout_is_stale(checkout, tmp_path):
    checkout.run("doctor")
    assert checkout.calls
    checkout.root.rename(tmp_path / "moved")
    moved = subprocess.run(
        [str(tmp_path / "moved" / "workshop")],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "WORKSHOP_PYTHON": "/none"},
    )
    assert moved.returncode != 0  # it goes to look for a Python instead of running what was made elsewhere
    assert "tutorial_lib" not in moved.stdout


def test_an_environment_without_python_is_stale(checkout):
    checkout.run("doctor")
    assert checkout.calls
    (checkout.root / ".venv" / "bin" / "python").unlink()
    checkout.run("doctor")
    assert checkout.calls == ["preflight", "install"]


def test_a_named_python_is_looked_at_every_time(checkout):
    checkout.run("doctor")
    assert checkout.calls
    checkout.run("doctor", WORKSHOP_PYTHON=str(checkout.program))
    assert checkout.calls == ["preflight", "install"]


def test_it_works_through_links(checkout, tmp_path):
    (tmp_path / "absolute").symlink_to(checkout.root / "workshop")
    (tmp_path / "relative").symlink_to(Path("absolute"))
    for name in ("absolute", "relative"):
        assert checkout.run("--help", script=tmp_path / name).stdout.startswith("-P -m tutorial_lib --help")


@pytest.mark.parametrize(("variable", "code"), [("PREFLIGHT", 1), ("INSTALL", 1), ("INSTALL", 130), ("INNER", 3)])
def test_exit_codes_are_passed_on(checkout, variable, code):
    done = checkout.run("run", **{variable: str(code)})
    assert done.returncode == code
    assert ("tutorial_lib" in done.stdout) is (variable == "INNER")


def test_without_any_python(checkout, tmp_path):
    """Every Python this machine has is out of reach: PATH holds only the tools the script needs."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat", "cksum", "dirname", "readlink"):
        (tools / name).symlink_to(shutil.which(name))
    text = (checkout.root / "workshop").read_text()
    (checkout.root / "workshop").write_text(text.replace("/usr/bin/python3", "/none/python3"))
    done = checkout.run("run", PATH=str(tools))
    assert done.returncode == 1
    assert "found none that runs, expected CPython 3.11 or 3.12" in done.stderr
    assert "docker run" in done.stderr


def test_an_interrupted_install_leaves_no_complete_environment(checkout):
    assert checkout.run("run", INSTALL="130").returncode == 130
    assert checkout.calls == ["preflight", "install"]
    assert checkout.run("run").returncode == 0
    assert checkout.calls == ["preflight", "install"]


def test_shellcheck_finds_nothing():
    program = shutil.which("shellcheck", path=f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("shellcheck has no wheel for this machine")
    done = subprocess.run([program, str(SCRIPT), str(CHECKOUT / ".ci" / "run")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def integration(tmp_path):
    """Runs a copy of .ci/run on a machine that has nothing but the given programs."""
    (tmp_path / ".ci").mkdir()
    shutil.copy2(CHECKOUT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "bin").mkdir()
    for name in ("bash", "sh", "env", "dirname", "timeout"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))

    def run(**programs):
        programs["../workshop"] = 'echo "called with $*"; exit 5'
        for name, text in programs.items():
            path = tmp_path / "bin" / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        return subprocess.run(
            ["bash", ".ci/run"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={"PATH": str(tmp_path / "bin"), "CALLS": str(tmp_path / "calls")},
        )

    run.calls = lambda: (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
    return run


APT = 'echo "$DEBIAN_FRONTEND $*" >>"$CALLS"; exit '


@pytest.mark.parametrize("programs", [{}, {"chromium": "", "id": "echo 0"}, {"id": "echo 1000"}], ids=str)
def test_the_continuous_integration_runs_the_tests_and_nothing_else(integration, programs):
    done = integration(apt_get=f"{APT}0" if programs else "exit 9", **({"id": "echo 1000"} | programs))
    assert (done.returncode, done.stdout, done.stderr) == (5, "called with test\n", "")
    assert integration.calls() == []


def test_as_root_without_chromium_it_installs_one(integration):
    done = integration(id="echo 0", apt_get=f"{APT}0")
    assert (done.returncode, done.stdout, done.stderr) == (5, "called with test\n", "")
    assert integration.calls() == [
        "noninteractive update",
        "noninteractive install -y --no-install-recommends chromium",
    ]


def test_an_install_that_fails_is_told_and_the_tests_run(integration):
    done = integration(id="echo 0", apt_get=f"{APT}100")
    assert (done.returncode, done.stdout) == (5, "called with test\n")
    assert "browser tests will be skipped" in done.stderr
    assert integration.calls() == ["noninteractive update"]
