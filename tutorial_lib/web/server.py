"""Start a web application in a process of its own, under the supervisor that Triton has, too."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Self

import httpx

from tutorial_lib.cores import checked_cores, on_cores
from tutorial_lib.errors import ServerError
from tutorial_lib.paths import workspace
from tutorial_lib.server.ports import LOOPBACK, choose
from tutorial_lib.server.process import ServerProcess
from tutorial_lib.versions import cpu_count
from tutorial_lib.web.order import IDENTITY_HEADER, order

START_ATTEMPTS = 3  # a free port can be taken between choosing it and listening on it
MAX_WORKERS = 64
POLL_S = 0.02
STARTED_LINE = "Application startup complete"  # of uvicorn, one for each worker

_servers: dict[str, WebServer] = {}
_starting: dict[str, threading.Lock] = {}  # of what is the same; all others start side by side
_lock = threading.RLock()
_numbers = itertools.count(1)


class WebServer:
    """A running web application.

    Use it as a context manager, or call `stop()`; without either it ends with this Python process.

    Attributes:
        name: what it is, such as "naive FastAPI".
        url: "http://127.0.0.1:PORT".
        pid: its first process; workers are its children.
        hardware: what it may use, such as "CPU ×2".
    """

    def __init__(self, name: str, url: str, process: ServerProcess) -> None:
        self.name, self.url, self.process = name, url, process
        self.hardware = f"CPU ×{cpu_count()}"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def label(self) -> str:
        """What belongs beside every number measured here: "naive FastAPI · CPU ×2"."""
        return f"{self.name} · {self.hardware}"

    @property
    def running(self) -> bool:
        return self.process.running

    @property
    def log_path(self) -> str:
        return str(self.process.log)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        return "\n".join(self.process.log_text().splitlines()[-lines:])

    def stop(self) -> None:
        """End it, workers included, and wait for that; harmless when called again."""
        self.process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<WebServer {self.label} · {self.url if self.running else 'stopped'}>"


def start_app(
    name: str,
    factory: str,
    *,
    settings: Mapping[str, Any],
    health: str,
    workers: int = 1,
    port: int | None = None,
    cores: Iterable[int] | None = None,
    startup_timeout_s: float = 120.0,
    environment: Mapping[str, str] | None = None,
) -> WebServer:
    """Serve an ASGI application from a child process, or find the one that runs already.

    Args:
        name: what it is, for labels and the log's name.
        factory: "module:function"; called in the child with `settings` as keyword arguments.
        settings: only what JSON can carry.
        health: path that answers 200 once it serves.
        workers: processes that share the port.
        port: a port of loopback, or None for a free one.
        cores: numbers of the cores it may use; None for all.
        startup_timeout_s: the longest to wait.
        environment: further environment variables of the child.

    Raises:
        PortInUseError: the port that was given is taken.
        ServerError: it did not start, or an argument is out of bounds; with the last lines of its log.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MAX_WORKERS:
        raise ServerError(f"workers: found {workers!r}, expected a whole number from 1 to {MAX_WORKERS}.")
    chosen = checked_cores(cores)
    key = json.dumps(
        [name, factory, dict(settings), workers, port, chosen, dict(environment or {}), str(workspace().root)],
        sort_keys=True,
    )
    with _lock:
        starting = _starting.setdefault(key, threading.Lock())
    with starting:
        known = _servers.get(key)
        if known is not None and known.running:
            return known
        with on_cores(chosen):
            started = _start(name, factory, settings, health, workers, port, startup_timeout_s, environment or {})
        with _lock:
            _servers[key] = started
        return started


def stop_all() -> None:
    """Stop every application that this process started."""
    with _lock:
        while _servers:
            _servers.popitem()[1].stop()


def _start(
    name: str,
    factory: str,
    settings: Mapping[str, Any],
    health: str,
    workers: int,
    port: int | None,
    timeout_s: float,
    environment: Mapping[str, str],
) -> WebServer:
    for attempt in range(1, START_ATTEMPTS + 1):
        chosen = choose({"http": port})["http"]
        number = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{next(_numbers)}"
        log = workspace().logs / f"{name.split()[0].lower()}-{number}.log"
        identity = f"c2t-{number}"
        child = [sys.executable, "-P", "-m", "tutorial_lib.web.child"]
        child.append(order(factory, settings, port=chosen, workers=workers, identity=identity))
        process = ServerProcess(child, environment={**os.environ, **environment}, log=log)
        server = WebServer(name, f"http://{LOOPBACK}:{chosen}", process)
        try:
            _wait(server, health, identity, workers, timeout_s)
            return server
        except BaseException as error:
            process.stop()
            stolen = isinstance(error, ServerError) and "address already in use" in process.log_text()
            if not (stolen and port is None and attempt < START_ATTEMPTS):
                raise
    raise ServerError(f"{name}: no start in {START_ATTEMPTS} attempts.")


def _wait(server: WebServer, health: str, identity: str, workers: int, timeout_s: float) -> None:
    """Return once this very child answers 200, and every worker of it serves."""
    deadline = time.monotonic() + timeout_s
    with httpx.Client(base_url=server.url, timeout=5.0, trust_env=False) as client:
        while True:
            try:
                answer = client.get(health)
                # another's server may have taken the port meanwhile
                ours = answer.status_code == 200 and answer.headers.get(IDENTITY_HEADER) == identity
                if ours and server.process.log_text().count(STARTED_LINE) >= workers:
                    return
            except httpx.HTTPError:
                ours = False  # it does not listen yet
            if not server.running or time.monotonic() > deadline:
                ended = (
                    "it ended while starting" if not server.running else f"no answer within {timeout_s:g} s; stopped"
                )
                raise ServerError(
                    f"{server.name}: {ended}.", action=f"Its log is {server.log_path}.", details=server.log_tail(15)
                )
            time.sleep(POLL_S)


atexit.register(stop_all)
