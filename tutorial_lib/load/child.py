"""Child processes that serve on loopback until their owner is gone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

from tutorial_lib.paths import CHECKOUT

LOOPBACK = "127.0.0.1"
END_TIMEOUT_S = 5.0


def child_environment() -> dict[str, str]:
    """The variables with which a child finds this library, wherever it is started."""
    return os.environ | {"PYTHONPATH": str(CHECKOUT)}


async def serve_until_eof(protocol: Callable[[], asyncio.Protocol]) -> None:
    """Listen on a free port, print it, and end when standard input does."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, LOOPBACK, 0, backlog=4096)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print(server.sockets[0].getsockname()[1], flush=True)
    await reader.read()


def end(process: subprocess.Popen) -> None:
    """Close its standard input, which ends it, and wait."""
    process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
