"""Checks of the system and of the Python that runs here."""

from __future__ import annotations

import sys
from pathlib import Path

from tutorial_lib import preflight
from tutorial_lib.doctor.check import Verdict, check
from tutorial_lib.doctor.report import Status


@check("system")
def system() -> Verdict:
    """Linux on a processor and a glibc that Triton's wheel was built for."""
    facts = preflight.facts()
    found = f"{facts['system']} {facts['machine']}, glibc {facts['glibc'] or 'none'}"
    problem = preflight.system_problem(facts)
    return (Status.FAIL, found, problem) if problem else (Status.OK, found)


@check("Python")
def python() -> Verdict:
    """A CPython whose version all pinned packages have wheels for."""
    facts = preflight.facts()
    version = tuple(facts["version"][:2])
    found = f"{facts['implementation']} {facts['release']} ({sys.executable})"
    if facts["implementation"] != "CPython" or version not in preflight.PYTHONS or facts["bits"] != 64:
        return Status.FAIL, found, "Use a 64-bit CPython 3.11 or 3.12: delete .venv and run ./workshop again."
    return Status.OK, found


@check("shared libpython")
def shared_library() -> Verdict:
    """The library that Triton's Python stub loads, of this very patch level."""
    facts = preflight.facts()
    path, version = facts["libpython"], facts["libpython_version"]
    packages = "Debian and Ubuntu: sudo apt install libpython{}.{}".format(*facts["version"])
    if not path:
        return Status.FAIL, "none beside this Python", f"{packages}; or use a Python from uv or conda."
    if not version:
        return Status.FAIL, f"{path} does not load", f"{packages}; or use a Python from uv or conda."
    if version.rstrip("+") != facts["release"].rstrip("+"):
        return Status.FAIL, f"{path} is {version}, this Python is {facts['release']}", "Install them from one source."
    return Status.OK, f"{version} ({path})"


@check("kernel")
def kernel() -> Verdict:
    """The kernel that notebooks name starts this environment's Python."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    fix = f"Run: {Path(sys.prefix) / 'bin' / 'python'} -m ipykernel install --sys-prefix"
    try:
        program = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        return Status.FAIL, "python3 is not registered", fix
    # a bare name is replaced by the Python that starts the kernel, so it is right here too
    if "/" in program and Path(program).parent != Path(sys.prefix) / "bin":
        return Status.WARN, f"python3 starts {program}, not {sys.prefix}", fix
    return Status.OK, f"python3 starts {program}"
