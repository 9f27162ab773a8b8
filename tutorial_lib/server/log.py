"""Read a Triton log: what is noise, what decided."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import psutil

LOGS_KEPT = 50
# of a log's name, made of date, time, process and the server's number in it: the process
OWNER = re.compile(r"^(?:triton|lab)-\d{8}-\d{6}-(\d+)(?:-\d+)?\.log$")

# Lines any CPU-only machine prints, although nothing is wrong (checked on the embedded tier).
NOISE = (
    "CudaDriverHelper has not been initialized",
    "Unable to allocate pinned system memory",
    "Failed to initialize NVML",
    "DCGM unable to start",
    "CUDA memory pool disabled",
    "unable to get allowed API_FEATURES",
    "CacheManager Init Failed",  # DCGM's; the next ones are of Jetson, and of a preloaded library
    "NvRmMem",
    "cannot be preloaded",
)
# true, but only because of an earlier line
CONSEQUENCES = ("Internal: failed to load all models",)
ERROR = re.compile(r"^E\d{4} \d\d:\d\d:\d\d\.\d+ \d+ (?P<where>[\w.]+:\d+)\] (?P<text>.*)$")
OTHER = re.compile(
    r"^(error: |\[libprotobuf (ERROR|FATAL)|terminate called|.*ImportError|"
    r".*symbol lookup error|.*: unrecognized option )"
)


def is_noise(line: str) -> bool:
    return any(text in line for text in NOISE)


def decisive_lines(log: str, *, limit: int = 12) -> list[str]:
    """The lines of a log that say why something failed, without time stamps, each once.

    Args:
        log: the log's text, or the part of it after some point.
        limit: the most lines to return; the last ones win.
    """
    found: dict[str, None] = {}
    for line in log.splitlines():
        if is_noise(line):
            continue
        match = ERROR.match(line)
        text = match["text"].strip().strip('"') if match else line.strip() if OTHER.match(line) else ""
        text = without_stack(text.replace("\\n", "\n")).replace("\n", " ").strip()
        if text:
            found[text] = None
    causes = [text for text in found if text not in CONSEQUENCES] or list(found)
    return causes[-limit:]


def prune(folder: Path, *, keep: int = LOGS_KEPT) -> None:
    """Remove the oldest logs of servers whose process has ended.

    Args:
        folder: with logs whose names end in the process's number, and perhaps another one.
        keep: how many stay in any case, the newest.
    """
    logs = []
    for path in folder.glob("*.log"):
        with contextlib.suppress(OSError):  # another process prunes at this moment
            logs.append((path.stat().st_mtime, path))
    for _, path in sorted(logs)[: -keep or None]:
        owner = OWNER.search(path.name)
        if owner and not psutil.pid_exists(int(owner[1])):
            path.unlink(missing_ok=True)


def without_stack(reason: str) -> str:
    """A reason given by a Python model, without the stub's stack trace behind it."""
    return reason.partition("\n\nAt:\n")[0].rstrip()
