"""Where a finding of the linter is taught: "04#fields-question" as a section's title and a link to it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from tutorial_lib.errors import NotebookError
from tutorial_lib.paths import NOTEBOOKS

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

    from tutorial_lib.repository.findings import Findings


@dataclass(frozen=True)
class Lesson:
    """A section of a notebook.

    Attributes:
        notebook: the file's name.
        cell: the id of the cell with the heading.
        title: the section's heading, without the marks.
    """

    notebook: str
    cell: str
    title: str

    @property
    def href(self) -> str:
        """As a link in a notebook beside it; JupyterLab and the report's pages go to the cell."""
        return f"{self.notebook}#cell-id={self.cell}"


@functools.cache
def find_lesson(lesson: str) -> Lesson:
    """The section that a rule's `lesson` names.

    Args:
        lesson: number of the notebook and the id of the cell with the heading.

    Raises:
        NotebookError: there is no such notebook or cell, or the cell has no heading.
    """
    import nbformat

    number, _, identity = lesson.partition("#")
    for path in NOTEBOOKS.glob(f"{number}_*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            heading = re.match(r"## (.+)", cell.source) if cell.get("id") == identity else None
            if heading:
                return Lesson(path.name, identity, heading[1].strip())
    raise NotebookError(f"lesson {lesson!r}: found no such section, expected one with a heading.")


def findings_table(found: Mapping[str, Findings]) -> Styler:
    """A table for a notebook: what the linter says to several repositories, each finding with its lesson.

    Args:
        found: how to call the repository → its findings.
    """
    import pandas as pd

    rows = [
        (name, one.severity, one.rule, one.place, one.found, one.fix, _link(one.lesson))
        for name, findings in found.items()
        for one in findings
    ]
    table = pd.DataFrame(rows, columns=["repository", "severity", "rule", "where", "found", "fix", "lesson"])
    texts = [column for column in table.columns if column != "lesson"]
    styler = table.style.hide(axis="index").format(str, subset=texts, escape="html")
    left = [{"selector": "th, td", "props": "text-align: left; vertical-align: top"}]
    return styler.set_table_styles(left)


def _link(lesson: str) -> str:
    if not lesson:
        return ""
    section = find_lesson(lesson)
    return f'<a href="{escape(section.href)}">{escape(f"{lesson[:2]} · {section.title}")}</a>'
