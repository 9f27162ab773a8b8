"""`./workshop explain`: a Triton log in words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def explain(
    log: Annotated[
        str, typer.Argument(help="Log file, or `-` for standard input; by default the newest.", show_default=False)
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one array of objects.")] = False,
) -> None:
    """Say in words why Triton refused a model: from any log, also pasted from `docker logs`.

    Exit status 0 when nothing failed, 1 when something did, 2 when the log cannot be read.
    """
    import json
    from dataclasses import asdict

    from tutorial_lib.errors import ServerError
    from tutorial_lib.server.explain import explain_file, explain_lines

    try:
        if log == "-":
            sys.stdin.reconfigure(errors="replace")
            found = explain_lines(sys.stdin)
        else:
            found = explain_file(log or _newest_log())
    except ServerError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    if as_json:
        print(json.dumps([asdict(item) for item in found], indent=2))
    else:
        print("\n\n".join(map(str, found)) or "Nothing failed in this log.")
    raise typer.Exit(1 if any(item.severity == "error" for item in found) else 0)


def _newest_log() -> Path:
    """The log of the server started last.

    Raises:
        ServerError: there is none yet.
    """
    from tutorial_lib.errors import ServerError
    from tutorial_lib.paths import workspace

    logs = sorted(workspace().logs.glob("triton-*.log"), key=lambda path: path.stat().st_mtime)
    if not logs:
        raise ServerError(f"{workspace().logs}: it holds no Triton log.", action="Name a log file.")
    return logs[-1]
