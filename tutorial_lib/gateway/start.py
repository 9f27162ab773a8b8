"""Start a gateway in a process of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from tutorial_lib.gateway.settings import Settings
from tutorial_lib.models.names import MODEL_NAME
from tutorial_lib.server import Server
from tutorial_lib.web import WebServer, start_app


def start_gateway(
    triton: Server | str,
    *,
    models: Sequence[str] = (MODEL_NAME,),
    port: int | None = None,
    cores: Iterable[int] | None = None,
    startup_timeout_s: float = 60.0,
    **settings: Any,
) -> WebServer:
    """Start a gateway in front of a Triton; called again with the same arguments, it returns the running one.

    It listens on loopback only and ends with this process. It starts whether or not Triton answers:
    `GET /health/ready` says.

    Args:
        triton: the server, or its gRPC address HOST:PORT.
        models: the models to serve; the first one answers `POST /predict`.
        port: a port of loopback, or None for a free one.
        cores: numbers of the cores it may use; None for all. With the small model of `./workshop bench gateway`
            it is faster on one of its own, beside `serve(cores=…)` on the others; with yours, measure.
        startup_timeout_s: the longest to wait.
        settings: further attributes of `Settings`.

    Raises:
        GatewayError: a setting is out of its bounds.
        PortInUseError: the port that was given is taken.
        ServerError: it did not start, or it may not use one of the cores.
    """
    address = triton if isinstance(triton, str) else triton.grpc_address
    checked = Settings(triton=address, models=tuple(models), **settings)
    return start_app(
        "gateway",
        "tutorial_lib.gateway.app:create_app",
        settings=asdict(checked) | {"models": list(checked.models)},
        health="/health/live",
        port=port,
        cores=cores,
        startup_timeout_s=startup_timeout_s,
    )
