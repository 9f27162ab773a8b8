"""What a running server holds of the machine: memory, shared memory, file handles, processes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import psutil

from tutorial_lib.server.supervisor import SHARED_MEMORY


@dataclass(frozen=True)
class Footprint:
    """One look at a server.

    Attributes:
        memory_mib: private memory (USS) of the server process, without its models' processes.
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
        memory_mib=process.memory_full_info().uss / 2**20,
        shared_mib=shared / 2**20,
        handles=process.num_fds(),
        processes=len(process.children(recursive=True)),
    )
