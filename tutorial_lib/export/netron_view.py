"""Netron inside the notebook, or a still picture where nobody can look at a web page."""

from __future__ import annotations

import contextlib
import html
import io
import logging
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from tutorial_lib.course.interactive import interactive
from tutorial_lib.errors import PortInUseError, SetupError
from tutorial_lib.export.graph_picture import draw_graph
from tutorial_lib.export.onnx_file import read_onnx

HOST = "127.0.0.1"
_DEADLINE_S = 10.0
_IFRAME_HEIGHT = 560
# Netron's page asks ipinfo.io where its reader is and reports to Google; a browser that gets this header does neither
_POLICY = "default-src 'self' 'unsafe-inline' data: blob:"


@dataclass(frozen=True)
class NetronView:
    """Netron serving one file on this machine; shows itself in a notebook.

    Attributes:
        path: the ONNX file.
        url: where Netron answers.
        picture: shown instead of the live page when there is no browser; None otherwise.
    """

    path: Path
    url: str
    picture: Figure | None = field(default=None, repr=False)

    def stop(self) -> None:
        """Stop serving; the page in the notebook goes blank."""
        stop_netron(self.url)

    @property
    def running(self) -> bool:
        import netron

        return netron.status(_address(self.url))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        text = f"Netron: {self.path.name} at {self.url}"
        if self.picture is not None:
            buffer = io.BytesIO()
            self.picture.savefig(buffer, format="png")
            return {"image/png": buffer.getvalue(), "text/plain": f"{text} (still picture: no browser here)"}
        url = html.escape(self.url)
        frame = f'<iframe src="{url}" width="100%" height="{_IFRAME_HEIGHT}" style="border:1px solid #8888"></iframe>'
        link = f'<p>Empty? Open <a href="{url}" target="_blank">{url}</a> in a browser on this machine.</p>'
        return {"text/html": frame + link, "text/plain": text}


def show_netron(path: Path, port: int | None = None, *, browser: bool | None = None) -> NetronView:
    """Serve an ONNX file with Netron on the loopback address and show it.

    Netron shows one file at a time: a second call replaces the first. The server is a thread of this
    kernel and ends with it, at the latest.

    Args:
        port: where to listen; a free one by default.
        browser: whether a person is looking. By default only where somebody can type, so not in `./workshop run` and
            the tests; there the page is fetched once to see that it works and a still picture stands in for it.

    Raises:
        ExportError: the file is not ONNX.
        PortInUseError: something else listens at `port`.
        SetupError: Netron does not answer.
    """
    import netron

    path = Path(path)
    read_onnx(path)
    if browser is None:
        browser = interactive()
    stop_netron()
    with _undisturbed_logging(), _kept_on_this_machine():
        try:
            _, found = netron.start(str(path), address=(HOST, port or 0), browse=False)
        except OSError as error:
            raise PortInUseError(
                f"Netron: port {port} is taken ({error.strerror}).", action="Leave `port` out to get a free one."
            ) from error
    url = f"http://{HOST}:{found}"
    _ask(f"{url}/data/{path.name}", size=path.stat().st_size)
    if browser:
        return NetronView(path, url)
    stop_netron(url)
    return NetronView(path, url, draw_graph(path))


def stop_netron(url: str | None = None) -> None:
    """Stop the Netron at `url`, or any that runs in this kernel.

    Raises:
        SetupError: it still serves after some seconds.
    """
    import netron

    address = _address(url) if url else None
    deadline = time.monotonic() + _DEADLINE_S
    while netron.status(address):
        with _undisturbed_logging():
            netron.stop(address)
        if time.monotonic() > deadline:
            raise SetupError(f"Netron: still serving {_DEADLINE_S:.0f} s after being told to stop.")
        time.sleep(0.02)


@contextlib.contextmanager
def _kept_on_this_machine() -> Iterator[None]:
    """A Netron started inside the block forbids its page every other host."""
    from netron import server

    class Handler(server._HTTPRequestHandler):
        def end_headers(self) -> None:
            self.send_header("Content-Security-Policy", _POLICY)
            super().end_headers()

    before, server._HTTPRequestHandler = server._HTTPRequestHandler, Handler
    try:
        yield
    finally:
        server._HTTPRequestHandler = before


def _address(url: str) -> tuple[str, int]:
    host, _, port = url.rpartition("//")[2].partition(":")
    return host, int(port)


def _ask(url: str, *, size: int) -> None:
    try:
        # straight to the loopback address, whatever proxy the machine is set up with
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=_DEADLINE_S) as answer:
            found = len(answer.read())
    except OSError as error:
        raise SetupError(f"Netron: no answer at {url} ({error}).", action="Use draw_graph(path) instead.") from error
    if found != size:
        raise SetupError(f"Netron: found {found} bytes at {url}, expected the file's {size}.")


@contextlib.contextmanager
def _undisturbed_logging() -> Iterator[None]:
    """Netron sets up logging for the whole process unless somebody has; be that somebody for a moment."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
