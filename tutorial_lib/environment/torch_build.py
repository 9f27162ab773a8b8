"""Which build of torch this machine needs, and where it comes from. Standard library only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

from tutorial_lib import preflight
from tutorial_lib.environment.disk import DOWNLOAD_MB, check_disk, megabytes
from tutorial_lib.environment.pip_run import Failure, Pip, say

CHECKOUT = Path(__file__).resolve().parents[2]
LOCK, CUDA_LOCK = CHECKOUT / "requirements.lock", CHECKOUT / "requirements-cuda.lock"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CPU_INDEX_VARIABLE = "WORKSHOP_TORCH_INDEX"  # a mirror of that index
BUILD_VARIABLE = "WORKSHOP_TORCH"  # "cpu" or "cuda" instead of looking for a GPU
PROBE_TIMEOUT_S = 6


def requirements(*, without_torch: bool = False) -> list[str]:
    """The lines of the lock, as pip takes them."""
    lines = [line.strip() for line in LOCK.read_text().splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    return [line for line in lines if not (without_torch and line.startswith("torch=="))]


def torch_pin() -> str:
    """The lock's line for torch."""
    return next(line for line in requirements() if line.startswith("torch=="))


def has_nvidia_gpu() -> bool:
    """Whether an NVIDIA driver answers here, bare metal, container or WSL2."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    binary = shutil.which("nvidia-smi") or "/usr/lib/wsl/lib/nvidia-smi"
    try:
        done = subprocess.run([binary, "-L"], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and "GPU" in done.stdout


def cpu_index() -> str | None:
    """The address of PyTorch's CPU wheels, or None when it does not offer the pinned torch here and now."""
    index = os.environ.get(CPU_INDEX_VARIABLE) or CPU_INDEX
    try:
        with urllib.request.urlopen(f"{index.rstrip('/')}/torch/", timeout=PROBE_TIMEOUT_S) as answer:
            page = answer.read().decode("utf-8", "replace")
    except (OSError, ValueError):  # not reachable, or not an address
        return None
    version = torch_pin().partition("==")[2].split()[0]
    return index if f"torch-{version}" in page else None


def torch_build(found: preflight.Facts) -> str:
    """Which torch to install: "ngc" (none, the image's is used), "cuda" or "cpu".

    Raises:
        Failure: the variable that decides it has another value.
    """
    if preflight.inside_ngc(found):
        return "ngc"
    wish = os.environ.get(BUILD_VARIABLE, "").strip().lower()
    if wish not in ("", "cpu", "cuda"):
        raise Failure(f"{BUILD_VARIABLE}: found '{wish}', expected cpu or cuda.", "Correct it or unset it.")
    return wish or ("cuda" if has_nvidia_gpu() else "cpu")


def has_torch(venv: Path) -> bool:
    """Whether the pinned torch, of whichever build, is there already."""
    version = torch_pin().partition("==")[2].split()[0]
    return any(
        re.match(rf"torch-{re.escape(version)}(\+|\.dist-info)", path.name)
        for path in venv.glob("lib/python3.*/site-packages/torch-*")
    )


def install_torch(pip: Pip, venv: Path, build: str) -> None:
    """Install the pinned torch: the CPU build from PyTorch's index, or what pip's own index has.

    Raises:
        Failure: what went wrong, and what to do.
    """
    pin = torch_pin()
    index = cpu_index() if build == "cpu" else None
    if index:
        pip.install([pin], "torch (CPU build)", "--no-deps", "--index-url", index)
        return
    if build == "cpu":
        url = pip.url_of(pin)
        if "+cpu" not in url and "%2Bcpu" not in url:
            say(f"PyTorch's CPU wheels ({CPU_INDEX}) cannot be reached: pip's index offers only the build")
            say(f"with CUDA, which runs here too. The download becomes about {megabytes(DOWNLOAD_MB['cuda'])}.")
            check_disk(venv, "cuda")
    pip.install([pin], "torch", "-c", str(LOCK), "-c", str(CUDA_LOCK))
