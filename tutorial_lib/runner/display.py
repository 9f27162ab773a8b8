"""What `./workshop run` shows: a line for each notebook while it runs, and the result at the end."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from tutorial_lib.runner.report import Entry
from tutorial_lib.runner.run import Run

STYLES = {"passed": "green", "failed": "bold red", "skipped": "yellow"}
SIGNS = {"passed": "✓", "failed": "✗", "skipped": "○"}
SOURCE_LINES = 6
PREDICTION = "served_prediction"  # recorded by notebook 06


class PlainDisplay:
    """One line as a notebook begins and one as it ends, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def begin(self, name: str) -> None:
        self._print(f"  {name} …")

    def cell(self, name: str, number: int, total: int) -> None: ...

    def end(self, found: Entry) -> None:
        reason = f": {found.reason.splitlines()[0]}" if found.reason else ""
        self._print(f"{SIGNS[found.status]} {found.name} {found.status} in {found.seconds:.1f} s{reason}")

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


class LiveDisplay:
    """A line for each notebook with its cell and seconds, kept up to date in a terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.fields[sign]}"),
            TextColumn("{task.description}"),
            TextColumn("{task.fields[where]}", style="dim"),
            _Seconds(),
            console=console,
        )
        self._tasks: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, name: str) -> None:
        self._tasks[name] = self._progress.add_task(escape(name), sign="▸", where="starting", total=None)

    def cell(self, name: str, number: int, total: int) -> None:
        self._progress.update(self._tasks[name], where=f"cell {number}/{total}")

    def end(self, found: Entry) -> None:
        task, style = self._tasks[found.name], STYLES[found.status]
        sign, where = f"[{style}]{SIGNS[found.status]}[/]", f"[{style}]{found.status}[/]"
        self._progress.update(task, sign=sign, where=where, seconds=found.seconds)
        self._progress.stop_task(task)


class _Seconds(ProgressColumn):
    """Seconds a notebook has taken so far, or took."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.fields.get('seconds') or task.elapsed or 0:6.1f} s")


def display(console: Console) -> PlainDisplay | LiveDisplay:
    """The display that suits the console."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


def show_result(run: Run, console: Console) -> None:
    """Print what failed and why, the table of all notebooks, a served prediction and the report's place."""
    plain = {"markup": False, "highlight": False, "soft_wrap": True}
    for found in run.report.notebooks:
        if found.cell:
            _show_failure(found, console, run)
    console.print(_table(run))
    for found in run.report.notebooks:
        if found.reason:
            first = found.reason.split("\n")[0]
            console.print(f"{SIGNS[found.status]} {found.name}: {first}", style=STYLES[found.status], **plain)
        for step in found.skipped_steps:
            line = f"○ {found.name}, skipped step: {step['step']} ({step['reason']})"
            console.print(line, style=STYLES["skipped"], **plain)
    for found in run.report.notebooks:
        number = found.numbers.get(PREDICTION)
        if number:
            line = f"The served model's answer to a real handwritten digit: {number['value']}"
            console.print(f"\n{line} ({number['tier']})", **plain)
    if run.interrupted:
        console.print("\nInterrupted: the report is partial.", style="yellow")
    console.print(f"\nReport: {run.index}", **plain)


def _table(run: Run) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("notebook", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("tier")
    for found in run.report.notebooks:
        status = Text(f"{SIGNS[found.status]} {found.status}", style=STYLES[found.status])
        table.add_row(found.name, status, f"{found.seconds:.1f}", Text(found.tier))
    return table


def _show_failure(found: Entry, console: Console, run: Run) -> None:
    """The failing cell: where, its first lines, its error, and the page that shows all of it."""
    cell = found.cell or {}
    console.print(f"\n{found.name}, cell {cell['number']}:", style="bold red", highlight=False)
    lines = cell["source"].strip().splitlines()
    shown = [f"    {line}" for line in lines[:SOURCE_LINES]] + ["    …"] * (len(lines) > SOURCE_LINES)
    plain = {"markup": False, "highlight": False, "soft_wrap": True}
    console.print("\n".join(shown), style="dim", **plain)
    console.print(cell.get("error") or found.reason, style="red", **plain)
    console.print(f"  {run.folder / found.html}#cell-id={cell['id']}\n", **plain)
