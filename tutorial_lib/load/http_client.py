"""HTTP/1.1 for the load generator: prepared bytes out, a status back; one request at a time per connection."""

from __future__ import annotations

import asyncio
import os
from collections import deque

import httptools

from tutorial_lib.load.engine import Engine
from tutorial_lib.load.samples import ERROR, OK

CONNECT_TIMEOUT_S = 10.0
OPENED_AHEAD = 16
STALE_S = 0.02
MESSAGE_BYTES = 300


class HttpClient:
    """Sends requests over as many connections as are needed at the same time.

    Args:
        engine: who is told how requests end.
        host, port: where to.
        connections: the most connections.
        bodies: whole requests.
    """

    def __init__(self, engine: Engine, host: str, port: int, connections: int, bodies: list[bytes]) -> None:
        self.engine, self._host, self._port, self._most, self._bodies = engine, host, port, connections, bodies
        self._idle: list[_Connection] = []
        self._busy: dict[int, _Connection] = {}
        self._waiting: deque[tuple[int, int]] = deque()
        self._open = 0
        self._tasks: set[asyncio.Task] = set()
        self.all_busy = 0  # requests that had to wait because every connection was in use

    async def open(self, expected: int) -> None:
        """Open some connections ahead.

        Args:
            expected: how many requests may be under way at once.

        Raises:
            OSError: nothing listens there.
        """
        for _ in range(min(self._most, max(expected, 1), OPENED_AHEAD)):
            self._open += 1
            self._idle.append(await self._connection())

    def send(self, number: int, body: int) -> None:
        if self._idle:
            self._start(self._idle.pop(), number, body)
            return
        self._waiting.append((number, body))
        if self._open < self._most:
            self._connect_soon()
        else:
            self.all_busy += 1

    def abandon(self, number: int) -> None:
        if connection := self._busy.pop(number, None):
            connection.number = -1
            connection.transport.abort()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for connection in [*self._idle, *self._busy.values()]:
            connection.transport.abort()

    def finished(self, connection: _Connection, status: int, text: bytes, *, keep: bool) -> None:
        """A response is complete."""
        number, connection.number = connection.number, -1
        self._busy.pop(number, None)
        if not keep:
            connection.transport.close()
        else:
            self._idle.append(connection)
            self._serve_waiting()
        if 200 <= status < 300:
            self.engine.done(number, OK)
        else:
            reason = " ".join(text.decode("utf-8", "replace").split())
            self.engine.done(number, ERROR, f"HTTP {status}: {reason}" if reason else f"HTTP {status}")

    def lost(self, connection: _Connection, error: Exception | None) -> None:
        """A connection has ended."""
        self._open -= 1
        if connection in self._idle:
            self._idle.remove(connection)
        number, connection.number = connection.number, -1
        if number >= 0:
            self._busy.pop(number, None)
            if connection.stale(self.engine.age_s(number)):
                self.send(number, number % len(self._bodies))
                return
            self.engine.done(number, ERROR, f"connection lost: {_words(error) or 'closed by the server'}", gone=True)
        if self._waiting and self._open < self._most:
            self._connect_soon()

    def _start(self, connection: _Connection, number: int, body: int) -> None:
        connection.number = number
        self._busy[number] = connection
        connection.transport.write(self._bodies[body])
        self.engine.wrote(number)

    def _serve_waiting(self) -> None:
        while self._waiting and self._idle:
            number, body = self._waiting.popleft()
            if self.engine.pending(number):
                self._start(self._idle.pop(), number, body)

    def _connect_soon(self) -> None:
        self._open += 1
        task = asyncio.get_running_loop().create_task(self._connect())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        try:
            connection = await self._connection()
        except OSError as error:
            self._open -= 1
            while self._waiting:
                number, _ = self._waiting.popleft()
                if self.engine.pending(number):
                    self.engine.done(number, ERROR, f"no connection: {_words(error)}", gone=True)
                    return
            return
        self._idle.append(connection)
        self._serve_waiting()

    async def _connection(self) -> _Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, connection = await loop.create_connection(lambda: _Connection(self), self._host, self._port)
        return connection


class _Connection(asyncio.Protocol):
    """One TCP connection and the request it carries."""

    def __init__(self, client: HttpClient) -> None:
        self.client = client
        self.number = -1
        self._parser = httptools.HttpResponseParser(self)
        self._text = b""
        self._answers = 0
        self._begun = False

    def stale(self, age_s: float) -> bool:
        """Whether the server closed it for being idle just as a request of `age_s` was written: then HTTP clients
        send the request again (RFC 9112, 9.3.1)."""
        return self._answers > 0 and not self._begun and age_s < STALE_S

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.number >= 0:
                number, self.number = self.number, -1
                self.client.engine.done(number, ERROR, f"not an HTTP response: {error}")
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.client.lost(self, error)

    def on_message_begin(self) -> None:
        self._text, self._begun = b"", True

    def on_body(self, body: bytes) -> None:
        if len(self._text) < MESSAGE_BYTES and self._parser.get_status_code() >= 300:
            self._text = (self._text + body)[:MESSAGE_BYTES]

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        self._begun = False
        if status >= 200 and self.number >= 0:
            self._answers += 1
            self.client.finished(self, status, self._text, keep=self._parser.should_keep_alive())


def _words(error: BaseException | None) -> str:
    """An error without addresses and numbers that differ from request to request."""
    if isinstance(error, OSError) and error.strerror and error.errno:
        return os.strerror(error.errno) if error.errno > 0 else error.strerror
    return str(error or "") or (type(error).__name__ if error else "")
