"""The small process that stands between a notebook kernel and its Triton.

It starts the server, and ends it when the owner is gone, however the owner went: `stop()`, a normal
exit, a crash, `kill -9`. Two independent signs tell it so: the pipe on its standard input reaches
end-of-file, and the owner's process handle (pidfd) becomes readable. The second is needed because
a child forked by the kernel may still hold the pipe.

Ending means: SIGTERM to Triton, a bounded wait, SIGKILL to its process group, reaping (the Python
stubs clean up only then), and unlinking the shared memory regions that carry this server's prefix.
If the supervisor itself is killed, PR_SET_PDEATHSIG takes the server along, and the next start
sweeps what is left (`sweep`).

Run as a script, with the standard library only:
`python supervisor.py --owner PID --prefix NAME --log FILE [--cleanup JSON] -- COMMAND …`
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
PREFIX = re.compile(r"^c2t-(?P<namespace>\d+)-(?P<pid>\d+)-(?P<started>\d+)-")
TERM_WAIT_S = 6.0
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is no such process.

    Together with the pid it names a process for good: pids are used again, start times are not.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def region_prefix(pid: int) -> str:
    """The shared memory name prefix for the server of supervisor `pid`.

    It names the process and its pid namespace, so that a sweep can tell a dead owner's regions
    from those of a live server in another container that shares /dev/shm.
    """
    namespace = os.stat("/proc/self/ns/pid").st_ino
    return f"c2t-{namespace}-{pid}-{start_ticks(pid)}-"


def unlink_regions(prefix: str) -> list[str]:
    """Remove the shared memory regions whose name starts with `prefix`; returns their names."""
    removed = []
    for path in SHARED_MEMORY.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's
            path.unlink()
            removed.append(path.name)
    return removed


def sweep() -> list[str]:
    """Remove regions whose supervisor no longer lives, in this pid namespace; returns their names."""
    namespace, dead = os.stat("/proc/self/ns/pid").st_ino, set()
    for path in SHARED_MEMORY.glob("c2t-*"):
        match = PREFIX.match(path.name)
        if match and int(match["namespace"]) == namespace and start_ticks(int(match["pid"])) != int(match["started"]):
            dead.add(match[0])
    return [name for prefix in dead for name in unlink_regions(prefix)]


def _dies_with_supervisor() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setpgid(0, 0)


class Supervisor:
    """One owner, one server."""

    def __init__(self, owner: int, command: list[str], log: Path, prefix: str, cleanup: list[str]) -> None:
        self.owner, self.command, self.log, self.prefix, self.cleanup = owner, command, log, prefix, cleanup
        self.owner_started = start_ticks(owner)
        self.child: subprocess.Popen | None = None

    def owner_lives(self) -> bool:
        return self.owner_started is not None and start_ticks(self.owner) == self.owner_started

    def run(self) -> int:
        """Start the server, wait until the owner or the server ends, and clean up.

        Returns:
            The server's exit status, negative for the signal that ended it.
        """
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphaned stubs come here to be reaped
        # the server ending, and a request to end, wake the selector through this pipe
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        ended: list[int] = []
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda got, _: ended.append(got) if got != signal.SIGCHLD else None)
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_dies_with_supervisor
            )
        print(json.dumps({"pid": self.child.pid, "prefix": self.prefix}), flush=True)
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            selector.register(wake_read, selectors.EVENT_READ)
            with contextlib.suppress(OSError):  # no pidfd: an old kernel, or the owner is gone already
                selector.register(os.pidfd_open(self.owner), selectors.EVENT_READ)
            while self.child.poll() is None and not ended and self.owner_lives():
                for key, _ in selector.select(timeout=5.0):
                    if key.fd == wake_read:
                        os.read(wake_read, 512)
                    elif key.fd == sys.stdin.fileno() and not os.read(key.fd, 512):
                        ended.append(0)
        self.end()
        return self.child.returncode

    def end(self) -> None:
        """Stop the server if it runs, end what is left of its group, reap, unlink."""
        group = self.child.pid
        if self.child.poll() is None:
            self.child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(TERM_WAIT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        self.child.wait()
        if self.cleanup:
            subprocess.run(self.cleanup, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        deadline = time.monotonic() + 5
        with contextlib.suppress(ChildProcessError):  # raised once no child is left
            while time.monotonic() < deadline:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    time.sleep(0.01)
        unlink_regions(self.prefix)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run a server for as long as its owner lives.")
    parser.add_argument("--owner", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--cleanup", type=json.loads, default=[])
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    sweep()
    prefix = region_prefix(os.getpid())
    command = [part.replace("{region_prefix}", prefix) for part in given.command]
    status = Supervisor(given.owner, command, given.log, prefix, given.cleanup).run()
    return 128 - status if status < 0 else status  # as shells say it: 137 is SIGKILL


if __name__ == "__main__":
    sys.exit(main())
