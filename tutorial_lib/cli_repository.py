"""`./workshop config` and `lint`: write a config.pbtxt, check a model repository."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer


def config(
    onnx_file: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="The model; it is only read.")],
    name: Annotated[str, typer.Option(help="The model's name; by default the file's.")] = "",
    max_batch_size: Annotated[
        int | None, typer.Option(min=0, help="The largest batch; 8 by default where the graph has a batch axis.")
    ] = None,
    instances: Annotated[int | None, typer.Option(min=1, help="Copies of the model.")] = None,
    queue_delay_us: Annotated[
        int | None, typer.Option(min=0, help="How long a request may wait for others, in microseconds.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="A file with one class name a line.")] = None,
    example: Annotated[
        Path | None, typer.Option(help="A .npz with samples for the inputs, if made-up ones do not suit the graph.")
    ] = None,
    op_library: Annotated[Path | None, typer.Option(help="A shared library with custom operators.")] = None,
    release: Annotated[str, typer.Option(help="NGC tag of the Triton it is for, such as 24.10.")] = "",
    into: Annotated[
        Path | None, typer.Option(metavar="REPOSITORY", help="Lay the model out there; otherwise only print.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a model of that name.")] = False,
) -> None:
    """Write the config.pbtxt of an ONNX file, after opening it and trying several batch sizes."""
    from tutorial_lib.repository import add_model, generate_config
    from tutorial_lib.repository.probe import read_example

    options = {
        "name": name,
        "max_batch_size": max_batch_size,
        "instances": instances,
        "queue_delay_us": queue_delay_us,
        "labels": labels,
        "example": read_example(example) if example else None,
        "op_library": op_library,
        "release": release or None,
    }
    if into is None:
        print(generate_config(onnx_file, **options), end="")
        return
    folder = add_model(onnx_file, into, replace=replace, **options)
    print((folder / "config.pbtxt").read_text(encoding="utf-8"))
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(f"wrote {path}")


def lint(
    repository: Annotated[
        Path | None,
        typer.Argument(metavar="REPOSITORY", help="Model repository; by default the workspace's.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one array of findings.")] = False,
    tier: Annotated[Literal["embedded", "container"], typer.Option(help="The server it is for.")] = "embedded",
    gpus: Annotated[int, typer.Option(min=0, help="How many GPUs that server has.")] = 0,
    release: Annotated[str, typer.Option(help="NGC tag of that Triton, such as 24.10.")] = "",
    fix: Annotated[bool, typer.Option("--fix", help="Carry out the edits that are certain, and print them.")] = False,
) -> None:
    """Check a model repository before a server does. Exit 0 without errors, 1 with, 2 if it cannot be read."""
    from tutorial_lib.errors import WorkshopError
    from tutorial_lib.paths import workspace
    from tutorial_lib.repository.fix import find_fixes
    from tutorial_lib.repository.lint import lint_repository

    path = repository or workspace().model_repository
    options = {"tier": tier, "gpus": gpus, "release": release or None}
    try:
        if fix:
            fixes = find_fixes(path, **options)
            print(fixes.diff(), end="\n" if fixes else "", file=sys.stderr if as_json else sys.stdout)
            fixes.apply()
            for line in fixes.left:
                print(f"left: {line}", file=sys.stderr)
        findings = lint_repository(path, **options)
    except WorkshopError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    print(findings.json() if as_json else findings)
    raise typer.Exit(1 if findings.errors else 0)
