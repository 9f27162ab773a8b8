"""Start a server process under its supervisor and wait until it answers."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tutorial_lib.errors import ServerError
from tutorial_lib.server.control import Control
from tutorial_lib.server.explain import explain_log
from tutorial_lib.server.log import decisive_lines, is_noise

SUPERVISOR = Path(__file__).resolve().with_name("supervisor.py")  # a notebook may have ".." on its path
POLL_S = 0.02
STOP_TIMEOUT_S = 20.0
LOG_LIMIT_BYTES = 4 * 2**20


class ServerProcess:
    """A server that lives no longer than this Python process.

    Args:
        command: the server's command line; "{region_prefix}" in it becomes the shared memory prefix.
        environment: the server's environment variables.
        log: the file its output is appended to.
        cleanup: a command to run after it has ended (such as removing a container).
        folder: its working directory; by default this process's.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        cleanup: Sequence[str] = (),
        folder: Path | None = None,
    ) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log_start = log.stat().st_size if log.exists() else 0
        self._owner = os.getpid()
        self._supervisor = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(SUPERVISOR), "--owner", str(self._owner), "--log", str(log)),
                *(("--cleanup", json.dumps(list(cleanup))) if cleanup else ()),
                *("--", *command),
            ],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # an interrupt meant for the notebook does not reach the server
        )
        try:
            self.pid, self.region_prefix = self._started()
        except BaseException:  # an interrupt, too, must not leave a server behind
            self.stop()
            raise

    def _started(self) -> tuple[int, str]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._supervisor.stdout, selectors.EVENT_READ)
            line = self._supervisor.stdout.readline() if selector.select(timeout=30) else b""
        if not line:
            self._supervisor.kill()
            errors = self._supervisor.stderr.read().decode(errors="replace").strip()
            raise ServerError("server: its process could not be started.", details=errors[-2000:])
        started = json.loads(line)
        return started["pid"], started["prefix"]

    @property
    def running(self) -> bool:
        return self._supervisor.poll() is None

    @property
    def exit_status(self) -> int | None:
        return self._supervisor.poll()

    @property
    def ending(self) -> str:
        """How it ended, as "exit status 1" or "killed by SIGSEGV"; "" while it runs."""
        status = self.exit_status
        if status is None:
            return ""
        number = -status if status < 0 else status - 128
        try:
            name = signal.Signals(number).name
        except ValueError:
            return f"exit status {status}"
        return f"killed by {name}" + (", perhaps for want of memory" if number == signal.SIGKILL else "")

    def log_size(self) -> int:
        """How many bytes its log has by now: where what comes next begins."""
        try:
            return self.log.stat().st_size
        except OSError:
            return self._log_start

    def log_text(self, *, since: int | None = None) -> str:
        """What this server has logged since it started, or since its log had so many bytes.

        Of a log beyond `LOG_LIMIT_BYTES` it is the last part, from the beginning of a line.
        """
        begin = self._log_start if since is None else since
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(begin, self.log_size() - LOG_LIMIT_BYTES))
            if log.tell() > begin:
                log.readline()
            return log.read(LOG_LIMIT_BYTES).decode(errors="replace")
        return ""

    def wait_live(self, control: Control, *, timeout_s: float, identity: str) -> None:
        """Return once this very server answers; it opens its ports after the models named at start are loaded.

        Args:
            control: calls to its HTTP address.
            timeout_s: the longest to wait.
            identity: what it was given as --id.

        Raises:
            ServerError: it ended, or did not answer in time; with the decisive log lines.
        """
        deadline = time.monotonic() + timeout_s
        while not control.is_triton(identity):  # another's server may have taken the port meanwhile
            if not self.running:
                raise ServerError(
                    f"Triton ended while starting ({self.ending}); its log is {self.log}.",
                    action="The lines below say why.",
                    details=self._evidence(),
                )
            if time.monotonic() > deadline:
                self.stop()
                raise ServerError(
                    f"Triton at {control.url}: no answer within {timeout_s:g} s; stopped. Its log is {self.log}.",
                    action="Give a larger startup_timeout_s if a model simply takes long to load.",
                    details=self._evidence(),
                )
            time.sleep(POLL_S)

    def _evidence(self) -> str:
        text = self.log_text()
        last = [line for line in text.splitlines() if line.strip() and not is_noise(line)][-5:]
        lines = "\n".join(decisive_lines(text) or last) or "(the log says nothing of it)"
        words = [f"{item.model or 'server'}: {item.cause} {item.fix}" for item in explain_log(text) if item.known]
        return "\n\n".join([lines, *(["In words:\n" + "\n".join(words)] if words else [])])

    def stop(self) -> None:
        """End the server and wait until nothing of it is left; harmless when called again.

        A process forked from the owner does nothing here: the server is not its own.
        """
        if os.getpid() != self._owner:
            return
        # both signs: a process forked from this one may still hold the pipe open
        with contextlib.suppress(OSError, ValueError):
            self._supervisor.stdin.close()
        self._supervisor.terminate()
        try:
            self._supervisor.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # the supervisor hangs: the kernel ends its server with it
            self._supervisor.kill()
            self._supervisor.wait()
        for stream in (self._supervisor.stdout, self._supervisor.stderr):
            with contextlib.suppress(OSError):
                stream.close()
