"""The pages of a run that a person opens: each executed notebook, and the index."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from tutorial_lib.paths import atomic_write
from tutorial_lib.runner.report import Report

KEY_PLOT = "key-plot"
_WIDGET = "application/vnd.jupyter.widget-view+json"
_WIDGET_STATE = "application/vnd.jupyter.widget-state+json"

# The exporter's page without the scripts that it loads from the internet: a report opens anywhere.
_OFFLINE = """{%- extends 'lab/index.html.j2' -%}
{%- block html_head_js_requirejs -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
"""
_OFFLINE_WITHOUT_FORMULAS = _OFFLINE + "{%- block html_head_js_mathjax -%}{%- endblock -%}\n"


def export_html(executed: Path) -> Path:
    """Write the executed notebook as a page beside it, and take live widgets out of the notebook, too.

    Args:
        executed: the executed copy.

    Returns:
        The path of the page.
    """
    from nbconvert import HTMLExporter  # here: slow to import

    notebook = nbformat.read(executed, as_version=4)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    formulas = re.search(r"\$\$|\\\(|\\begin\{|\$[^$\s][^$\n]*\\", prose)
    exporter = HTMLExporter(raw_template=_OFFLINE if formulas else _OFFLINE_WITHOUT_FORMULAS)
    if "widgets" in notebook.metadata:
        with atomic_write(executed) as temporary:
            nbformat.write(_without_widgets(notebook), temporary)
    text, _ = exporter.from_notebook_node(_without_widgets(notebook), {"metadata": {"name": executed.stem}})
    target = executed.with_suffix(".html")
    with atomic_write(target) as temporary:
        temporary.write_text(text)
    return target


def write_index(report: Report, folder: Path) -> Path:
    """Write `index.html` for the run: status, numbers and one plot of each notebook.

    Args:
        report: the run so far.
        folder: the run's folder, with the executed copies.

    Returns:
        The path of the page.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # here: slow to import

    environment = Environment(
        loader=PackageLoader("tutorial_lib.runner", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    environment.filters["title"] = lambda name: name[3:].replace("_", " ")
    plots = {
        entry.name: plot(nbformat.read(folder / entry.executed, as_version=4))
        for entry in report.notebooks
        if entry.executed
    }
    text = environment.get_template("index.html.j2").render(report=report, plots=plots)
    target = folder / "index.html"
    with atomic_write(target) as temporary:
        temporary.write_text(text)
    return target


def plot(executed: NotebookNode) -> str:
    """The notebook's plot as a data URI: of the cell tagged `key-plot`, else the last; "" if none."""
    found = ""
    for cell in executed.cells:
        if cell.cell_type != "code":
            continue
        images = [image for output in cell.outputs if (image := _image(output.get("data", {})))]
        if images and KEY_PLOT in cell.metadata.get("tags", []):
            return images[-1]
        found = images[-1] if images else found
    return found


def _image(data: Mapping[str, Any]) -> str:
    """The image in an output's data as a URI."""
    if "image/png" in data:
        return "data:image/png;base64," + "".join(data["image/png"].split())
    if "image/svg+xml" in data:
        from urllib.parse import quote

        return "data:image/svg+xml," + quote(data["image/svg+xml"])
    return ""


def _number(value: Any) -> str:
    """A recorded value as a person writes it: four significant digits, thousands apart."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1000:
        return f"{value:.4g}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3e}"


def _without_widgets(notebook: NotebookNode) -> NotebookNode:
    """The notebook with widgets as plain HTML in their last state: a page has no kernel to ask."""
    saved = notebook.metadata.pop("widgets", {}).get(_WIDGET_STATE, {}).get("state", {})
    states = {identity: entry["state"] for identity, entry in saved.items()}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            view = output.get("data", {}).pop(_WIDGET, None)
            if view and view["model_id"] in states:
                output.data["text/html"] = _widget_html(view["model_id"], states)
    return notebook


def _widget_html(identity: str, states: Mapping[str, Mapping[str, Any]]) -> str:
    """One widget: boxes as rows of their children, bars as bars, everything else by its text."""
    state = states.get(identity.removeprefix("IPY_MODEL_"), {})
    if "children" in state:
        inner = " ".join(_widget_html(child, states) for child in state["children"])
        return f'<div style="display:flex;gap:.5em;align-items:center;flex-wrap:wrap">{inner}</div>'
    label = html.escape(str(state.get("description", "")))
    value = state.get("value", "")
    if "bar_style" in state:
        return f'{label}<progress value="{float(value)}" max="{float(state.get("max", 100))}"></progress>'
    if state.get("_model_name", "").startswith("HTML"):
        return f"<span>{label} {value}</span>"  # HTML by its author's intent, as in the notebook itself
    return f"<span>{label} {html.escape(str(value))}</span>"
