"""The command line. Each command imports what it needs, so that `--help` answers at once."""

from __future__ import annotations

import sys

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")


@app.callback()
def workshop() -> None:
    """Checkpoint to Triton: a workshop from a trained checkpoint to a served model."""


@app.command()
def doctor() -> None:
    """Check this machine and say how to mend what is missing."""
    from tutorial_lib.doctor import doctor as examine

    report = examine()
    report.print()
    raise typer.Exit(0 if report.ok else 1)


def main() -> None:
    """Run a command; what a learner is meant to read is shown without a traceback."""
    from tutorial_lib.errors import WorkshopError

    try:
        app(prog_name="./workshop")
    except WorkshopError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
