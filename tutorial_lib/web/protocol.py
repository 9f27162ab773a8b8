"""uvicorn's HTTP protocol with what it lacks: a limit on the size of a request's head, and on the time it may take."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 10.0
LINGER_S = 1.0  # what a refused client still sends is thrown away: closing at once would lose the answer
_REASONS = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large"}


class LimitedHttp(HttpToolsProtocol):
    """Ends a connection whose request line and headers are too large or too slow, with a JSON error."""

    _in_head, _head_bytes, _head_timer, _refused = True, 0, None, False

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_timer is None:  # the next request of a connection that was kept
                self._start_timer()
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            limit = f"{MAX_HEAD_BYTES // 1024} KiB"
            self._refuse(431, "head_too_large", f"request head: found more than {limit}, expected less.")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._cancel_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._head_bytes = True, 0

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "not_http", f"request: {msg}")

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._late)

    def _cancel_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _late(self) -> None:
        self._refuse(408, "slow_client", f"request head: not complete within {HEAD_TIMEOUT_S:g} s.")

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._cancel_timer()
        if self._refused or self.transport is None or self.transport.is_closing():
            return
        self._refused = True
        error: dict[str, Any] = {"code": code, "message": message, "action": "Send a smaller, whole request at once."}
        body = json.dumps({"error": error}).encode()
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)
