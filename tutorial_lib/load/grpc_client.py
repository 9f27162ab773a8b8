"""gRPC for the load generator: prepared messages out, a status back; one call a request, or one long stream."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from abc import ABC, abstractmethod
from collections import deque

import grpc

from tutorial_lib.load.engine import Engine
from tutorial_lib.load.http2 import Http2Connection, grpc_message, header_block
from tutorial_lib.load.samples import ERROR, OK, TIMEOUT

SERVICE = "/inference.GRPCInferenceService/"
CONNECT_TIMEOUT_S = 10.0
RECONNECT_S = (0.05, 1.0)
AGAIN_S = 0.001
_NAMES: dict[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}


class GrpcClient:
    """Spreads requests over a few connections.

    Args:
        engine: who is told how requests end.
        host, port: where to.
        connections: how many connections.
        bodies: serialized ModelInferRequest messages.
        streaming: send them on one long stream per connection.
    """

    def __init__(
        self, engine: Engine, host: str, port: int, connections: int, bodies: list[bytes], *, streaming: bool
    ) -> None:
        self.engine, self._host, self._port = engine, host, port
        method = "ModelStreamInfer" if streaming else "ModelInfer"
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        block = header_block(
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", SERVICE + method),
                (":authority", authority),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
            ]
        )
        kind = _Stream if streaming else _Calls
        self._lanes = [kind(self, block, bodies) for _ in range(connections)]
        self._turns = itertools.cycle(self._lanes)
        self._waiting: deque[tuple[int, int]] = deque()
        self._tasks: set[asyncio.Task] = set()
        self._closing = False
        self._bodies = len(bodies)
        self.all_busy = 0

    async def open(self, expected: int) -> None:
        """Open every connection.

        Raises:
            OSError: nothing listens there, or what listens does not speak gRPC.
        """
        for lane in self._lanes:
            await self._connect(lane)

    def send(self, number: int, body: int) -> None:
        for _ in self._lanes:
            lane = next(self._turns)
            if lane.free:
                lane.send(number, body)
                return
        self._waiting.append((number, body))
        if any(lane.connection and lane.connection.usable for lane in self._lanes):
            self.all_busy += 1

    def abandon(self, number: int) -> None:
        for lane in self._lanes:
            lane.abandon(number)

    def close(self) -> None:
        self._closing = True
        for task in self._tasks:
            task.cancel()
        for lane in self._lanes:
            if lane.connection:
                lane.connection.transport.abort()

    def again(self, number: int) -> None:
        """Send a request once more that the server did not look at."""
        if self.engine.pending(number) and not self._closing:
            self.send(number, number % self._bodies)

    def freed(self) -> None:
        """A lane can take another request."""
        while self._waiting:
            lane = next((lane for lane in self._lanes if lane.free), None)
            if lane is None:
                return
            number, body = self._waiting.popleft()
            if self.engine.pending(number):
                lane.send(number, body)

    def lost(self, lane: _Lane) -> None:
        """A lane's connection has ended: connect again, at first soon."""
        if not self._closing:
            task = asyncio.get_running_loop().create_task(self._reconnect(lane))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _reconnect(self, lane: _Lane) -> None:
        for attempt in itertools.count():
            with contextlib.suppress(OSError):
                await self._connect(lane)
                self.freed()
                return
            if not any(other.connection and other.connection.usable for other in self._lanes):
                while self._waiting:
                    number, _ = self._waiting.popleft()
                    self.engine.done(number, ERROR, "no connection", gone=True)
            await asyncio.sleep(min(RECONNECT_S[0] * 2**attempt, RECONNECT_S[1]))

    async def _connect(self, lane: _Lane) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, connection = await loop.create_connection(lambda: Http2Connection(lane), self._host, self._port)
            await connection.ready
        lane.connected(connection)

    def failed(self, number: int, status: int, message: str) -> None:
        """Tell the engine of gRPC's status."""
        text = f"{_NAMES.get(status, status)}: {' '.join(message.split())[:300]}"
        self.engine.done(number, TIMEOUT if status == grpc.StatusCode.DEADLINE_EXCEEDED.value[0] else ERROR, text)


class _Lane(ABC):
    """One connection and what is under way on it."""

    def __init__(self, client: GrpcClient, block: bytes, bodies: list[bytes]) -> None:
        self.client, self._block, self._bodies = client, block, bodies
        self.connection: Http2Connection | None = None

    def connected(self, connection: Http2Connection) -> None:
        self.connection = connection

    def closed(self, connection: Http2Connection, reason: str) -> None:
        if connection is not self.connection:
            return  # one that never was in use
        self.connection = None
        for number in self.under_way():
            self.client.engine.done(number, ERROR, f"connection lost: {reason}", gone=True)
        self.client.lost(self)

    @property
    @abstractmethod
    def free(self) -> bool:
        """Whether it can take another request."""

    @abstractmethod
    def under_way(self) -> list[int]:
        """Take the requests that wait for their answers out of the books."""

    @abstractmethod
    def send(self, number: int, body: int) -> None:
        """Send body `body` as request `number`."""

    @abstractmethod
    def abandon(self, number: int) -> None:
        """Nobody waits for `number` any more."""


class _Calls(_Lane):
    """A call per request."""

    def __init__(self, client: GrpcClient, block: bytes, bodies: list[bytes]) -> None:
        super().__init__(client, block, [grpc_message(body) for body in bodies])
        self._numbers: dict[int, int] = {}  # stream → request
        self._streams: dict[int, int] = {}  # request → stream

    @property
    def free(self) -> bool:
        connection = self.connection
        return connection is not None and connection.usable and len(self._numbers) < connection.most_streams

    def under_way(self) -> list[int]:
        numbers = list(self._numbers.values())
        self._numbers.clear()
        self._streams.clear()
        return numbers

    def send(self, number: int, body: int) -> None:
        stream = self.connection.request(self._block, self._bodies[body])
        self._numbers[stream], self._streams[number] = number, stream
        self.client.engine.wrote(number)

    def abandon(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            self._numbers.pop(stream, None)
            self.connection.cancel(stream)

    def message_part(self, stream: int, data: bytes) -> None:
        """The answer itself is not looked at: its status tells whether there is one."""

    def refused(self, stream: int) -> None:
        """The limit on streams was reached because the server has not forgotten the last one yet: try again soon."""
        number = self._numbers.pop(stream, None)
        if number is not None:
            self._streams.pop(number, None)
            asyncio.get_running_loop().call_later(AGAIN_S, self.client.again, number)

    def ended(self, stream: int, status: int, message: str) -> None:
        number = self._numbers.pop(stream, None)
        if number is None:
            return
        self._streams.pop(number, None)
        self.client.freed()
        if status:
            self.client.failed(number, status, message)
        else:
            self.client.engine.done(number, OK)


class _Stream(_Lane):
    """One long stream; a request is answered by the first response with its id."""

    def __init__(self, client: GrpcClient, block: bytes, bodies: list[bytes]) -> None:
        super().__init__(client, block, bodies)
        from tritonclient.grpc import service_pb2

        self._response = service_pb2.ModelStreamInferResponse
        self._under_way: dict[int, None] = {}  # in the order of sending
        self._stream = 0
        self._part = bytearray()

    @property
    def free(self) -> bool:
        return self.connection is not None and self.connection.usable

    def connected(self, connection: Http2Connection) -> None:
        super().connected(connection)
        self._begin()

    def under_way(self) -> list[int]:
        numbers = list(self._under_way)
        self._under_way.clear()
        return numbers

    def send(self, number: int, body: int) -> None:
        name = str(number).encode()
        # protobuf fields may come in any order: the id (field 3, a string) goes behind the prepared rest
        message = grpc_message(self._bodies[body] + b"\x1a" + bytes([len(name)]) + name)
        self._under_way[number] = None
        self.connection.write(self._stream, message)
        self.client.engine.wrote(number)

    def abandon(self, number: int) -> None:
        self._under_way.pop(number, None)

    def refused(self, stream: int) -> None:
        self.ended(stream, 14, "the server refused the stream")

    def message_part(self, stream: int, data: bytes) -> None:
        part = self._part
        part += data
        while len(part) >= 5:
            _, size = struct.unpack_from(">BI", part)
            if len(part) < 5 + size:
                return
            message = self._response.FromString(bytes(part[5 : 5 + size]))
            del part[: 5 + size]
            self._answered(message.infer_response.id, message.error_message)

    def ended(self, stream: int, status: int, message: str) -> None:
        """The server has ended the stream, mostly because of an error: begin another."""
        for number in self.under_way():
            self.client.failed(number, status or 2, message or "the stream was ended")
        if self.connection and self.connection.usable:
            self._begin()

    def _begin(self) -> None:
        self._part.clear()
        self._stream = self.connection.open_stream(self._block)

    def _answered(self, name: str, error: str) -> None:
        # some errors come without an id; the oldest request is the one they are most likely about
        number = int(name) if name.isdecimal() else next(iter(self._under_way), -1)
        if number not in self._under_way:
            return
        del self._under_way[number]
        if error:
            self.client.engine.done(number, ERROR, " ".join(error.split())[:300])
        else:
            self.client.engine.done(number, OK)
