"""The command line. Each command imports what it needs, so that `--help` answers at once."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperGroup

from tutorial_lib.cli_bench import bench
from tutorial_lib.cli_course import reset, solve, status
from tutorial_lib.cli_explain import explain
from tutorial_lib.cli_gateway import gateway
from tutorial_lib.cli_load import load
from tutorial_lib.cli_repository import config, lint


class _Commands(TyperGroup):
    """The commands in the order a learner meets them; a number alone is understood as a notebook."""

    def list_commands(self, ctx: typer.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: typer.Context, args: list[str]):
        if args and args[0].isdecimal():
            ctx.fail(f"No such command '{args[0]}'. Did you mean 'run {args[0]}'?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def workshop() -> None:
    """Checkpoint to Triton: from a trained checkpoint to a model served on NVIDIA Triton."""


@app.command()
def run(
    notebooks: Annotated[
        list[str] | None, typer.Argument(help="Numbers or names, such as `04` or `launch`; all by default.")
    ] = None,
    mode: Annotated[
        Literal["quick", "full"], typer.Option(help="How much each notebook trains and measures.")
    ] = "quick",
    timeout_s: Annotated[
        float | None,
        typer.Option(min=1, help="Deadline for each notebook; 180 in quick mode, 900 in full mode."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of every notebook.")] = 0,
    url: Annotated[str, typer.Option(help="HTTP address of a running Triton to use instead of starting one.")] = "",
) -> None:
    """Execute the notebooks in order and write a report.

    Everything goes into a new folder in `workspace/runs/`, linked as `latest`; the newest 10 are kept.
    """
    from rich.console import Console

    from tutorial_lib.runner import run_notebooks, select
    from tutorial_lib.runner.display import display, show_result

    chosen = select(notebooks or [])
    console = Console()
    with display(console) as shown:
        result = run_notebooks(chosen, mode=mode, timeout_s=timeout_s, seed=seed, url=url, display=shown)
    show_result(result, console)
    raise typer.Exit(result.exit_code)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def test(
    ctx: typer.Context,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Passed to pytest, such as `tests/unit -k paths`.")
    ] = None,
) -> None:
    """Run the tests; without arguments all of them, in two lanes where there are two cores."""
    from tutorial_lib.errors import SetupError
    from tutorial_lib.paths import CHECKOUT
    from tutorial_lib.versions import cpu_count

    try:
        import pytest  # noqa: F401 - only whether it is there
    except ModuleNotFoundError as error:
        raise SetupError("pytest: it is not installed.", action="Run ./workshop, which installs it.") from error
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    os.chdir(CHECKOUT)
    sys.stdout.flush()
    # most tests wait for a server or a clock: a second lane has the cores meanwhile
    lanes = ["-n", "2", "--no-loadscope-reorder"] if not arguments and cpu_count() > 1 else []
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *lanes, *(arguments or [])])


@app.command()
def lab(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port; by default 8888, or a free one.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    notebooks: Annotated[
        Path | None, typer.Option(help="Folder with your own copies; by default the checkout's.", show_default=False)
    ] = None,
) -> None:
    """Open the course in JupyterLab; Ctrl-C stops it and its kernels."""
    import webbrowser

    from tutorial_lib.errors import SetupError
    from tutorial_lib.runner.lab import lab as start_lab

    with _signalled() as stopped, start_lab(port=port, notebooks=notebooks) as started:
        print(f"JupyterLab: {started.url}\nLog:        {started.log_path}\nCtrl-C stops it.", flush=True)
        if browser and any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")):
            webbrowser.open(started.url)
        while not stopped(1.0):
            if started.process.poll() is not None:
                raise SetupError("JupyterLab: it has ended.", action=f"Its log is {started.log_path}.")
        print("Stopping JupyterLab and its kernels …", flush=True)


@app.command()
def serve(
    repository: Annotated[
        Path | None, typer.Argument(help="Model repository; by default the workspace's.", show_default=False)
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="Model to load; may be repeated. All by default.")] = None,
    http_port: Annotated[int | None, typer.Option(min=1, max=65535, help="Free by default.")] = None,
    grpc_port: Annotated[int | None, typer.Option(min=1, max=65535, help="Free by default.")] = None,
    metrics_port: Annotated[int | None, typer.Option(min=1, max=65535, help="Free by default.")] = None,
) -> None:
    """Run Triton in the foreground until Ctrl-C."""
    import warnings

    from tutorial_lib.errors import ServerError
    from tutorial_lib.server import serve as start_server

    with _signalled() as stopped:
        if repository is None:
            from tutorial_lib.course.catch_up import LAST_STEP, catch_up

            catch_up(LAST_STEP)  # git holds no weights: make what is missing
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            server = start_server(
                repository, models=model, http_port=http_port, grpc_port=grpc_port, metrics_port=metrics_port
            )
        with server:
            print(server.label)
            print(f"  HTTP     {server.http_address}")
            print(f"  gRPC     {server.grpc_address}")
            print(f"  metrics  {server.metrics_url}")
            print(f"  log      {server.log_path}")
            for entry in server.models().itertuples():
                print(f"  model    {entry.name} {entry.version} {entry.state} {entry.reason}".rstrip())
            for warning in noted:
                print(warning.message, file=sys.stderr)
            print("Ctrl-C stops it.", flush=True)
            while not stopped(1.0):
                if not server.running:
                    problem = f"tritonserver: it has ended ({server.process.ending}); its log is {server.log_path}."
                    details = "\n".join(server.decisive_lines()) or server.log_tail(10)
                    raise ServerError(problem, details=details)
            print("Stopping …", flush=True)


for _command in (config, lint, explain, load, gateway, bench, solve, reset, status):
    app.command()(_command)


@app.command()
def doctor() -> None:
    """Check this machine and say how to mend what is missing."""
    from tutorial_lib.doctor import doctor as examine

    report = examine()
    report.print()
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also what you made: model repository, checkpoints, exports.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --all.")] = False,
) -> None:
    """Remove old runs, logs, records and caches from the workspace; notebooks are never touched."""
    from tutorial_lib.paths import workspace
    from tutorial_lib.runner.clean import carry_out, plan

    home = workspace()
    wanted = plan(home, everything=everything)
    for path, reason in wanted.keep:
        print(f"keep    {path}  ({reason})")
    for path, size_mib in wanted.remove:
        print(f"remove  {path}  ({size_mib:.1f} MiB)")
    if not wanted.remove:
        print("Nothing to remove.")
        return
    if everything and not yes:
        typer.confirm("Remove all of this?", abort=True)
    carry_out(wanted, home)
    print(f"Removed {sum(size for _, size in wanted.remove):.1f} MiB.")


class _signalled:
    """Inside the block SIGINT and SIGTERM end a start under way; once the start is done they are noted.

    Asked by calling, with the seconds to wait; the first call says that the start is done.
    """

    def __enter__(self) -> Callable[[float], bool]:
        import threading

        self._event, self._asked = threading.Event(), False
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self._wait

    def _note(self, number: int, _: object) -> None:
        self._event.set()
        if not self._asked:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def _wait(self, seconds: float) -> bool:
        self._asked = True
        return self._event.wait(seconds)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def main() -> None:
    """Run a command; what a learner is meant to read is shown without a traceback."""
    from tutorial_lib.errors import WorkshopError

    for stream in (sys.stdout, sys.stderr):  # names of files that are no text, and terminals that know ASCII only
        stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="./workshop")
    except WorkshopError as error:
        _say(f"{type(error).__name__}: {error}")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        what = error.filename2 or error.filename or "a file"  # the second is where a copy goes
        _say(f"The disk is full: {what} could not be written. ./workshop clean makes room.")
    sys.exit(1)


def _say(message: str) -> None:
    """The message on standard error, its first line red in a terminal."""
    head, line_end, rest = message.partition("\n")
    coloured = f"\x1b[31m{head}\x1b[0m" if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else head
    print(coloured + line_end + rest, file=sys.stderr)
