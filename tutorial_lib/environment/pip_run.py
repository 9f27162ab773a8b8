"""Run pip for the install: with progress, a log, and failures told in a sentence. Standard library only."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

# What a person's shell or an NGC image sets for pip's other uses must not bend this install.
DROPPED = ("PIP_CONSTRAINT", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIREMENT", "PYTHONPATH", "PYTHONHOME")
END_TIMEOUT_S = 10

# (pattern in the output, problem, action), the first that is found decides
CAUSES = (
    (
        r"No space left on device|Errno 28\b|Disk quota exceeded|Errno 122\b",
        "Disk full while {step}.",
        "Free about 3 GB, or put the checkout on a larger disk, then run this again: it goes on from here.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError",
        "The package index's certificate was refused while {step}.",
        "Behind a proxy that replaces certificates, name its own: export PIP_CERT=/path/to/ca.pem.",
    ),
    (
        r"NewConnectionError|NameResolutionError|Name or service not known|Temporary failure in name resolution"
        r"|Network is unreachable|Connection refused|ConnectTimeout|Read timed out|ReadTimeout|ProxyError"
        r"|ConnectionResetError|ProtocolError|IncompleteRead|Failed to establish|RemoteDisconnected"
        r"|[Cc]onnection (broken|error|failed)|Could not fetch URL",
        "The package index cannot be reached while {step}.",
        "The first install needs the network: connect, or set a proxy or mirror (PIP_PROXY, PIP_INDEX_URL), "
        "then run this again: it goes on from here.",
    ),
    (
        r"No matching distribution found|from versions: none",
        "pip's package index lacks a pinned package while {step}.",
        "Check `pip config list` and PIP_* variables: an index, a mirror or PIP_NO_INDEX hides it.",
    ),
    (
        r"Permission denied|Errno 13\b|Read-only file system|Errno 30\b",
        "The environment cannot be written while {step}.",
        "Use a checkout in a folder that you own.",
    ),
)


class Failure(Exception):
    """The install cannot go on; the message says why and what to do."""

    def __init__(self, problem: str, action: str, details: str = "") -> None:
        super().__init__(f"{problem} {action}" + (f"\n{details}" if details else ""))

    @classmethod
    def explain(cls, step: str, output: str, *, log: Path | None) -> Failure:
        """Read a failed command's output for its cause."""
        lines = [line for line in output.splitlines() if line.strip() and not line.startswith("Progress ")]
        where = f"All of it is in {log}." if log else ""
        for pattern, problem, action in CAUSES:
            decisive = [line.strip() for line in lines if re.search(pattern, line)]
            if decisive:
                return cls(problem.format(step=step), action, "    " + decisive[-1][:160])
        tail = "\n".join("    " + line[:240] for line in lines[-12:])
        return cls(f"Failed while {step}.", where or "Run this again.", tail)


def say(text: str) -> None:
    """Tell the person; standard output is left to the command that follows."""
    clear = "\r\033[K" if sys.stderr.isatty() else ""  # a progress line may stand there
    print(f"{clear}workshop: {text}", file=sys.stderr, flush=True)


class Progress:
    """One line that counts packages and megabytes; on a terminal it is rewritten in place."""

    def __init__(self, step: str, total: int) -> None:
        self.step, self.total, self.count, self.current = step, total, 0, ""
        self.terminal = sys.stderr.isatty()
        self.start = time.monotonic()

    def read(self, line: str) -> None:
        """Take in one line of pip's output."""
        if line.startswith(("Collecting ", "Requirement already satisfied: ")):
            self.count += 1
            self.current = re.split(r"[ =;<>(]", line.partition("satisfied: " if "satisfied" in line else " ")[2])[0]
        elif line.startswith("Installing collected packages"):
            self.current = "unpacking"
        elif line.startswith("Progress "):
            done, _, total = line[len("Progress ") :].partition(" of ")
            if done.strip().isdigit() and total.strip().isdigit() and int(total) > 5e6:
                name = self.current.partition("  ")[0]
                self.current = f"{name}  {int(done) / 1e6:.0f} of {int(total) / 1e6:.0f} MB"
        if self.terminal:
            counter = f" {min(self.count, self.total)}/{self.total}" if self.total > 1 else ""
            print(f"\r\033[Kworkshop: {self.step}{counter}  {self.current}"[:120], end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave one line behind: the step and its seconds."""
        say(f"{self.step}: {time.monotonic() - self.start:.0f} s")


class Pip:
    """pip and python of an environment.

    Args:
        venv: the environment's folder; a log is kept in it, and downloads pass through it, because a
            system's /tmp may be small.
        lock: an open file that every child keeps open too.
    """

    def __init__(self, venv: Path, *, lock: int) -> None:
        self.venv, self.log, self.lock = venv, venv / "install.log", lock
        (venv / "tmp").mkdir(exist_ok=True)
        self.log.write_text("")
        kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
        self.environment = kept | {
            "TMPDIR": str(venv / "tmp"),
            "PIP_USER": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONNOUSERSITE": "1",
            "PYTHONUNBUFFERED": "1",
            "IPYTHONDIR": str(venv / "tmp"),  # registering the kernel would make one in the home folder
        }

    def install(self, lines: Sequence[str], step: str, *options: str) -> None:
        """Install requirement lines; those that are there already cost nothing.

        Raises:
            Failure: the cause, read from pip's output.
        """
        fixed = ("--no-input", "--no-compile", "--only-binary", ":all:", "--no-warn-script-location")
        fixed += ("--root-user-action", "ignore")
        if step != "pip":  # an older pip, which is replaced first, does not know this
            fixed += ("--progress-bar", "raw")
        progress = Progress(step, len(lines))
        self._run(f"installing {step}", progress, "-m", "pip", "install", *fixed, *options, *lines)

    def python(self, step: str, *arguments: str) -> None:
        """Run the environment's Python, in the environment's folder.

        Raises:
            Failure: it failed.
        """
        self._run(step, Progress(step, 0), *arguments)

    def url_of(self, line: str) -> str:
        """Where pip would take a requirement from; it downloads no more than metadata for the answer.

        Raises:
            Failure: the cause, read from pip's output.
        """
        report = self.venv / "tmp" / "report.json"
        options = ("--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", str(report))
        step = "choosing a torch build"
        self._run(step, None, "-m", "pip", "install", *options, "--only-binary", ":all:", "--no-input", line)
        return json.loads(report.read_text())["install"][0]["download_info"]["url"]

    def _run(self, step: str, progress: Progress | None, *arguments: str) -> None:
        command = [str(self.venv / "bin" / "python"), *arguments]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=self.environment,
            cwd=self.venv,
            pass_fds=(self.lock,),
            start_new_session=True,  # a Ctrl-C comes to this process, which then ends the child once
        )
        lines: list[str] = []
        try:
            with self.log.open("a") as log:
                for line in process.stdout or ():
                    lines.append(line)
                    log.write(line)
                    if progress:
                        progress.read(line)
            status = process.wait()
        except BaseException:
            _end(process)
            raise
        if progress and status == 0:
            progress.end()
        if status == -signal.SIGKILL:
            raise Failure(
                f"{step}: pip was killed.", "Memory ran out, most likely: close programs, then run this again."
            )
        if status:
            raise Failure.explain(step, "".join(lines), log=self.log)


def _end(process: subprocess.Popen) -> None:
    """Interrupt a child, so that pip removes what it was just unpacking; kill one that does not end."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                continue
