"""The child process: uvicorn with an application made from settings, `python -m tutorial_lib.web.child ORDER`."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
from typing import Any

from tutorial_lib.server.ports import LOOPBACK
from tutorial_lib.web.order import IDENTITY_HEADER, ORDER_VARIABLE

PR_SET_PDEATHSIG = 1
BACKLOG = 1024
KEEP_ALIVE_S = 30


def application() -> Any:
    """The application that this process was told to serve; uvicorn calls it in every worker."""
    # a worker whose parent was killed must not go on: uvicorn's own workers would
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    told = json.loads(os.environ[ORDER_VARIABLE])
    module, _, name = told["factory"].partition(":")
    app = getattr(importlib.import_module(module), name)(**told["settings"])
    gc.collect()
    gc.freeze()  # what was imported stays; without it every collection walks all of it
    return app


def main() -> None:
    """Serve until the supervisor asks to end."""
    import uvicorn

    os.environ[ORDER_VARIABLE] = sys.argv[1]
    told = json.loads(sys.argv[1])
    uvicorn.run(
        f"{__spec__.name}:application",
        factory=True,
        host=LOOPBACK,
        port=told["port"],
        workers=told["workers"],
        headers=[(IDENTITY_HEADER, told["identity"])],
        http="tutorial_lib.web.protocol:LimitedHttp",
        access_log=False,
        log_level="info",  # the start of each worker is waited for
        server_header=False,
        proxy_headers=False,  # nobody stands in front of it
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=2,
    )


if __name__ == "__main__":
    main()
