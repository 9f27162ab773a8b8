"""JupyterLab on the course, with this environment's kernel and its own settings."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tutorial_lib.errors import PortInUseError, SetupError
from tutorial_lib.paths import CHECKOUT, NOTEBOOKS, atomic_write, real_path, workspace
from tutorial_lib.runner.environment import jupyter_environment
from tutorial_lib.server.log import prune

HOST = "127.0.0.1"
PORT = 8888
READY_S = 150.0  # on a cold and busy machine; alone it takes 3
STOP_S = 20.0
PR_SET_PDEATHSIG = 1  # Source: prctl(2)


@dataclass(frozen=True)
class Lab:
    """A JupyterLab that runs.

    Attributes:
        process: its process.
        url: where it is, with its token.
        log_path: what it writes.
    """

    process: subprocess.Popen[bytes]
    url: str
    log_path: Path


@contextmanager
def lab(*, port: int | None = None, notebooks: Path | None = None) -> Iterator[Lab]:
    """Start JupyterLab on loopback with a token, and stop it with its kernels at the end.

    Args:
        port: the port; by default 8888, or a free one when that is taken.
        notebooks: a folder with copies of the notebooks to work on instead of the checkout's own.

    Raises:
        PortInUseError: a port was given and is taken.
        SetupError: it did not start, or there is no such folder.
    """
    folder = NOTEBOOKS if notebooks is None else real_path(notebooks, "notebooks")
    if not folder.is_dir():
        raise SetupError(f"{folder}: found no such folder.", action="Copy the checkout's notebooks there first.")
    root = CHECKOUT if folder.is_relative_to(CHECKOUT) else folder
    token = secrets.token_hex(24)
    home = workspace()
    state = home.root / "lab"
    environment = jupyter_environment(state, cache=home.cache) | {"JUPYTER_TOKEN": token}
    _write_settings(state)
    home.logs.mkdir(exist_ok=True)
    prune(home.logs)
    start = folder / "00_start_here.ipynb"
    page = f"/lab/tree/{quote(str(start.relative_to(root)))}" if start.exists() else "/lab"
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser"),
        *(f"--ServerApp.ip={HOST}", "--ServerApp.port_retries=0"),
        *(f"--ServerApp.root_dir={root}", f"--ServerApp.preferred_dir={folder}"),
        f"--ServerApp.default_url={page}",
        "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
        *(["--allow-root"] if os.geteuid() == 0 else []),
    ]
    for candidates in ((port,),) if port else ((PORT, 0), (0,), (0,)):
        chosen = _choose(candidates)
        log = home.logs / f"lab-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{chosen}.log"
        process = _start([*command, f"--ServerApp.port={chosen}"], environment, root, log)
        try:
            if _ready(process, chosen, token):
                yield Lab(process, f"http://{HOST}:{chosen}{page}?token={token}", log)
                return
        finally:
            code = process.poll()
            _end(process)
        told = log.read_text(errors="replace")
        if "already in use" not in told:  # or else somebody took the port meanwhile
            break
    raise SetupError(
        f"JupyterLab: it did not answer on {HOST}:{chosen} within {READY_S:.0f} s."
        if code is None
        else f"JupyterLab: it ended while starting on {HOST}:{chosen} (exit code {code}).",
        action=f"Its log is {log}.",
        details="\n".join(told.splitlines()[-15:]),
    )


def _start(command: list[str], environment: dict[str, str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
            start_new_session=True,  # Ctrl-C comes to us, and Jupyter does not ask whether it is meant
            preexec_fn=_end_with_parent,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """On SIGTERM Jupyter shuts its kernels down."""
    process.terminate()
    try:
        process.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_with_parent() -> None:
    """In the new process: SIGTERM when the starting process dies, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _choose(candidates: Sequence[int]) -> int:
    """The first port that is free; 0 stands for any."""
    for candidate in candidates:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, candidate))
            except OSError:
                continue
            return probe.getsockname()[1]
    raise PortInUseError(
        f"port {candidates[0]}: something listens on {HOST}:{candidates[0]} already.",
        action="Give another --port, or none.",
    )


def _write_settings(state: Path) -> None:
    """This interpreter as the kernel, and no questions about news on the first page."""
    kernel = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "metadata": {"debugger": True},
    }
    with atomic_write(state / "data" / "kernels" / "python3" / "kernel.json") as temporary:
        temporary.write_text(json.dumps(kernel, indent=1))
    quiet = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    with atomic_write(state / "config" / "labconfig" / "page_config.json") as temporary:
        temporary.write_text(json.dumps(quiet))


def _ready(process: subprocess.Popen[bytes], port: int, token: str) -> bool:
    """Ask until it answers; False when it has ended, or does not answer in time."""
    import httpx

    deadline = time.monotonic() + READY_S
    pause = threading.Event()
    while process.poll() is None and time.monotonic() < deadline:
        try:
            answer = httpx.get(f"http://{HOST}:{port}/api/status", params={"token": token}, trust_env=False)
            if answer.status_code == 200:
                return True
        except httpx.TransportError:
            pass
        pause.wait(0.1)  # nothing listens yet, or somebody else does
    return False
