"""Make this checkout's `.venv` from the lock, or bring an unfinished or stale one up to date.

The `workshop` script runs this file with the Python that `preflight` chose, before any package is
installed: standard library only. What is installed stays when it is interrupted, and the stamp that
marks an environment as complete is written last.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))  # run by path and isolated, so the checkout is not importable yet

from tutorial_lib import preflight  # noqa: E402
from tutorial_lib.environment.disk import DOWNLOAD_MB, check_disk, megabytes  # noqa: E402
from tutorial_lib.environment.pip_run import Failure, Pip, say  # noqa: E402
from tutorial_lib.environment.torch_build import has_torch, install_torch, requirements, torch_build  # noqa: E402

STEPS = 4  # parts the packages come in, so that an interrupted install has something to go on from

SITE = "lib/python3.*/site-packages"  # below an environment


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
    for site in venv.glob(SITE):
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
    amount = f"{'about' if reason else 'at most'} {megabytes(DOWNLOAD_MB[build])}"
    say(f"It downloads {amount}, less what pip has in its cache, and takes a few minutes.")
    if reason:
        make(venv, overlay=overlay)
    (venv / "workshop-stamp").unlink(missing_ok=True)
    sweep(venv)
    pip = Pip(venv, lock=lock)
    lines = requirements(without_torch=True)
    pip.install([line for line in lines if line.startswith("pip==")], "pip", "--no-deps")
    if build == "ngc":
        say(f"torch: the image's own {found['torch']} is used.")
    elif not has_torch(venv):
        install_torch(pip, venv, build)
    size = -(-len(lines) // STEPS)
    for step in range(STEPS):
        pip.install(lines[step * size : (step + 1) * size], f"packages, part {step + 1} of {STEPS}", "--no-deps")
    site = next(venv.glob(SITE))
    pip.python("compiling", "-I", str(Path(__file__).with_name("compile_all.py")), str(site))
    # written here because ipykernel's own file names no path, and an overlay may take ipykernel from the image
    pip.python("registering the kernel", "-m", "ipykernel", "install", "--sys-prefix")
    site.joinpath("workshop.pth").write_text(f"{CHECKOUT}\n")  # makes the checkout importable from any folder


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
