"""Writing the lock: uv is a stand-in here, because resolving needs the network."""

from __future__ import annotations

import os
import sys

import pytest

from tutorial_lib import lock
from tutorial_lib.errors import SetupError

LINUX = (
    "((platform_machine == 'aarch64' and sys_platform == 'linux')"
    " or (platform_machine == 'x86_64' and sys_platform == 'linux'))"
)
OUTPUT = f"""\
networkx==3.6.1 ; python_full_version < '3.12' and {LINUX}
networkx==3.7 ; python_full_version == '3.12.*' and {LINUX}
numpy==1.26.4 ; python_full_version < '3.13' and {LINUX}
nvidia-cublas==13.1.1.3 ; python_full_version < '3.13' and {LINUX}
nvidia-pytriton==0.7.0 ; python_full_version < '3.13' and {LINUX}
soupsieve==4.1.3 ; python_full_version >= '3.11.5' and python_full_version < '3.13' and {LINUX}
triton==3.7.1 ; python_full_version < '3.13' and {LINUX}
tritonclient==2.73.0 ; python_full_version < '3.13' and {LINUX}
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Lock files of our own, and a uv that prints `answer` and keeps its arguments."""
    monkeypatch.setattr(lock, "LOCK", tmp_path / "requirements.lock")
    monkeypatch.setattr(lock, "CUDA_LOCK", tmp_path / "requirements-cuda.lock")
    (tmp_path / "answer").write_text(OUTPUT)
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(f'#!/bin/sh\necho "$@" >"{tmp_path}/arguments"\ncat "{tmp_path}/answer"\n')
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "argv", ["lock"])
    return tmp_path


def test_lines_are_split_and_lose_only_what_holds_everywhere():
    cpu, cuda = lock.split(OUTPUT, {"numpy", "nvidia-pytriton", "tritonclient"})
    assert cpu == [
        "networkx==3.6.1 ; python_full_version < '3.12'",
        "networkx==3.7 ; python_full_version == '3.12.*'",
        "numpy==1.26.4",
        "nvidia-pytriton==0.7.0",
        "soupsieve==4.1.3 ; python_full_version >= '3.11.5'",
        "tritonclient==2.73.0",
    ]
    assert cuda == ["nvidia-cublas==13.1.1.3", "triton==3.7.1"]


def test_both_files_are_written_and_read_back(checkout, capsys):
    lock.main()
    assert "requirements.lock: 6 pins, 6 new or changed" in capsys.readouterr().out
    old, new = ({"python_full_version": version} for version in ("3.11.2", "3.12.1"))
    assert lock.pins(lock.LOCK, environment=old)["networkx"] == "3.6.1"
    assert lock.pins(lock.LOCK, environment=new)["networkx"] == "3.7"
    assert "soupsieve" not in lock.pins(lock.LOCK, environment=old)
    assert lock.pins(lock.CUDA_LOCK) == {"nvidia-cublas": "13.1.1.3", "triton": "3.7.1"}
    lock.main()
    assert "6 pins, 0 new or changed" in capsys.readouterr().out


def test_versions_are_kept_unless_newer_ones_are_asked_for(checkout, monkeypatch):
    lock.main()
    lock.main()
    assert f"--constraint {lock.LOCK}" in (checkout / "arguments").read_text()
    monkeypatch.setattr(sys, "argv", ["lock", "--upgrade"])
    lock.main()
    assert "--constraint" not in (checkout / "arguments").read_text()


def test_a_set_that_does_not_fit_leaves_the_files_alone(checkout):
    lock.main()
    before = lock.LOCK.read_text()
    (checkout / "bin" / "uv").write_text("#!/bin/sh\necho 'numpy>=2 and numpy<2' >&2\nexit 1\n")
    with pytest.raises(SystemExit, match="numpy>=2 and numpy<2"):
        lock.main()
    assert lock.LOCK.read_text() == before


def test_without_uv(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(SetupError, match=r"uv: found none on PATH.*pip install uv"):
        lock.resolve(upgrade=True)
