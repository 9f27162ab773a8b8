"""What a load run sends its requests to: a Triton model over gRPC or HTTP, or any HTTP endpoint.

Requests are put into their wire form once, before the run; the generator only sends bytes.
"""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import numpy as np

from tutorial_lib.errors import LoadError
from tutorial_lib.load.checks import whole
from tutorial_lib.load.made_up import made_up_inputs

if TYPE_CHECKING:
    from tutorial_lib.server import Server

Tensors = Mapping[str, np.ndarray]
PROTOCOLS = ("grpc", "stream", "http")
GRPC_PATH = "/inference.GRPCInferenceService/"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A target in the form the generator's process takes.

    Attributes:
        kind: "grpc", "stream" or "http".
        host, port: where it is.
        connections: the most TCP connections.
        bodies: what is sent, in turn; for "http" whole requests, heads included.
    """

    kind: str
    host: str
    port: int
    connections: int
    bodies: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class GrpcTarget:
    """A Triton model over gRPC.

    Attributes:
        address: "127.0.0.1:8001".
        model: the model's name.
        inputs: name → array, or several of these, which are sent in turn.
        streaming: one bidirectional stream per connection (ModelStreamInfer) instead of a call per request.
        connections: TCP connections the requests are spread over.
        version: the model's version; "" is the newest.
        http_url: Triton's HTTP base, for its statistics; "": none are read.
        label: where it runs, for the result: "Triton 2.51.0 embedded · CPU ×2".
    """

    address: str
    model: str
    inputs: Tensors | Sequence[Tensors] = field(repr=False)
    streaming: bool = False
    connections: int = 2
    version: str = ""
    http_url: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        _host_port(self.address)
        whole("connections", self.connections, high=1024)

    @property
    def name(self) -> str:
        return f"{self.model} over gRPC" + (" streaming" if self.streaming else "")

    def prepare(self) -> Prepared:
        """Its requests as serialized ModelInferRequest messages."""
        bodies = tuple(_grpc_body(self.model, self.version, tensors) for tensors in each(self.inputs))
        return Prepared("stream" if self.streaming else "grpc", *_host_port(self.address), self.connections, bodies)


@dataclass(frozen=True, eq=False)
class HttpTarget:
    """A Triton model over HTTP, tensors in the binary extension.

    Attributes:
        url: Triton's HTTP base, "http://127.0.0.1:8000"; its statistics are read there, too.
        connections: the most TCP connections; HTTP/1.1 carries one request at a time on each.
        model, inputs, version, label: as in `GrpcTarget`.
    """

    url: str
    model: str
    inputs: Tensors | Sequence[Tensors] = field(repr=False)
    connections: int = 2048
    version: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        _split(self.url)
        whole("connections", self.connections, high=16_384)

    @property
    def http_url(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return f"{self.model} over HTTP"

    def prepare(self) -> Prepared:
        """Its requests, heads included."""
        host, port, base = _split(self.url)
        version = f"/versions/{quote(self.version, safe='')}" if self.version else ""
        path = f"{base.rstrip('/')}/v2/models/{quote(self.model, safe='')}{version}/infer"
        bodies = []
        for tensors in each(self.inputs):
            head, body = _binary_body(tensors)
            headers = {"Inference-Header-Content-Length": str(head), "Content-Type": "application/octet-stream"}
            bodies.append(_http_request("POST", host, port, path, headers, body))
        return Prepared("http", host, port, self.connections, tuple(bodies))


@dataclass(frozen=True, eq=False)
class EndpointTarget:
    """Any HTTP endpoint, such as a FastAPI route.

    Attributes:
        url: the whole address of the route.
        json: what is sent as JSON; or give `bodies`.
        bodies: raw bodies, sent in turn.
        content_type: of `bodies`.
        headers: further request headers.
        connections: as in `HttpTarget`.
        label: where it runs, for the result: "naive FastAPI · CPU ×2".
    """

    url: str
    json: Any = field(default=None, repr=False)
    bodies: Sequence[bytes] = field(default=(), repr=False)
    content_type: str = "application/json"
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    connections: int = 2048
    label: str = ""
    http_url: str = field(default="", init=False)

    def __post_init__(self) -> None:
        _split(self.url)
        whole("connections", self.connections, high=16_384)
        if self.json is not None and self.bodies:
            raise LoadError("endpoint: found json and bodies, expected one of them.", action="Leave one out.")
        if not self.method.isalpha():
            raise LoadError(f"method: found {self.method!r}, expected a word such as POST.")
        for name, value in self.headers.items():
            if any(sign in f"{name}{value}" for sign in "\r\n") or not name:
                raise LoadError(f"header {name!r}: found a line end or no name, expected one line each.")

    @property
    def name(self) -> str:
        return f"{self.method.upper()} {urlsplit(self.url).path or '/'}"

    def prepare(self) -> Prepared:
        """Its requests, heads included."""
        host, port, path = _split(self.url)
        if query := urlsplit(self.url).query:
            path += f"?{query}"
        bodies = [json_text.dumps(self.json).encode()] if self.json is not None else list(self.bodies) or [b""]
        headers = {"Content-Type": self.content_type, **self.headers}
        requests = (_http_request(self.method.upper(), host, port, path, headers, body) for body in bodies)
        return Prepared("http", host, port, self.connections, tuple(requests))


Target = GrpcTarget | HttpTarget | EndpointTarget


def triton_target(
    server: Server,
    model: str,
    inputs: Tensors | Sequence[Tensors] | None = None,
    *,
    protocol: str = "grpc",
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int = 1,
    connections: int | None = None,
    version: str = "",
    seed: int = 0,
) -> GrpcTarget | HttpTarget:
    """A model of a running server as a target.

    Args:
        server: what `serve()` gave; addresses, label and statistics come from it.
        model: the model's name.
        inputs: name → array, batch included, or several of these, sent in turn; None makes them up from the
            model's metadata.
        protocol: "grpc", "stream" (gRPC, one stream per connection) or "http".
        shapes: for made-up inputs, the whole shape of those with open dimensions.
        batch: for made-up inputs, the size of the batch axis.
        connections: TCP connections; each target's own default by default.
        version: the model's version; "" is the newest.
        seed: of the made-up inputs.

    Raises:
        ServerError: there is no such model.
        LoadError: the protocol is none of these, or inputs cannot be made up.
    """
    if protocol not in PROTOCOLS:
        raise LoadError(f"protocol: found {protocol!r}, expected one of {', '.join(PROTOCOLS)}.")
    if inputs is None:
        inputs = made_up_inputs(server.metadata(model), server.config(model), shapes=shapes, batch=batch, seed=seed)
    more: dict[str, Any] = {} if connections is None else {"connections": connections}
    if protocol == "http":
        return HttpTarget(server.http_url, model, inputs, version=version, label=server.label, **more)
    return GrpcTarget(
        *(server.grpc_address, model, inputs),
        **{"streaming": protocol == "stream", "version": version, "http_url": server.http_url, "label": server.label},
        **more,
    )


def each(inputs: Tensors | Sequence[Tensors]) -> list[Tensors]:
    several = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    for tensors in several:
        if not isinstance(tensors, Mapping) or not tensors:
            raise LoadError(f"inputs: found {type(tensors).__name__}, expected a dict of input name → array.")
    if not several:
        raise LoadError("inputs: found none, expected a dict of input name → array, or a list of these.")
    return several


def wire(name: str, array: np.ndarray) -> tuple[str, list[int], bytes]:
    """Triton's type name, shape and raw bytes of an array."""
    from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

    array = np.asarray(array)
    if array.dtype.kind in "US":
        array = array.astype(np.object_)
    kind = np_to_triton_dtype(array.dtype)
    if kind is None:
        raise LoadError(f"input '{name}': Triton has no type for numpy's {array.dtype}.", action="Convert the array.")
    if kind == "BYTES":
        packed = serialize_byte_tensor(array)
        return kind, list(array.shape), packed.item() if packed.size else b""
    return kind, list(array.shape), np.ascontiguousarray(array).tobytes()


def _grpc_body(model: str, version: str, tensors: Tensors) -> bytes:
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name=model, model_version=version)
    for name, array in tensors.items():
        kind, shape, raw = wire(name, array)
        request.inputs.add(name=name, datatype=kind, shape=shape)
        request.raw_input_contents.append(raw)
    return request.SerializeToString()


def _binary_body(tensors: Tensors) -> tuple[int, bytes]:
    """The length of the JSON part, and the whole body."""
    described, parts = [], []
    for name, array in tensors.items():
        kind, shape, raw = wire(name, array)
        described.append({"name": name, "datatype": kind, "shape": shape, "parameters": {"binary_data_size": len(raw)}})
        parts.append(raw)
    head = json_text.dumps({"inputs": described, "parameters": {"binary_data_output": True}}).encode()
    return len(head), b"".join([head, *parts])


def _http_request(method: str, host: str, port: int, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{port}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _host_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or "//" in address:
        raise LoadError(f"address: found {address!r}, expected HOST:PORT.", action="Give such as 127.0.0.1:8001.")
    return host, port


def _split(url: str) -> tuple[str, int, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        parts, host, port = urlsplit(""), None, 0
    if parts.scheme != "http" or not host:
        raise LoadError(f"url: found {url!r}, expected http://HOST:PORT/….", action="Give a plain HTTP address.")
    return host, port, parts.path or "/"
