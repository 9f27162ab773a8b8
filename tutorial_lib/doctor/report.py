"""What the doctor found: one line per check, in a terminal, a notebook or a data frame."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


class Status(StrEnum):
    """OK: as expected. WARN: the course runs, something is limited. FAIL: the course cannot run."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class CheckResult:
    """One line of the doctor's report.

    Attributes:
        name: what was looked at ("numpy").
        status: the verdict.
        found: what there is ("1.26.4").
        fix: what to do; empty when there is nothing to do.
    """

    name: str
    status: Status
    found: str
    fix: str = ""


_STYLES = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "bold red"}
_COLOURS = {Status.OK: "#2e7d32", Status.WARN: "#b26a00", Status.FAIL: "#c62828"}


class Report:
    """The results of all checks, in the order they were made.

    Args:
        results: one per check.
    """

    def __init__(self, results: Iterable[CheckResult]) -> None:
        self.results = tuple(results)

    @property
    def ok(self) -> bool:
        """Whether no check failed; warnings are allowed."""
        return not self.failed

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        return self._with(Status.FAIL)

    @property
    def warnings(self) -> tuple[CheckResult, ...]:
        return self._with(Status.WARN)

    @property
    def summary(self) -> str:
        """One sentence: how many checks, how many of them failed or warn."""
        count = f"{len(self.results)} checks: {len(self.failed)} failed, {len(self.warnings)} warnings."
        return f"{count} {'This machine can run the course.' if self.ok else 'Mend what failed, then try again.'}"

    def frame(self) -> pd.DataFrame:
        """The results as a data frame with the columns name, status, found and fix."""
        import pandas as pd

        rows = [(result.name, str(result.status), result.found, result.fix) for result in self.results]
        return pd.DataFrame(rows, columns=["name", "status", "found", "fix"])

    def print(self) -> None:
        """Print the report to the terminal."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for result in self.results:
            text = Text(result.found)
            if result.fix:
                text.append(f"\n→ {result.fix}", style=_STYLES[result.status])
            table.add_row(Text(result.status, style=_STYLES[result.status]), Text(result.name), text)
        console = Console()
        console.print(table)
        console.print(Text(f"\n{self.summary}", style=_STYLES[Status.OK if self.ok else Status.FAIL]))

    def __repr__(self) -> str:
        lines = [
            f"{result.status:<4}  {result.name}: {result.found}" + (f" → {result.fix}" if result.fix else "")
            for result in self.results
        ]
        return "\n".join([*lines, self.summary])

    def _repr_html_(self) -> str:
        rows = []
        for result in self.results:
            cells = (result.name, result.found, result.fix)
            name, found, fix = (f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in cells)
            mark = f'<td style="color:{_COLOURS[result.status]};font-weight:bold">{result.status}</td>'
            rows.append(f"<tr>{mark}{name}{found}{fix}</tr>")
        head = "<tr><th></th><th>check</th><th>found</th><th>what to do</th></tr>"
        return f"<table>{head}{''.join(rows)}</table><p>{html.escape(self.summary)}</p>"

    def _with(self, status: Status) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.status == status)
