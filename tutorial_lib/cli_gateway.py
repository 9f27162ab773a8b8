"""`./workshop gateway`: the HTTP gateway in front of a Triton."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tutorial_lib.models.names import MODEL_NAME


def gateway(
    model: Annotated[
        list[str] | None, typer.Option(help=f"Model to serve; may be repeated. `{MODEL_NAME}` by default.")
    ] = None,
    triton: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="gRPC address of a running Triton; one is started by default.")
    ] = "",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Free by default.")] = None,
    scaling: Annotated[
        Literal["INCEPTION", "IMAGENET", "NONE"], typer.Option(help="Pixels: −1 to 1, by channel, 0 to 255.")
    ] = "INCEPTION",
    max_in_flight: Annotated[int, typer.Option(help="Requests under way; one more gets 429.")] = 512,
    max_body_mib: Annotated[float, typer.Option(help="The largest request. All together: 64 MiB, or one such.")] = 4.0,
    max_pixels: Annotated[int, typer.Option(help="The largest picture.")] = 16_000_000,
    own_cores: Annotated[
        bool,
        typer.Option(
            "--own-cores", help="One core for the gateway, all others for its Triton; measure whether it pays."
        ),
    ] = False,
    timeout_s: Annotated[float, typer.Option(help="A request's deadline, unless it brings its own.")] = 5.0,
) -> None:
    """Run the gateway in the foreground, with a Triton behind it, until Ctrl-C."""
    import contextlib
    from dataclasses import asdict

    from tutorial_lib.cli import _signalled
    from tutorial_lib.cores import split_cores
    from tutorial_lib.errors import ServerError
    from tutorial_lib.gateway import Settings, start_gateway
    from tutorial_lib.gateway.settings import BUFFERED_MIB

    models = tuple(model or (MODEL_NAME,))
    limits = {
        "scaling": scaling,
        "max_in_flight": max_in_flight,
        "max_body_mib": max_body_mib,
        "max_buffered_mib": max(max_body_mib, BUFFERED_MIB),
        "max_pixels": max_pixels,
        "default_timeout_s": timeout_s,
        "max_timeout_s": max(timeout_s, 60.0),
    }
    checked = asdict(Settings(triton=triton or "127.0.0.1:1", models=models, **limits))  # before anything is started
    if own_cores and triton:
        raise ServerError("--own-cores: found --triton with it.", action="Start that Triton with taskset -c, and the "
                          "gateway, too, on other cores.")  # fmt: skip
    ours, theirs = split_cores() if own_cores else (None, None)
    if own_cores and not ours:
        print("--own-cores: there is one core, which both share.")
    with _signalled() as stopped, contextlib.ExitStack() as stack:
        address = triton
        if not triton:
            from tutorial_lib.course.catch_up import LAST_STEP, catch_up
            from tutorial_lib.server import serve

            space = catch_up(LAST_STEP)  # git holds no weights: make what is missing
            server = stack.enter_context(serve(space.model_repository, models=models, cores=theirs))
            address = server.grpc_address
            print(f"{server.label}: gRPC {server.grpc_address}, HTTP {server.http_address}, log {server.log_path}")
        started = stack.enter_context(start_gateway(address, port=port, models=models, cores=ours, **limits))
        print(f"Gateway in front of {address}, models {', '.join(checked['models'])}")
        for name, path in (
            ("predict", "/predict"),
            ("docs", "/docs"),
            ("health", "/health/ready"),
            ("metrics", "/metrics"),
        ):
            print(f"  {name:8} {started.url}{path}")
        print(f"  {'log':8} {started.log_path}\nCtrl-C stops it.", flush=True)
        while not stopped(1.0):
            if not started.running:
                raise ServerError("gateway: it has ended.", action=f"Its log is {started.log_path}.",
                                  details=started.log_tail(10))  # fmt: skip
        print("Stopping …", flush=True)
