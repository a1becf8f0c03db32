"""`/docs`: the reference of the HTTP API as one document without scripts, made from the OpenAPI document.

Guarantee: nothing is loaded from another host, so it works without internet access and no third-party script runs on
the origin of an admin's session. Its content security policy allows only its own style, by hash; it cannot be framed.
Limit: it describes requests and responses and sends none; `/openapi.json` is for programs that do.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark;
  --ground: #f7f5f0; --ink: #1d1b16; --quiet: #6b665a; --line: #d9d4c7; --mark: #b4541a; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #161511; --ink: #efece3; --quiet: #a39d8d; --line: #35322a; --mark: #f0935a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 24px; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; border-top: 2px solid var(--mark); padding-top: 16px; }
h2 { font-size: 19px; margin-top: 40px; }
p, td { overflow-wrap: anywhere; }
.quiet, th { color: var(--quiet); font-weight: 400; }
nav a { display: inline-block; margin-right: 16px; }
a { color: var(--mark); }
details { border-top: 1px solid var(--line); padding: 8px 0; }
summary { cursor: pointer; }
code { font: 14px/1.4 ui-monospace, monospace; }
.verb { display: inline-block; min-width: 4.5rem; color: var(--mark); }
table { border-collapse: collapse; margin: 8px 0 16px; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 4px 16px 4px 0; border-bottom: 1px solid var(--line); }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_VERBS = ("get", "post", "put", "patch", "delete", "head")
_NO_TAG = "other"
_SCHEMA = "#/components/schemas/"
_CODE = re.compile(r"`([^`]+)`")


def render_reference(description: Mapping[str, Any]) -> bytes:
    """Return the reference as HTML; `description` is the frontend's OpenAPI document."""
    groups: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for verb in (one for one in _VERBS if one in methods):
            operation = methods[verb]
            tag = (operation.get("tags") or [_NO_TAG])[0]
            groups.setdefault(tag, []).append("".join(_iter_operation(path, verb, operation)))
    schemas = description.get("components", {}).get("schemas", {})
    parts = [
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1"><link rel=icon href="data:,">',
        f"<title>API reference · Corral</title><style>{_STYLE}</style></head><body><main>",
        f"<h1>{escape(description['info']['title'])} {escape(description['info']['version'])}: HTTP API</h1>",
        "<p class=quiet>For programs: <a href=/openapi.json>openapi.json</a>. ",
        "The web page is at <a href=/app/>/app/</a>. Calls take <code>Authorization: Bearer KEY</code>.</p><nav>",
        *(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in sorted(groups)),
        "<a href=#schemas>schemas</a></nav>",
    ]
    for tag in sorted(groups):
        parts += [f'<h2 id="{escape(tag)}">{escape(tag.capitalize())}</h2>', *groups[tag]]
    parts.append("<h2 id=schemas>Schemas</h2>")
    parts += [piece for name in sorted(schemas) for piece in _iter_schema(name, schemas[name])]
    parts.append("</main></body></html>\n")
    return "".join(parts).encode()


def _iter_operation(path: str, verb: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"<details><summary><code><span class=verb>{verb.upper()}</span> {escape(path)}</code></summary>"
    yield f"<p>{_render_text(operation.get('description') or operation.get('summary') or '')}</p>"
    rows = [
        (
            parameter["name"],
            f"{parameter['in']}, {_render_type(parameter.get('schema', {}))}",
            parameter.get("description", ""),
        )
        for parameter in operation.get("parameters", ())
    ]
    for content_type, content in operation.get("requestBody", {}).get("content", {}).items():
        rows.append(("body", f"{content_type}, {_render_type(content.get('schema', {}))}", ""))
    for status, answer in operation.get("responses", {}).items():
        for content_type, content in (answer.get("content") or {"no body": {}}).items():
            if status.startswith("2"):
                rows.append((status, f"{content_type}, {_render_type(content.get('schema', {}))}", ""))
    yield from _iter_table(rows)
    yield "</details>"


def _iter_schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
    yield f"<p>{_render_text(schema.get('description', ''))}</p>"
    yield from _iter_table(
        (field, _render_type(value), value.get("description", ""))
        for field, value in schema.get("properties", {}).items()
    )
    yield "</details>"


def _iter_table(rows: Any) -> Iterator[str]:
    yield "<table>"
    for name, kind, words in rows:
        yield f"<tr><td><code>{escape(str(name))}</code></td><td>{kind}</td><td>{_render_text(str(words))}</td></tr>"
    yield "</table>"


def _render_type(schema: Mapping[str, Any]) -> str:
    """Return what a value may be, in words, with links to the schemas that it names."""
    reference = schema.get("$ref", "")
    if reference.startswith(_SCHEMA):
        name = escape(reference.removeprefix(_SCHEMA))
        return f'<a href="#{name}">{name}</a>'
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(_render_type(one) for one in schema[several])
    if schema.get("type") == "array":
        return f"list of {_render_type(schema.get('items', {}))}"
    if "enum" in schema:
        return " | ".join(escape(str(value)) for value in schema["enum"])
    return escape(str(schema.get("type", "any")))


def _render_text(words: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(words))
