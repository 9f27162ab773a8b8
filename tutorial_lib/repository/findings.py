"""What the linter found: one finding, and all of them as a table, as HTML and as JSON."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tutorial_lib.paths import NOTEBOOKS

SEVERITIES = ("error", "warning", "info")
COLUMNS = ("rule", "severity", "model", "file", "line", "message", "found", "expected", "fix")


@dataclass(frozen=True)
class Edit:
    """One certain change of a text file.

    Attributes:
        start: where the old text begins, in characters from the file's beginning.
        end: where it ends.
        new: what takes its place.
    """

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    Attributes:
        rule: the rule's stable id, such as "batch-in-dims".
        severity: "error" (Triton refuses it, or answers wrongly), "warning" or "info".
        model: the model's folder name; "" for the repository itself.
        file: relative to the repository.
        line: 0 when the file has no line to point at.
        message: object, found, expected.
        fix: the exact edit, in words or as the new line.
        why: why it matters, in a sentence.
        lesson: the notebook section that teaches it, such as "04#fields-question".
        edits: what `./workshop lint --fix` would do in `file`; empty when no edit is certain.
        move: what it would move instead, and whereto, relative to the repository.
    """

    rule: str
    severity: str
    model: str
    file: str
    line: int
    message: str
    found: str
    expected: str
    fix: str
    why: str = ""
    lesson: str = ""
    edits: tuple[Edit, ...] = ()
    move: tuple[str, str] | None = None

    @property
    def place(self) -> str:
        """`densenet_onnx/config.pbtxt:12`, as editors understand it."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def link(self) -> str:
        """The section that teaches it, as a link in a notebook beside it; JupyterLab goes to the cell."""
        number, _, cell = self.lesson.partition("#")
        path = next(NOTEBOOKS.glob(f"{number}_*.ipynb"), None) if number else None
        return f"{path.name}#cell-id={cell}" if path else ""

    def as_dict(self) -> dict[str, Any]:
        """The nine fields of the JSON form."""
        return {name: getattr(self, name) for name in COLUMNS}

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.severity} [{self.rule}] {self.message}"]
        lines += [f"    {label}: {text}" for label, text in (("fix", self.fix), ("why", self.why)) if text]
        if self.link:
            lines.append(f"    lesson: notebooks/{self.link}")
        return "\n".join(lines)


class Findings(tuple[Finding, ...]):
    """The findings of one run: errors first within a model, in the order of the files."""

    __slots__ = ()

    def __new__(cls, findings: Iterable[Finding] = ()) -> Findings:
        return super().__new__(
            cls,
            sorted(findings, key=lambda one: (one.model, SEVERITIES.index(one.severity), one.file, one.line, one.rule)),
        )

    @property
    def errors(self) -> Findings:
        return Findings(one for one in self if one.severity == "error")

    @property
    def warnings(self) -> Findings:
        return Findings(one for one in self if one.severity == "warning")

    def of(self, model: str) -> Findings:
        """The findings of one model."""
        return Findings(one for one in self if one.model == model)

    def rules(self) -> set[str]:
        return {one.rule for one in self}

    def frame(self) -> pd.DataFrame:
        """One row a finding."""
        return pd.DataFrame([one.as_dict() for one in self], columns=list(COLUMNS))

    def json(self) -> str:
        """One array of objects, on several lines; in ASCII, since a file's name may be no text at all."""
        return json.dumps([one.as_dict() for one in self], indent=2)

    def summary(self) -> str:
        """`2 errors, 1 warning, 0 notes`."""
        counts = {name: sum(one.severity == name for one in self) for name in SEVERITIES}
        words = {"error": "error", "warning": "warning", "info": "note"}
        return ", ".join(f"{count} {words[name]}{'' if count == 1 else 's'}" for name, count in counts.items())

    def __str__(self) -> str:
        return "\n\n".join([*(str(one) for one in self), self.summary()])

    def _repr_html_(self) -> str:
        if not self:
            return "<p>No findings.</p>"
        colours = {"error": "#b3261e", "warning": "#8a5a00", "info": "#355c7d"}
        rows = "".join(
            f"<tr><td style='color:{colours[one.severity]}'><b>{one.severity}</b><br>"
            f"<code>{_safe(one.rule)}</code></td>"
            f"<td style='text-align:left'><code>{_safe(one.place)}</code></td>"
            f"<td style='text-align:left'>{_safe(one.message)}<br><b>Fix:</b> {_safe(one.fix)}"
            f"<br><i>{_safe(one.why)}</i>{_anchor(one.link)}</td></tr>"
            for one in self
        )
        return (
            f"<p>{self.summary()}</p><table><thead><tr><th>rule</th><th>where</th><th>what</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )


def _anchor(link: str) -> str:
    return f' <a href="{_safe(link)}">lesson</a>' if link else ""


def _safe(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
