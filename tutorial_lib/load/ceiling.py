"""How fast the generator itself is: against a server that answers at once, on another core."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import uvloop

from tutorial_lib.errors import LoadError
from tutorial_lib.load import http2
from tutorial_lib.load.child import child_environment, end, serve_until_eof
from tutorial_lib.load.known_server import KnownServer
from tutorial_lib.load.result import LoadResult
from tutorial_lib.load.run import run_load
from tutorial_lib.load.target import GrpcTarget, HttpTarget

FLOATS = 64
CONCURRENCY = 64


def generator_ceiling(protocol: str = "grpc", *, duration_s: float = 3.0) -> LoadResult:
    """What the generator manages with requests of 64 floats that are answered at once.

    Args:
        protocol: "grpc" or "http".
        duration_s: how long to measure.

    Returns:
        The run: `throughput_rps` is the ceiling; `generator.cpu_share` says how much of a core that took.
    """
    tensors = {"x": np.random.default_rng(0).random((1, FLOATS), dtype=np.float32)}
    options = {"concurrency": CONCURRENCY, "duration_s": duration_s, "progress": False}
    if protocol == "http":
        with KnownServer(0.0, servers=CONCURRENCY) as server:
            return run_load(HttpTarget(server.url, "stub", tensors, label="stub"), **options)
    if protocol != "grpc":
        raise LoadError(f"protocol: found {protocol!r}, expected grpc or http.")
    with _stub() as address:
        return run_load(GrpcTarget(address, "stub", tensors, label="stub"), **options)


@contextmanager
def _stub() -> Iterator[str]:
    """A process that answers every gRPC call with one made-up ModelInferResponse; its address."""
    command = [sys.executable, "-P", "-m", "tutorial_lib.load.ceiling"]
    with subprocess.Popen(
        command, env=child_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            end(process)


class _Stub(asyncio.Protocol):
    """Just enough of a server for `Http2Connection`."""

    def __init__(self) -> None:
        self._buffer = b""
        self._opened = False
        head = http2.header_block([(":status", "200"), ("content-type", "application/grpc")])
        self._head, self._trailers = head, http2.header_block([("grpc-status", "0")])
        self._body = http2.grpc_message(_response())

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.write(http2.settings({}))

    def data_received(self, data: bytes) -> None:
        buffer, at, out = self._buffer + data, 0, []
        if not self._opened:
            if len(buffer) < len(http2.PREFACE):
                self._buffer = buffer
                return
            self._opened, at = True, len(http2.PREFACE)
        taken = 0
        while len(buffer) - at >= 9:
            size = int.from_bytes(buffer[at : at + 3])
            if len(buffer) - at < 9 + size:
                break
            kind, flags, stream = buffer[at + 3], buffer[at + 4], int.from_bytes(buffer[at + 5 : at + 9])
            at += 9 + size
            if kind == http2.DATA:
                taken += size
                if flags & http2.END_STREAM:
                    out.append(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, self._head))
                    out.append(http2.frame(http2.DATA, 0, stream, self._body))
                    ends = http2.END_HEADERS | http2.END_STREAM
                    out.append(http2.frame(http2.HEADERS, ends, stream, self._trailers))
        if taken:
            out.append(http2.frame(http2.WINDOW_UPDATE, 0, 0, taken.to_bytes(4)))
        self._buffer = buffer[at:]
        self._transport.write(b"".join(out))


def _response() -> bytes:
    from tritonclient.grpc import service_pb2

    response = service_pb2.ModelInferResponse(model_name="stub", model_version="1")
    response.outputs.add(name="y", datatype="FP32", shape=[1, 10])
    response.raw_output_contents.append(np.zeros(10, np.float32).tobytes())
    return response.SerializeToString()


if __name__ == "__main__":
    uvloop.run(serve_until_eof(_Stub))
