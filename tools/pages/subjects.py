"""Renders `subjects.md`: every subject of the bus, from the registry that clients and permissions are made from."""

from __future__ import annotations

import dataclasses
import inspect

from corral.bus.subjects import SUBJECTS, render_reference
from tools.markdown import format_code, format_page, format_table

_INTRODUCTION = """\
Messages are commands and hints. Losing, repeating or reordering any of them costs latency, never correctness. A
credential allows exactly what this table says for its role, and its own inbox. A request without a subscriber fails at
once; one without a reply fails after its timeout."""
_MESSAGES = """\
JSON objects. Unknown fields are ignored, a field with a default may be absent, and no field is ever renamed: old
workers meet new frontends. A handler that fails replies `{"error": {"code": …, "message": …}}` instead."""


def render() -> str:
    types = {spec.request.__name__: spec.request for spec in SUBJECTS}
    types |= {spec.reply.__name__: spec.reply for spec in SUBJECTS if spec.reply is not None}
    rows = [(format_code(name), inspect.getdoc(kind) or "", _fields(kind)) for name, kind in sorted(types.items())]
    messages = format_table(["message", "what it says", "fields"], rows)
    return format_page("Bus subjects", _INTRODUCTION, render_reference(), "## Messages", _MESSAGES, messages)


def _fields(message: type) -> str:
    shown = []
    for field in dataclasses.fields(message):
        is_optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        shown.append(f"`{field.name}`: {field.type}" + (" (optional)" if is_optional else ""))
    return "<br>".join(shown) or "none"
