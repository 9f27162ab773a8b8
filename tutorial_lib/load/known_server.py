"""A server whose service time is known exactly: what a load generator is tested against.

Requests are answered first come, first served. An answer's moment is computed, not slept for: it is the service
time after the request's arrival or after the answer before it, whichever is later. So the server needs no CPU
while it "works", and a late wake-up does not push the answers behind it.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Self

import httptools
import numpy as np
import uvloop

from tutorial_lib.errors import LoadError
from tutorial_lib.load.checks import number, whole
from tutorial_lib.load.child import LOOPBACK, child_environment, end, serve_until_eof
from tutorial_lib.load.timer import Timer

LOG_PATH = "/log"


class KnownServer:
    """The server in a process of its own, for a `with` block; it ends with this one.

    Args:
        service_s: how long each request is served.
        servers: how many requests are served at the same time.

    Attributes:
        url: where it answers POST and GET, on any path but /log.
        pid: its process.
    """

    def __init__(self, service_s: float, *, servers: int = 1) -> None:
        number("service_s", service_s, high=60, open_low=False)
        whole("servers", servers, high=1000)
        command = [sys.executable, "-P", "-m", "tutorial_lib.load.known_server", str(service_s), str(servers)]
        self._process = subprocess.Popen(
            command,
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self._process.pid
        port = self._process.stdout.readline().strip()
        if not port:
            self.stop()
            raise LoadError(f"known server: its process ended with status {self._process.returncode}.")
        self.url = f"http://{LOOPBACK}:{int(port)}/"

    def log(self) -> np.ndarray:
        """When each request arrived there and was answered: float64 (n, 2), seconds of time.perf_counter()."""
        import httpx

        with httpx.Client(trust_env=False) as client:
            return np.array(client.get(self.url.rstrip("/") + LOG_PATH).json(), dtype=np.float64).reshape(-1, 2)

    def stop(self) -> None:
        """End it."""
        end(self._process)
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Queue:
    """When requests that arrive at known moments are answered by `servers` of constant service time."""

    def __init__(self, service_s: float, servers: int) -> None:
        self._service_s = service_s
        self._free = [0.0] * servers

    def leaves(self, arrived_s: float) -> float:
        """The moment at which the request that arrived at `arrived_s` has been served."""
        end = max(arrived_s, heapq.heappop(self._free)) + self._service_s
        heapq.heappush(self._free, end)
        return end


class _Service:
    """The queue, and the timer that wakes it."""

    def __init__(self, service_s: float, servers: int) -> None:
        self._queue = Queue(service_s, servers)
        self._timer = Timer(asyncio.get_running_loop(), self._answer)
        self._leaving: list[tuple[float, int, float, _Connection]] = []
        self._count = 0
        self.log: list[tuple[float, float]] = []

    def arrived(self, connection: _Connection) -> None:
        now = time.perf_counter()
        leaves = self._queue.leaves(now)
        self._count += 1
        heapq.heappush(self._leaving, (leaves, self._count, now, connection))
        if self._leaving[0][1] == self._count:
            self._timer.at(leaves)

    def _answer(self) -> None:
        while self._leaving and self._leaving[0][0] <= time.perf_counter():
            leaves, _, arrived, connection = heapq.heappop(self._leaving)
            self.log.append((arrived, leaves))
            connection.answer(b"{}")
        if self._leaving:
            self._timer.at(self._leaving[0][0])


class _Connection(asyncio.Protocol):
    def __init__(self, service: _Service) -> None:
        self._service = service
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_message_complete(self) -> None:
        if self._path == LOG_PATH.encode():
            self.answer(json.dumps(self._service.log).encode())
        else:
            self._service.arrived(self)

    def answer(self, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


async def _serve(service_s: float, servers: int) -> None:
    service = _Service(service_s, servers)
    await serve_until_eof(lambda: _Connection(service))


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until standard input ends; the port is the first line of the output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("service_s", type=float)
    parser.add_argument("servers", type=int)
    given = parser.parse_args(arguments)
    uvloop.run(_serve(given.service_s, given.servers))


if __name__ == "__main__":
    main()
