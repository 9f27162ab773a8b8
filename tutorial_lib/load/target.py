"""What a load run sends its requests to: a Triton model over gRPC or HTTP, or any HTTP endpoint.

Requests are put into their wire form once, before the run; the generator only sends bytes.
"""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from tutorial_lib.errors import LoadError
from tutorial_lib.load.checks import whole
from tutorial_lib.load.http_request import check_bodies, check_headers, check_method, http_request, split_url
from tutorial_lib.load.made_up import made_up_inputs
from tutorial_lib.load.tensors import Tensors, binary_body, each, grpc_body

if TYPE_CHECKING:
    from tutorial_lib.server import Server

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
        _check_model(self.model, self.version)
        whole("connections", self.connections, high=1024)

    @property
    def name(self) -> str:
        return f"{self.model} over gRPC" + (" streaming" if self.streaming else "")

    def prepare(self) -> Prepared:
        """Its requests as serialized ModelInferRequest messages."""
        bodies = tuple(grpc_body(self.model, self.version, tensors) for tensors in each(self.inputs))
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
        split_url(self.url)
        _check_model(self.model, self.version)
        whole("connections", self.connections, high=16_384)

    @property
    def http_url(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return f"{self.model} over HTTP"

    def prepare(self) -> Prepared:
        """Its requests, heads included."""
        host, port, base = split_url(self.url)
        version = f"/versions/{quote(self.version, safe='')}" if self.version else ""
        path = f"{base.partition('?')[0].rstrip('/')}/v2/models/{quote(self.model, safe='')}{version}/infer"
        bodies = []
        for tensors in each(self.inputs):
            head, body = binary_body(tensors)
            headers = {"Inference-Header-Content-Length": str(head), "Content-Type": "application/octet-stream"}
            bodies.append(http_request("POST", host, port, path, headers, body))
        return Prepared("http", host, port, self.connections, tuple(bodies))


@dataclass(frozen=True, eq=False)
class EndpointTarget:
    """Any HTTP endpoint, such as a FastAPI route.

    Attributes:
        url: the whole address of the route, percent-encoded.
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
        split_url(self.url)
        whole("connections", self.connections, high=16_384)
        check_method(self.method)
        check_headers(self.headers)
        check_headers({"Content-Type": self.content_type})
        check_bodies(self.bodies)
        if self.json is not None and len(self.bodies):
            raise LoadError("endpoint: found json and bodies, expected one of them.", action="Leave one out.")

    @property
    def name(self) -> str:
        return f"{self.method.upper()} {urlsplit(self.url).path or '/'}"

    def prepare(self) -> Prepared:
        """Its requests, heads included."""
        host, port, path = split_url(self.url)
        bodies = [self._json_body()] if self.json is not None else list(self.bodies) or [b""]
        # one Content-Type, however it is spelt
        own = {} if "content-type" in map(str.lower, self.headers) else {"Content-Type": self.content_type}
        requests = (
            http_request(self.method.upper(), host, port, path, own | dict(self.headers), body) for body in bodies
        )
        return Prepared("http", host, port, self.connections, tuple(requests))

    def _json_body(self) -> bytes:
        try:
            return json_text.dumps(self.json).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise LoadError(
                f"json: found {type(self.json).__name__}, expected what JSON has: {error}.",
                action="Give dicts, lists, texts, numbers, True, False and None.",
            ) from None


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


def _check_model(model: str, version: str) -> None:
    if not isinstance(model, str) or not model or not model.isprintable():
        raise LoadError(f"model: found {model!r}, expected its name.")
    if not isinstance(version, str) or not version.isascii():
        raise LoadError(f"version: found {version!r}, expected a text.", action="Give such as version='1'.")


def _host_port(address: str) -> tuple[str, int]:
    address = str(address)
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or "//" in address or not all("!" <= sign <= "~" for sign in address):
        raise LoadError(f"address: found {address!r}, expected HOST:PORT.", action="Give such as 127.0.0.1:8001.")
    return host, port
