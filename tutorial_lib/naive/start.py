"""Start the naive app in one of its variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tutorial_lib.errors import ServerError
from tutorial_lib.models.names import CLASSES, IMAGE_SHAPE
from tutorial_lib.web import WebServer, start_app


@dataclass(frozen=True)
class Variant:
    """A way to run the app.

    Attributes:
        blocking: `async def`, else a plain `def` in the thread pool.
        workers: processes.
        engine: "torch" or "onnx".
    """

    blocking: bool
    workers: int
    engine: str


VARIANTS = {
    "blocking": Variant(blocking=True, workers=1, engine="torch"),
    "threads": Variant(blocking=False, workers=1, engine="torch"),
    "workers": Variant(blocking=False, workers=2, engine="torch"),
    "workers onnx": Variant(blocking=False, workers=2, engine="onnx"),
}


def start_naive(
    variant: str = "blocking",
    *,
    weights: Path | str | None = None,
    labels: Sequence[str] = CLASSES,
    side: int = IMAGE_SHAPE[1],
    threads: int | None = 1,
    port: int | None = None,
) -> WebServer:
    """Start the naive app in a process of its own; called again, it returns the running one.

    Args:
        variant: one of `VARIANTS`.
        weights: the model's file, by default what notebooks 01 and 02 left in the workspace; with the torch
            engine also "module:function", which makes a network.
        labels: the class names, in order.
        side: height and width that the model takes.
        threads: how many compute one picture. By default 1, which is kind to the app: PyTorch's own choice, all
            cores, collapses as soon as anything else wants them. None leaves it to the engine.
        port: a port of loopback, or None for a free one.

    Raises:
        ServerError: there is no such variant, the model's file is not there, or the app did not start.
        PortInUseError: the port that was given is taken.
    """
    if variant not in VARIANTS:
        raise ServerError(f"naive app: found variant '{variant}', expected one of {', '.join(VARIANTS)}.")
    chosen = VARIANTS[variant]
    weights = _default_weights(chosen.engine) if weights is None else weights
    if ":" not in str(weights) and not Path(weights).is_file():
        raise ServerError(f"naive app: found no file {weights}.", action='Call catch_up("10"), which makes it.')
    return start_app(
        f"naive FastAPI ({variant})",
        "tutorial_lib.naive.app:create_app",
        settings={
            "weights": str(weights),
            "engine": chosen.engine,
            "labels": list(labels),
            "side": side,
            "blocking": chosen.blocking,
            "threads": threads,
        },
        health="/health",
        workers=chosen.workers,
        port=port,
    )


def _default_weights(engine: str) -> Path:
    from tutorial_lib.checkpoint import default_path
    from tutorial_lib.course.catch_up import export_path
    from tutorial_lib.paths import workspace

    return default_path(workspace()) if engine == "torch" else export_path(workspace())
