"""What a running server holds of the machine: memory, shared memory, file handles, processes."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

import psutil

from tutorial_lib.server.supervisor import SHARED_MEMORY


@dataclass(frozen=True)
class Footprint:
    """One look at a server.

    Attributes:
        memory_mib: anonymous memory (heaps and stacks) of the server process, without its models' processes. Private
            memory (USS) would change with other servers on the machine: the pages of the program are shared with them.
        shared_mib: shared memory regions under the server's own prefix.
        handles: open file descriptors of the server process.
        processes: children, those of models included, that ended ones not collected yet also count among.
    """

    memory_mib: float
    shared_mib: float
    handles: int
    processes: int


def footprint(pid: int, region_prefix: str) -> Footprint:
    """Look at the server process with this pid, which must be this user's.

    Args:
        pid: of tritonserver itself.
        region_prefix: how its shared memory regions are named.
    """
    process, shared = psutil.Process(pid), 0
    for path in SHARED_MEMORY.glob(f"{region_prefix}*"):
        with contextlib.suppress(FileNotFoundError):  # gone since
            shared += path.stat().st_size
    return Footprint(
        memory_mib=_anonymous_kib(pid) / 2**10,
        shared_mib=shared / 2**20,
        handles=process.num_fds(),
        processes=len(process.children(recursive=True)),
    )


def _anonymous_kib(pid: int) -> int:
    return int(re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)[1])
