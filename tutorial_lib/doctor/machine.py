"""Checks of what the machine offers: processors, memory, disk and ports."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psutil

from tutorial_lib.doctor.check import Verdict, check
from tutorial_lib.doctor.report import Status
from tutorial_lib.errors import SetupError
from tutorial_lib.paths import CHECKOUT, WORKSPACE_VARIABLE, workspace_root
from tutorial_lib.server.ports import is_free, owner
from tutorial_lib.versions import cpu_count

GIB = 2**30
MIB = 2**20
TRITON_PORTS = {8000: "HTTP", 8001: "gRPC", 8002: "metrics"}  # Triton's defaults
JUPYTER_PORT = 8888
SHARED_MEMORY = Path("/dev/shm")


@check("processors")
def processors() -> Verdict:
    """The processors this process may use, not those of the machine."""
    usable, machine = cpu_count(), os.cpu_count() or 1
    found = f"{usable} usable" + (f" of {machine}" if usable != machine else "")
    if usable < 2:
        return Status.WARN, found, "The course works, but server and client share one: measurements say little."
    return Status.OK, found


@check("memory")
def memory() -> Verdict:
    """Memory that is free to use; the course needs about 2 GiB."""
    state = psutil.virtual_memory()
    total, available = min(state.total, _cgroup_limit()), min(state.available, _cgroup_limit())
    found = f"{available / GIB:.1f} GiB available of {total / GIB:.1f}"
    if available < 2 * GIB:
        return Status.WARN, found, "Close other programs, or give the container or WSL2 more memory."
    return Status.OK, found


def _cgroup_limit() -> float:
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        path = Path(name)
        if path.is_file() and (text := path.read_text().strip()).isdigit():
            return int(text)
    return float("inf")


@check("shared memory")
def shared_memory() -> Verdict:
    """Room in /dev/shm, through which the server and the Python stubs hand tensors over."""
    if not SHARED_MEMORY.is_dir():
        return Status.FAIL, f"{SHARED_MEMORY} does not exist", "Mount a tmpfs there, or use the container tier."
    if not os.access(SHARED_MEMORY, os.W_OK):
        return Status.FAIL, f"{SHARED_MEMORY} cannot be written", f"Run: sudo chmod 1777 {SHARED_MEMORY}"
    state = shutil.disk_usage(SHARED_MEMORY)
    found = f"{state.free / MIB:,.0f} MiB free of {state.total / MIB:,.0f}"
    if state.free < 128 * MIB:
        return Status.WARN, found, "Stop servers that were left over; start a container with --shm-size=1g."
    return Status.OK, found


@check("workspace")
def workspace_folder() -> Verdict:
    """A folder that can be, or is, the learner's own."""
    try:
        return Status.OK, str(workspace_root())
    except SetupError as error:
        return Status.FAIL, error.problem, error.action


@check("disk")
def disk() -> Verdict:
    """Room where the workspace is."""
    try:
        folder = workspace_root()
    except SetupError:  # said by the check above
        folder = CHECKOUT
    while not folder.exists():  # a workspace yet to be made is on its parent's disk
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    found = f"{free / GIB:.1f} GiB free at {folder}"
    if not os.access(folder, os.W_OK):
        return Status.FAIL, f"{folder} cannot be written", f"Set {WORKSPACE_VARIABLE} to a folder of your own."
    if free < 2 * GIB:
        status = Status.FAIL if free < GIB / 4 else Status.WARN
        return status, found, f"Free some space, or set {WORKSPACE_VARIABLE} to a folder on a larger disk."
    return Status.OK, found


@check("Triton's ports")
def triton_ports() -> Verdict:
    """Triton's default ports; a server that finds one taken is started on free ones."""
    taken = _taken(TRITON_PORTS)
    if taken:
        return Status.WARN, taken, "Nothing to do: serve() chooses free ports unless you give it these."
    return Status.OK, f"{', '.join(map(str, TRITON_PORTS))} are free"


@check("Jupyter's port")
def jupyter_port() -> Verdict:
    """The default port of JupyterLab."""
    taken = _taken({JUPYTER_PORT: "JupyterLab"})
    if taken:
        return Status.WARN, taken, "Nothing to do: JupyterLab takes the next one and prints its address."
    return Status.OK, f"{JUPYTER_PORT} is free"


def _taken(ports: dict[int, str]) -> str:
    found = []
    for port, use in ports.items():
        if not is_free(port):
            who = owner(port)
            found.append(f"{port} ({use}) is taken" + (f" by {who}" if who else ""))
    return ", ".join(found)
