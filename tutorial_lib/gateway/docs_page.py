"""The gateway's own page of its API. FastAPI's fetches scripts from the internet; this one needs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h2{border-top:1px solid #ddd;padding-top:1rem;font-size:1.1rem}code{background:#f3f3f3;padding:0 .25em}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2em 1em .2em 0;vertical-align:top}"
    "b.method{color:#fff;background:#4c9a2a;border-radius:4px;padding:.1em .5em;font-size:.8em}pre{background:#f3f3f3;"
    "padding:.6em;overflow:auto}"
)


def docs_page(api: Mapping[str, Any], base_url: str) -> str:
    """An HTML page of an OpenAPI description.

    Args:
        api: as `FastAPI.openapi()` gives it.
        base_url: where the gateway is, for the examples.
    """
    title = escape(api["info"]["title"])
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"]
    parts += [f"<h1>{title}</h1><p>{escape(api['info'].get('description', ''))}</p>"]
    parts += [
        "<p>For programs: <a href='openapi.json'>openapi.json</a>. For Prometheus: <a href='metrics'>metrics</a>."
    ]
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            parts += _operation(path, method, operation, api, base_url.rstrip("/"))
    return "\n".join(parts)


def _operation(path: str, method: str, operation: Mapping[str, Any], api: Mapping[str, Any], base: str) -> list[str]:
    parts = [f"<h2><b class=method>{method.upper()}</b> <code>{escape(path)}</code></h2>"]
    parts += [f"<p>{escape(operation.get('description', ''))}</p>"]
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        parts += [f"<p>Body: {', '.join(f'<code>{escape(kind)}</code>' for kind in content)}</p>"]
        schema = content.get("application/json", {}).get("schema", {})
        parts += [
            _fields(schema),
            "<p>With the bytes of a picture as body, all but <code>image</code> go into the query.</p>",
        ]
        parts += [f"<pre>curl --data-binary @picture.png -H 'content-type: image/png' {escape(base + path)}</pre>"]
    rows = []
    for status, answer in operation.get("responses", {}).items():
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        fields = ", ".join(f"<code>{escape(name)}</code>" for name in _resolved(schema, api).get("properties", {}))
        rows.append(f"<tr><td>{status}</td><td>{escape(answer.get('description', ''))}</td><td>{fields}</td></tr>")
    return [*parts, f"<table><tr><th>status</th><th></th><th>fields</th></tr>{''.join(rows)}</table>"]


def _fields(schema: Mapping[str, Any]) -> str:
    required, rows = schema.get("required", ()), []
    for name, field in schema.get("properties", {}).items():
        kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
        said = " or ".join(kind.get("type", "") or str(kind.get("enum", "")) for kind in kinds)
        optional = "optional" if field.get("default") is None else f"default {field['default']}"
        wanted = "required" if name in required else optional
        cells = (f"<code>{escape(name)}</code>", escape(said), escape(wanted), escape(field.get("description", "")))
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _resolved(schema: Mapping[str, Any], api: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref", "")
    return api["components"]["schemas"][reference.rpartition("/")[2]] if reference else schema
