"""The servers of this Python process: each set of arguments starts one, and all end with the process."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable

from tutorial_lib.server.server import Server
from tutorial_lib.versions import cpu_count

_servers: dict[tuple, Server] = {}
_starts: dict[tuple, threading.RLock] = {}
# held for a look only: a start takes long, and meanwhile others ask for the label of what runs already
_lock = threading.Lock()


def remember(key: tuple, start: Callable[[], Server]) -> Server:
    """The running server that was started for `key`, else a new one; two threads never start it twice.

    Args:
        key: all that the server depends on.
        start: starts it.
    """
    with _lock:
        one_at_a_time = _starts.setdefault(key, threading.RLock())
    with one_at_a_time:
        with _lock:
            known = _servers.get(key)
        if known is not None and known.running:
            return known
        server = start()
        with _lock:
            _servers.pop(key, None)  # the newest is last
            _servers[key] = server
        return server


def servers() -> list[Server]:
    """The servers this process has started or attached to and not stopped."""
    with _lock:
        known = list(_servers.items())
    ended = [(key, server) for key, server in known if not server.running]  # unlocked: it may ask the server
    with _lock:
        for key, server in ended:
            if _servers.get(key) is server:
                del _servers[key]
    return [server for key, server in known if (key, server) not in ended]


def stop_all() -> None:
    """Stop every server this process started."""
    while True:
        with _lock:
            if not _servers:
                return
            _, server = _servers.popitem()
        server.stop()


def label() -> str:
    """The label of this process's newest server, or that there is none."""
    running = servers()
    return running[-1].label if running else f"no server · CPU ×{cpu_count()}"


atexit.register(stop_all)
