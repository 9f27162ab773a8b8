"""`./workshop bench`: the performance claims, measured here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Such as `backend`; all are listed without a name.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one object: targets and raw measurements.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds; fewer than 5 give no interval.")] = 5,
    peers: Annotated[
        bool, typer.Option("--peers", help="`backend`: install and measure other serving frameworks, too.")
    ] = False,
    part: Annotated[list[str] | None, typer.Option(help="`backend`: only this part; may be repeated.")] = None,
) -> None:
    """Measure and compare with the targets. Exit 0 when all are met, 1 when one is missed."""
    import json

    from tutorial_lib.bench import HOMES
    from tutorial_lib.bench import bench as find
    from tutorial_lib.bench.result import table

    if not name:
        print("\n".join(f"{known:10} {about}" for known, (_, about) in HOMES.items()))
        return
    options = {"peers": peers, "parts": part} if peers or part else {}
    if options and name != "backend":
        raise typer.BadParameter(f"--peers and --part belong to 'backend', not to '{name}'")
    if part is None:
        options.pop("parts", None)
    result = find(name)(repeats=repeats, say=lambda line: print(line, file=sys.stderr, flush=True), **options)
    strict = {"indent": 2, "ensure_ascii": False, "allow_nan": False}
    print(json.dumps(result.as_dict(), **strict) if as_json else table(result))
    raise typer.Exit(0 if result.met else 1)
