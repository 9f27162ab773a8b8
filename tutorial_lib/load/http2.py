"""One HTTP/2 connection for gRPC, as little of it as prepared requests need.

gRPC's own Python client takes about 0.25 ms of CPU for a call, as long as a small model takes to answer it. Here
a request is one write of bytes that were made before the run, and an answer is its trailers.

Source: RFC 9113 (HTTP/2), RFC 7541 (HPACK), gRPC over HTTP2 (PROTOCOL-HTTP2.md).
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import unquote

import hpack

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME = 1, 2, 3, 4, 5
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CANCEL, REFUSED_STREAM = 8, 7
LARGEST_WINDOW, FIRST_WINDOW = 2**31 - 1, 65_535
MOST_STREAMS = 2**30  # a connection's stream numbers end at 2**31

Trailers = tuple[int, str]


class Listener(Protocol):
    """Who hears what comes on the connection."""

    def message_part(self, stream: int, data: bytes) -> None:
        """Bytes of an answer."""

    def ended(self, stream: int, status: int, message: str) -> None:
        """An answer is complete, with gRPC's status."""

    def refused(self, stream: int) -> None:
        """The server did not look at this request: it may be sent again."""

    def closed(self, connection: Http2Connection, reason: str) -> None:
        """The connection has ended; no stream of it will."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One HTTP/2 frame."""
    return struct.pack(">BHBBI", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *entry) for entry in values.items()))


def header_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """Headers in a form that leaves no trace in the peer's table, so that one block serves every request."""
    entries = (hpack.NeverIndexedHeaderTuple(name, value) for name, value in headers)
    return hpack.Encoder().encode(list(entries), huffman=False)


def grpc_message(body: bytes) -> bytes:
    """A message with gRPC's prefix: not compressed, length."""
    return struct.pack(">BI", 0, len(body)) + body


class Http2Connection(asyncio.Protocol):
    """The client's side.

    Args:
        listener: who hears what comes.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.usable = False  # settings were exchanged, and new streams may begin
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.most_streams = MOST_STREAMS
        self._buffer = bytearray()
        self._next = 1
        self._window = (
            FIRST_WINDOW  # what may still be sent: on the connection, on a new stream, on those in `_windows`
        )
        self._initial = FIRST_WINDOW
        self._windows: dict[int, int] = {}
        self._frame_size = 16_384
        self._queue: deque[list] = deque()  # [stream, bytes left, end]
        self._taken = 0  # received since the last window update
        self._streams_taken: dict[int, int] = {}
        self._block: tuple[int, int, bytearray] | None = None
        self._known: dict[bytes, Trailers | None] = {}
        self._decoder = hpack.Decoder(max_header_list_size=2**20)
        self._reason = ""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        ours = {HEADER_TABLE_SIZE: 0, ENABLE_PUSH: 0, INITIAL_WINDOW: LARGEST_WINDOW, MAX_FRAME: 2**24 - 1}
        more = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGEST_WINDOW - FIRST_WINDOW))
        transport.write(PREFACE + settings(ours) + more)

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        reason = self._reason or (str(error) if error else "closed by the server")
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(reason))
            self.ready.exception()  # it may be that nobody waits for it
        self._listener.closed(self, reason)

    def request(self, block: bytes, message: bytes) -> int:
        """Begin a stream with one whole message; returns its number."""
        stream = self._begin()
        size = len(message)
        head = frame(HEADERS, END_HEADERS, stream, block)
        if not self._queue and size <= self._frame_size and size <= self._window and size <= self._initial:
            self._window -= size
            self.transport.write(head + frame(DATA, END_STREAM, stream, message))
        else:
            self.transport.write(head)
            self._windows[stream] = self._initial
            self._later(stream, message, end=True)
        return stream

    def open_stream(self, block: bytes) -> int:
        """Begin a stream for many messages; returns its number."""
        stream = self._begin()
        self._windows[stream] = self._initial
        self._streams_taken[stream] = 0
        self.transport.write(frame(HEADERS, END_HEADERS, stream, block))
        return stream

    def write(self, stream: int, message: bytes) -> None:
        """Send one more message on an open stream."""
        self._later(stream, message, end=False)

    def cancel(self, stream: int) -> None:
        """Nobody waits for this stream any more."""
        self._forget(stream)
        if self.usable:
            self.transport.write(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))

    def _begin(self) -> int:
        stream, self._next = self._next, self._next + 2
        if self._next > MOST_STREAMS:
            self.usable = False
        return stream

    def _later(self, stream: int, message: bytes, *, end: bool) -> None:
        self._queue.append([stream, memoryview(message), end])
        self._pump()

    def _pump(self) -> None:
        """Send what the windows allow, in order."""
        while self._queue:
            entry = self._queue[0]
            stream, left, end = entry
            size = min(len(left), self._frame_size, self._window, self._windows[stream])
            if size <= 0 < len(left):
                return
            last = size == len(left)
            self._window -= size
            self._windows[stream] -= size
            self.transport.write(frame(DATA, END_STREAM if last and end else 0, stream, bytes(left[:size])))
            entry[1] = left[size:]
            if last:
                self._queue.popleft()
                if end:
                    self._windows.pop(stream, None)

    def _forget(self, stream: int) -> None:
        if self._queue:
            self._queue = deque(entry for entry in self._queue if entry[0] != stream)
        self._windows.pop(stream, None)
        self._streams_taken.pop(stream, None)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= 9:
            high, low, kind, flags, stream = struct.unpack_from(">BHBBI", buffer, at)
            size = high << 16 | low
            if not self.ready.done() and kind != SETTINGS:
                self._fail("what answers there does not speak gRPC")
                return
            if len(buffer) - at < 9 + size:
                break
            payload = bytes(buffer[at + 9 : at + 9 + size])
            at += 9 + size
            try:
                self._frame(kind, flags, stream & LARGEST_WINDOW, payload)
            except (struct.error, IndexError, hpack.HPACKError) as error:
                self._fail(f"not HTTP/2 as it should be: {error}")
                return
        del buffer[:at]

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self._data(flags, stream, payload)
        elif kind == HEADERS:
            part = _unpadded(flags, payload)[5 if flags & PRIORITY else 0 :]
            self._block = (stream, flags, bytearray(part))
            self._headers(flags)
        elif kind == CONTINUATION and self._block:
            self._block[2].extend(payload)
            self._headers(flags)
        elif kind == SETTINGS and not flags & ACK:
            self._settings(payload)
        elif kind == PING and not flags & ACK:
            self.transport.write(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            (more,) = struct.unpack(">I", payload)
            if not stream:
                self._window += more
            elif stream in self._windows:
                self._windows[stream] += more
            self._pump()
        elif kind == RST_STREAM:
            (code,) = struct.unpack(">I", payload)
            if code == REFUSED_STREAM:
                self._forget(stream)
                self._listener.refused(stream)
            else:
                self._over(stream, 13, f"stream reset by the server, code {code}")
        elif kind == GOAWAY:
            self.usable = False  # what is under way is still answered, then the server closes

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        self._taken += len(payload)
        if self._taken > 2**29:
            self.transport.write(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", self._taken)))
            self._taken = 0
        if stream in self._streams_taken:
            self._streams_taken[stream] += len(payload)
            if self._streams_taken[stream] > 2**29:
                self.transport.write(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", self._streams_taken[stream])))
                self._streams_taken[stream] = 0
        self._listener.message_part(stream, _unpadded(flags, payload))
        if flags & END_STREAM:
            self._over(stream, 2, "the answer ended without gRPC's status")

    def _headers(self, flags: int) -> None:
        if not flags & END_HEADERS:
            return
        stream, first_flags, block = self._block
        self._block = None
        key = bytes(block)
        if key not in self._known:
            if len(self._known) > 1000:  # servers that say something else each time
                self._known.clear()
            self._known[key] = _status(self._decoder.decode(key))
        found = self._known[key]
        if first_flags & END_STREAM:
            self._over(stream, *(found or (2, "the answer ended without gRPC's status")))

    def _over(self, stream: int, status: int, message: str) -> None:
        self._forget(stream)
        self._listener.ended(stream, status, message)

    def _settings(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            name, value = struct.unpack_from(">HI", payload, at)
            if name == INITIAL_WINDOW:
                for stream in self._windows:
                    self._windows[stream] += value - self._initial
                self._initial = value
            elif name == MAX_FRAME:
                self._frame_size = value
            elif name == MAX_STREAMS:
                self.most_streams = value
        self.transport.write(frame(SETTINGS, ACK, 0))
        if not self.ready.done():
            self.usable = True
            self.ready.set_result(None)
        self._pump()

    def _fail(self, reason: str) -> None:
        self._reason = reason
        self.transport.abort()


def _unpadded(flags: int, payload: bytes) -> bytes:
    return payload[1 : len(payload) - payload[0]] if flags & PADDED else payload


def _status(headers: Iterable[tuple[str, str]]) -> Trailers | None:
    """gRPC's status and message, if these are trailers."""
    found = dict(headers)
    if "grpc-status" in found:
        return int(found["grpc-status"]), unquote(found.get("grpc-message", ""))
    http = found.get(":status", "200")
    return None if http == "200" else (2, f"HTTP {http}")
