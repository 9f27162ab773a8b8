"""How a server shows itself in a notebook."""

from __future__ import annotations

from html import escape

STATE_COLOURS = {"READY": "#2e8b57", "UNAVAILABLE": "#c0392b", "LOADING": "#b8860b", "UNLOADING": "#b8860b"}


def server_html(title: str, rows: dict[str, str], models: list[dict[str, str]] | None) -> str:
    """A small card: what the server is, where it listens, what it has loaded.

    Args:
        title: the label, "Triton 2.51.0 embedded · CPU ×2".
        rows: name → value, shown in order.
        models: entries of Triton's repository index; None when there is nobody to ask.
    """
    cell = 'style="text-align:left;padding:2px 12px 2px 0;vertical-align:top"'
    facts = "".join(
        f"<tr><td {cell}>{escape(k)}</td><td {cell}><code>{escape(v)}</code></td></tr>" for k, v in rows.items()
    )
    lines = []
    for model in models or []:
        state = model.get("state", "")
        colour = STATE_COLOURS.get(state, "gray")
        name = escape(model["name"]) + (f" · v{escape(model['version'])}" if model.get("version") else "")
        reason = escape(model.get("reason", ""))
        lines.append(
            f"<tr><td {cell}><code>{name}</code></td>"
            f'<td {cell}><span style="color:{colour}">● {escape(state or "not loaded")}</span></td>'
            f"<td {cell}>{reason}</td></tr>"
        )
    if models == []:
        lines.append(f"<tr><td {cell}>no models in the repository</td></tr>")
    table = "".join(lines)
    return (
        '<div style="border:1px solid #76b900;border-radius:6px;padding:8px 12px;display:inline-block;max-width:100%">'
        f'<div style="font-weight:600;margin-bottom:4px">{escape(title)}</div>'
        f"<table>{facts}</table><table>{table}</table></div>"
    )
