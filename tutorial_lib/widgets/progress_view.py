"""The progress panel: which exercises are done."""

from __future__ import annotations

from html import escape

import ipywidgets
import pandas as pd

from tutorial_lib.course.progress import NOT_ATTEMPTED, RIGHT, WRONG, progress_table
from tutorial_lib.widgets import markup
from tutorial_lib.widgets.panel import Panel

STATES = {
    RIGHT: ("✓ right", markup.GREEN),
    WRONG: ("✗ not yet", markup.AMBER),
    NOT_ATTEMPTED: ("not yet tried", "inherit"),
}


class ProgressPanel(Panel):
    """The learner's progress table, with a button that reads it again."""

    title = "Your progress"

    def _look(self) -> None:
        self._table = self._static()
        self._show()

    _table = ""

    def _show(self) -> None:
        if self._widget is not None:
            self._shown.value = self._table

    def _static(self) -> str:
        return progress_html(progress_table())

    def _build(self) -> ipywidgets.Widget:
        self._shown = ipywidgets.HTML()
        button = ipywidgets.Button(description="Refresh", icon="refresh", layout=ipywidgets.Layout(width="100px"))
        button.on_click(lambda _: self._later(self._clicked))
        box = ipywidgets.VBox([self._shown, self._message, button])
        box.layout = ipywidgets.Layout(border="1px solid #76b900", padding="6px 10px", max_width="900px")
        box.add_class("workshop-progress-panel")
        return box

    def _clicked(self) -> None:
        self._say("")
        self._look()


def progress_panel() -> ProgressPanel:
    """A panel with one line per exercise of the course: done, not yet right, or not yet tried."""
    return ProgressPanel()


def progress_html(table: pd.DataFrame) -> str:
    """The table as HTML: a bar for the whole, then one line per exercise.

    Args:
        table: as `progress_table()` returns it.
    """
    if table.empty:
        return markup.note("There are no exercises yet.")
    done = int((table["state"] == RIGHT).sum())
    cell = 'style="text-align:left;padding:2px 14px 2px 0"'
    head = "".join(f"<th {cell}>{name}</th>" for name in ("notebook", "exercise", "", "attempts", "hints"))
    rows = []
    for row in table.itertuples():
        text, colour = STATES.get(row.state, (row.state, "inherit"))
        shown = f'<span style="color:{colour};white-space:nowrap">{escape(text)}</span>'
        values = (escape(str(row.notebook)), escape(str(row.exercise)), shown, row.attempts or "", row.hints or "")
        rows.append("<tr>" + "".join(f"<td {cell}>{value}</td>" for value in values) + "</tr>")
    total = markup.bars([f"{done} of {len(table)}"], [done / len(table)])
    return f'{total}<table style="line-height:1.3"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
