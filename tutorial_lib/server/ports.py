"""Free ports for a server, and who has a port that is taken."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import psutil

from tutorial_lib.errors import PortInUseError

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        # as servers do: a connection in TIME_WAIT does not keep the port, a listener does
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def owner(port: int) -> str:
    """The process that listens on a port, as "name (pid 123)", or "" where that cannot be seen."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})" if connection.pid else ""
    except (psutil.Error, OSError):
        return ""
    return ""


def choose(wanted: Mapping[str, int | None]) -> dict[str, int]:
    """A port for each name: the one wanted, or a free one where None is wanted.

    Args:
        wanted: for example {"http": 8000, "grpc": None, "metrics": None}.

    Raises:
        PortInUseError: ports that were asked for are taken; all of them are named at once.
    """
    given = [port for port in wanted.values() if port is not None]
    for port in given:
        if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
            raise PortInUseError(f"port: found {port!r}, expected a whole number from 1 to 65535.")
    if len(set(given)) != len(given):
        raise PortInUseError(
            f"ports {dict(wanted)}: the same port is given twice.", action="Give three different ports."
        )
    taken = {name: port for name, port in wanted.items() if port is not None and not is_free(port)}
    if taken:
        found = []
        for name, port in taken.items():
            who = owner(port)
            found.append(f"{name} port {port} is taken{f' by {who}' if who else ''}")
        raise PortInUseError(
            f"{'; '.join(found)}.",
            action="Stop that process, give another port, or leave the port out and a free one is chosen.",
        )
    # hold all probes open together, so that the system hands out different ports
    probes, chosen = [], {}
    for name, port in wanted.items():
        while port is None:
            probe = socket.socket()
            probes.append(probe)
            probe.bind((LOOPBACK, 0))
            candidate = probe.getsockname()[1]
            port = candidate if candidate not in given else None
        chosen[name] = port
    for probe in probes:
        probe.close()
    return chosen
