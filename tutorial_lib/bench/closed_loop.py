"""A closed-loop HTTP load generator that costs little: it shares the cores with what it measures.

Prepared bytes out, a status and a length back, over non-blocking sockets and epoll; about 30 µs of one core a
request where an asyncio client takes 80 to 100. The load library (`tutorial_lib.load`) is the one to use
elsewhere; this one exists because every microsecond here is taken from the servers that are compared.

Run as a script, with the standard library only: reads a JSON object from standard input
(`address`, `request_file`, `concurrency`, `seconds`, `warm_up_s`), prints one with `latencies_ms`, `errors`,
`seconds`, `cpu_s`.
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import time
from pathlib import Path

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
BUFFER_BYTES = 1 << 20
TIMEOUT_S = 20.0


class Connection:
    """One client: sends, waits for the whole answer, sends again."""

    def __init__(self, address: tuple[str, int], request: bytes) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self.socket.setblocking(False)
        self.request, self.received, self.unsent, self.began = memoryview(request), b"", 0, 0.0

    def send(self) -> bool:
        """Begin a request; False when the socket took only a part of it."""
        self.began, self.received, self.unsent = time.perf_counter(), b"", 0
        return self.send_rest()

    def send_rest(self) -> bool:
        while self.unsent < len(self.request):
            try:
                self.unsent += self.socket.send(self.request[self.unsent :])
            except BlockingIOError:
                return False
        return True

    def receive(self) -> int:
        """The status once the answer is whole, else 0.

        Raises:
            ConnectionError: the server closed the connection.
        """
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return 0
        if not data:
            raise ConnectionError("the server closed the connection")
        self.received = received = self.received + data if self.received else data
        end = received.find(b"\r\n\r\n") + 4
        if end == 3:
            return 0
        head = received[:end]
        length = LENGTH.search(head)
        if length:
            whole = len(received) >= end + int(length[1])
        else:
            whole = CHUNKED.search(head) is None or received.endswith(b"\r\n0\r\n\r\n")
        return int(head[9:12]) if whole else 0


def measure(
    address: tuple[str, int], request: bytes, *, concurrency: int, seconds: float, warm_up_s: float
) -> dict[str, object]:
    """Keep `concurrency` requests under way for a while.

    Returns:
        `latencies_ms` of the requests answered with 200 after the warm-up, `errors` (other answers and broken
        connections), `seconds` measured, `cpu_s` spent here.
    """
    poll = select.epoll()
    connections = {}
    for _ in range(concurrency):
        connection = Connection(address, request)
        connections[connection.socket.fileno()] = connection
        poll.register(connection.socket, select.EPOLLIN)
    latencies, errors = [], 0
    begin = time.perf_counter() + warm_up_s
    end, cpu = begin + seconds, time.process_time()
    for connection in connections.values():
        if not connection.send():
            poll.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)
    while connections:
        events = poll.poll(TIMEOUT_S)
        if not events:
            errors += len(connections)
            break
        for number, event in events:
            connection = connections[number]
            if event & select.EPOLLOUT and connection.send_rest():
                poll.modify(connection.socket, select.EPOLLIN)
            if not event & ~select.EPOLLOUT:
                continue
            try:
                status = connection.receive()
            except OSError:
                status = -1
            if not status:
                continue
            now = time.perf_counter()
            if now >= begin and now < end:
                if status == 200:
                    latencies.append((now - connection.began) * 1e3)
                else:
                    errors += 1
            if status < 0 or now >= end:
                poll.unregister(connection.socket)
                connection.socket.close()
                del connections[number]
            elif not connection.send():
                poll.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)
    for connection in connections.values():
        connection.socket.close()
    return {"latencies_ms": latencies, "errors": errors, "seconds": seconds, "cpu_s": time.process_time() - cpu}


def main() -> None:
    plan = json.load(sys.stdin)
    host, _, port = plan["address"].rpartition(":")
    result = measure(
        (host, int(port)),
        Path(plan["request_file"]).read_bytes(),
        concurrency=plan["concurrency"],
        seconds=plan["seconds"],
        warm_up_s=plan["warm_up_s"],
    )
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
