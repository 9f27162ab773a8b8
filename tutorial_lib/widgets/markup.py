"""The small pieces of HTML that panels are made of; every text that comes from elsewhere is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tutorial_lib.errors import WorkshopError

GREEN, RED, AMBER, GREY, BLUE = "#2e8b57", "#c0392b", "#b8860b", "#7a7a7a", "#3b7dd8"
_MESSAGE_LIMIT = 2000  # characters: a message is read, a log is opened

# theme variables of JupyterLab, with what fits any page where there are none
_BORDER = "var(--jp-border-color1, #9e9e9e)"
_SHADE = "var(--jp-layout-color2, rgba(128, 128, 128, 0.12))"


def card(title: str, *parts: str) -> str:
    """A framed block: a title and what stands below it, already HTML."""
    return (
        '<div style="border:1px solid #76b900;border-radius:6px;padding:8px 12px;max-width:100%;overflow-x:auto">'
        f'<div style="font-weight:600;margin-bottom:4px">{escape(title)}</div>{"".join(parts)}</div>'
    )


def note(text: str, *, colour: str = "inherit") -> str:
    """One paragraph of plain text; line breaks stay."""
    shown = text if len(text) <= _MESSAGE_LIMIT else f"{text[:_MESSAGE_LIMIT]} …"
    return f'<div style="color:{colour};white-space:pre-wrap;line-height:1.4;margin:2px 0">{escape(shown)}</div>'


def problem(text: str) -> str:
    """As `note`, marked as something that went wrong; the text keeps the page's own colour, to be readable."""
    return f'<div style="border-left:4px solid {RED};padding-left:8px;margin:4px 0">{note(text)}</div>'


def in_words(error: BaseException) -> str:
    """An error as a panel shows it: a learner's error by its sentence, any other with its type before it."""
    if isinstance(error, WorkshopError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def badge(text: str, colour: str) -> str:
    """A coloured dot and a word; the word alone says it, too."""
    return f'<span style="white-space:nowrap"><span style="color:{colour}">●</span> {escape(text)}</span>'


def bars(labels: Sequence[str], shares: Sequence[float], *, unit: str = "%") -> str:
    """Labels with horizontal bars.

    Args:
        labels: one for each bar.
        shares: 0 to 1, one for each bar.
    """
    rows = []
    for place, (label, share) in enumerate(zip(labels, shares, strict=True)):
        width = 100 * min(max(share, 0.0), 1.0)
        colour = "#1b7f5f" if place == 0 else GREY
        weight = "600" if place == 0 else "400"
        rows.append(
            f'<div style="display:flex;align-items:center;gap:8px;margin:3px 0;font-weight:{weight}">'
            f'<span class="workshop-label" style="width:5em;text-align:right">{escape(label)}</span>'
            f'<span style="flex:0 0 180px;height:14px;background:{_SHADE}">'
            f'<span style="display:block;height:14px;width:{width:.1f}%;background:{colour}"></span></span>'
            f"<span>{100 * share:.1f} {unit}</span></div>"
        )
    return "".join(rows)


def cells(picture: Sequence[Sequence[float]], *, highest: float, size_px: int = 18) -> str:
    """A small grey picture as a table of coloured cells; 0 is paper.

    Args:
        picture: rows of values from 0 to `highest`.
    """
    rows = []
    for line in picture:
        shades = "".join(
            f'<td style="width:{size_px}px;height:{size_px}px;padding:0;border:1px solid #d0d0d0;'
            f'background:{shade(value, highest)}"></td>'
            for value in line
        )
        rows.append(f"<tr>{shades}</tr>")
    return f'<table style="border-collapse:collapse;margin:4px 0">{"".join(rows)}</table>'


def shade(value: float, highest: float) -> str:
    """Ink as a colour: 0 is white, `highest` is black; the same on light and dark pages."""
    level = round(255 * (1 - min(max(value / highest, 0.0), 1.0)))
    return f"#{level:02x}{level:02x}{level:02x}"


def log_block(lines: Sequence[str]) -> str:
    """Log lines as they are; errors and warnings, by Triton's first letter, have a mark."""
    marks = {"E": RED, "W": AMBER}
    shown = ""
    for line in lines:
        mark = marks.get(line[:1], "transparent") if line[1:5].isdigit() else "transparent"
        shown += f'<div style="border-left:3px solid {mark};padding-left:5px">{escape(line)}</div>'
    style = (
        f"background:{_SHADE};border:1px solid {_BORDER};border-radius:3px;padding:4px 8px 4px 3px;margin:2px 0;"
        "font-family:var(--jp-code-font-family, monospace);font-size:11px;line-height:1.35;white-space:pre;"
        "overflow-x:auto;box-sizing:border-box;width:0;min-width:100%"  # a long line must not widen the panel
    )
    return f'<div class="workshop-log" style="{style}">{shown or "(the log is empty)"}</div>'
