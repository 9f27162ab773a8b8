"""The generator's process: reads a job, sends it, writes what came of it.

A process of its own, because a notebook kernel's threads would make sending late and answers look slow.
`python -m tutorial_lib.load.worker` reads from standard input one line of JSON, then the bytes it announces;
after that a "stop" line ends the run early, and end-of-file (its owner is gone) ends the process. It writes lines
of JSON to standard output, and after the last one the samples as bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import gc
import json
import os
import resource
import signal
import sys
import time
from array import array
from pathlib import Path
from typing import Any

import uvloop

from tutorial_lib.load.engine import Engine, Plan
from tutorial_lib.load.grpc_client import GrpcClient
from tutorial_lib.load.http_client import HttpClient

PR_SET_PDEATHSIG = 1
COLUMNS = ("intended", "sent", "answered", "status", "user")


def main() -> int:
    """Carry out one job."""
    # its owner's interrupt is not its own: the owner says "stop"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    owner = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != owner:  # it went between the two lines above
        return 1
    job = json.loads(sys.stdin.buffer.readline())
    parts = [sys.stdin.buffer.read(size) for size in job["parts"]]
    with open(job["lock"], "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            _say({"event": "busy", "pid": lock.read().strip()})
            return 0
        lock.truncate(0)
        lock.write(f"{os.getpid()}")
        lock.flush()
        return uvloop.run(_carry_out(job, parts))


async def _carry_out(job: dict[str, Any], parts: list[bytes]) -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    *bodies, times = parts
    plan = Plan(times=array("d", times), bodies=len(bodies), **job["plan"])
    engine = Engine(plan, _say_with_usage)
    client = _client(job["target"], engine, bodies, min(job["target"]["connections"], hard - 64))
    stop = asyncio.Event()
    listening = asyncio.get_running_loop().create_task(_listen(stop))
    try:
        try:
            await client.open(job["ahead"])
        except OSError as error:
            _say({"event": "refused", "reason": error.strerror or str(error) or "no connection"})
            return 0
        gc.collect()
        gc.disable()  # its pauses would look like the server's
        _say({"event": "begin"})
        await engine.run(client, stop)
    finally:
        listening.cancel()
        client.close()
    columns = [bytes(getattr(engine, name)) for name in COLUMNS]
    done = {"event": "done", "zero": engine.zero, "stopped_s": engine.stopped_s, "ended_early": engine.ended_early}
    done |= {"messages": dict(engine.messages.most_common()), "all_busy": client.all_busy}
    _say(done | {"parts": [len(column) for column in columns]})
    for column in columns:
        sys.stdout.buffer.write(column)
    sys.stdout.buffer.flush()
    return 0


def _client(target: dict[str, Any], engine: Engine, bodies: list[bytes], connections: int) -> Any:
    where = (engine, target["host"], target["port"], connections, bodies)
    if target["kind"] == "http":
        return HttpClient(*where)
    return GrpcClient(*where, streaming=target["kind"] == "stream")


async def _listen(stop: asyncio.Event) -> None:
    """Wait for the owner's word, or its end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        if line.strip() == b"stop":
            stop.set()
    os._exit(1)  # nobody is left to hand anything to


def _say(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def _say_with_usage(message: dict[str, Any]) -> None:
    """With the CPU this process has used, and how long it was ready to run and got no core, in seconds."""
    waited = 0.0
    with contextlib.suppress(OSError, ValueError, IndexError):  # a kernel without these statistics
        waited = int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    _say(message | {"cpu_s": time.process_time(), "waited_s": waited})


if __name__ == "__main__":
    sys.exit(main())
