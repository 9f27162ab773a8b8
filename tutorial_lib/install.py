"""Make this checkout's `.venv` from the lock, or bring an unfinished or stale one up to date.

The `workshop` script runs this file with the Python that `preflight` chose, before any package is
installed: standard library only. What is installed stays when it is interrupted, and the stamp that
marks an environment as complete is written last.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))  # run by path and isolated, so the checkout is not importable yet

from tutorial_lib import preflight  # noqa: E402
from tutorial_lib.pip_run import Failure, Pip, say  # noqa: E402

LOCK, CUDA_LOCK = CHECKOUT / "requirements.lock", CHECKOUT / "requirements-cuda.lock"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CPU_INDEX_VARIABLE = "WORKSHOP_TORCH_INDEX"  # a mirror of that index
BUILD_VARIABLE = "WORKSHOP_TORCH"  # "cpu" or "cuda" instead of looking for a GPU
PROBE_TIMEOUT_S = 6
STEPS = 4  # parts the packages come in, so that an interrupted install has something to go on from

# Sizes of the locked wheels (x86-64, Python 3.11) and of the environment they become; cuda: wheels
# measured, environment estimated; ngc: without torch.
DOWNLOAD_MB = {"cpu": 490, "cuda": 3030, "ngc": 300}
DISK_MB = {"cpu": 2600, "cuda": 8500, "ngc": 1800}

# Compiling these costs as long as all the rest and little of it is ever imported; Python compiles a
# module at its first import anyway.
UNCOMPILED = r"/tests?/|/transformers/models/|/torch/(_inductor|testing|distributed)/"


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
    except (OSError, ValueError, ssl.SSLError):  # not reachable, or not an address
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


def reusable(venv: Path, *, overlay: bool, python: str) -> str:
    """Why the environment at `venv` must be made anew; "" when it can be completed in place."""
    try:
        settings = dict(
            (part.strip() for part in line.split("=", 1))
            for line in (venv / "pyvenv.cfg").read_text().splitlines()
            if "=" in line
        )
    except OSError:
        return "it has no pyvenv.cfg"
    if not settings.get("command", "").endswith(f" {venv}"):
        return "it was made elsewhere or by another tool"
    if (settings.get("include-system-site-packages") == "true") != overlay:
        return "it does not fit the torch of this machine"
    script = "import sys, pip; print(sys.version_info[:2] in ((3, 11), (3, 12)), sys._base_executable)"
    try:
        done = subprocess.run([venv / "bin" / "python", "-I", "-c", script], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "its Python does not run"
    if done.returncode or not done.stdout.startswith("True "):
        return "its Python does not run, has no pip or has another version"
    base = done.stdout.partition(" ")[2].strip()
    if os.environ.get(preflight.PYTHON_VARIABLE) and os.path.realpath(base) != os.path.realpath(python):
        return f"{preflight.PYTHON_VARIABLE} names another Python"
    return ""


def check_disk(venv: Path, build: str) -> None:
    """Refuse to start what the disk cannot hold.

    Raises:
        Failure: with the space needed and found.
    """
    present = sum(entry.stat().st_blocks * 512 for entry in _files(venv)) // 2**20
    needed, free = max(DISK_MB[build] - present, 100), shutil.disk_usage(venv.parent).free // 2**20
    if free < needed:
        raise Failure(
            f"Disk: the environment {venv} needs about {needed} MB more, found {free} MB free.",
            "Free some space, or put the checkout on a larger disk, then run this again.",
        )


def _files(folder: Path) -> Iterator[os.DirEntry]:
    if folder.is_dir():
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield entry


def make(venv: Path, *, overlay: bool) -> None:
    """Make an empty environment, deleting what is there.

    Raises:
        Failure: venv's own words.
    """
    options = ["--clear", *(["--system-site-packages"] if overlay else [])]
    command = [sys.executable, "-I", "-m", "venv", *options, str(venv)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Failure.explain(f"making {venv}", done.stdout, log=None)


def sweep(venv: Path) -> None:
    """Remove what a killed install left half-written, so that pip installs it again.

    A package without RECORD was never finished, although pip would take it for installed.
    """
    for site in venv.glob("lib/python3.*/site-packages"):
        unfinished = [folder for folder in site.glob("*.dist-info") if not (folder / "RECORD").exists()]
        for folder in [*site.glob("~*"), *unfinished]:
            shutil.rmtree(folder, ignore_errors=True)


def install(venv: Path, build: str, found: preflight.Facts, *, lock: int) -> None:
    """Install everything the lock names.

    Args:
        venv: the environment's folder.
        build: as `torch_build` says.
        found: facts of the running Python.
        lock: the handle that keeps other installs away; pip holds it too, should this process be killed.

    Raises:
        Failure: what went wrong, and what to do.
    """
    overlay = build == "ngc"
    reason = reusable(venv, overlay=overlay, python=found["executable"])
    check_disk(venv, build)
    action = "Making" if not venv.exists() else f"Making anew ({reason})" if reason else "Completing"
    say(f"{action} the environment {venv} with Python {found['release']}.")
    size = _megabytes(DOWNLOAD_MB[build])
    say(f"The download is about {size}, less what pip has in its cache; it takes a few minutes.")
    if reason:
        make(venv, overlay=overlay)
    (venv / "workshop-stamp").unlink(missing_ok=True)
    sweep(venv)
    pip = Pip(venv, lock=lock)
    lines = requirements(without_torch=True)
    pip.install([line for line in lines if line.startswith("pip==")], "pip", "--no-deps")
    if build == "ngc":
        say(f"torch: the image's own {found['torch']} is used.")
    else:
        install_torch(pip, venv, build)
    size = -(-len(lines) // STEPS)
    for step in range(STEPS):
        pip.install(lines[step * size : (step + 1) * size], f"packages, part {step + 1} of {STEPS}", "--no-deps")
    pip.python("compiling", "-m", "compileall", "-q", "-j", "0", "-x", UNCOMPILED, "lib")
    if build != "ngc":  # an image's own packages need not agree with each other
        pip.python("checking", "-m", "pip", "check")
    register(venv)


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
            say(f"with CUDA, which runs here too. The download becomes about {_megabytes(DOWNLOAD_MB['cuda'])}.")
            check_disk(venv, "cuda")
    pip.install([pin], "torch", "-c", str(LOCK), "-c", str(CUDA_LOCK))


def register(venv: Path) -> None:
    """Make the checkout importable in the environment, and the kernel start this very Python."""
    site = next(venv.glob("lib/python3.*/site-packages"))
    (site / "workshop.pth").write_text(f"{CHECKOUT}\n")
    path = venv / "share" / "jupyter" / "kernels" / "python3" / "kernel.json"
    if not path.is_file():
        raise Failure(f"Kernel: {path} is missing, although ipykernel writes it.", f"Delete {venv} and run this again.")
    kernel = json.loads(path.read_text())
    kernel["argv"] = [str(venv / "bin" / "python"), *kernel["argv"][1:]]
    path.write_text(json.dumps(kernel, indent=1) + "\n")


def _megabytes(number: int) -> str:
    return f"{number / 1000:.1f} GB" if number >= 1000 else f"{number} MB"


@contextmanager
def exclusive() -> Iterator[int]:
    """Let one process at a time change the environment; a second one waits for the first."""
    handle = os.open(CHECKOUT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another ./workshop is making the environment: waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:  # a network disk without locks
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
        yield handle
    finally:
        os.close(handle)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stamp", required=True, help="written to .venv/workshop-stamp when all is installed")
    stamp = parser.parse_args().stamp
    venv = CHECKOUT / ".venv"
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with exclusive() as lock:
            found = preflight.facts()
            written = venv / "workshop-stamp"
            build = torch_build(found)
            fresh = written.is_file() and written.read_text().strip() == stamp
            if fresh and not reusable(venv, overlay=build == "ngc", python=found["executable"]):
                return 0
            install(venv, build, found, lock=lock)
            shutil.rmtree(venv / "tmp", ignore_errors=True)
            written.with_suffix(".new").write_text(f"{stamp}\n")
            written.with_suffix(".new").replace(written)
            say("The environment is complete.")
    except KeyboardInterrupt:
        say("Interrupted. What is installed stays; ./workshop goes on from there.")
        return 130
    except (Failure, OSError) as error:
        if isinstance(error, OSError):
            error = Failure.explain("writing the environment", str(error), log=None)
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
