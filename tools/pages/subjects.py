"""`subjects.md`: every subject of the bus, from the registry that clients and permissions are made from."""

from __future__ import annotations

import dataclasses
import inspect

from corral.bus.subjects import SUBJECTS, reference_markdown
from tools.markdown import code, page, table

_INTRODUCTION = """\
Messages are commands and hints. Losing, repeating or reordering any of them costs latency, never correctness. A
credential allows exactly what this table says for its role, and its own inbox. A request that nobody hears fails at
once; one that nobody answers fails after its timeout."""
_MESSAGES = """\
JSON objects. Unknown fields are ignored, a field with a default may be absent, and no field is ever renamed: old
workers meet new frontends. A handler that fails answers `{"error": {"code": …, "message": …}}` instead."""


def render() -> str:
    types = {spec.request.__name__: spec.request for spec in SUBJECTS}
    types |= {spec.reply.__name__: spec.reply for spec in SUBJECTS if spec.reply is not None}
    rows = [(code(name), inspect.getdoc(kind) or "", _fields(kind)) for name, kind in sorted(types.items())]
    messages = table(["message", "what it says", "fields"], rows)
    return page("Bus subjects", _INTRODUCTION, reference_markdown(), "## Messages", _MESSAGES, messages)


def _fields(message: type) -> str:
    shown = []
    for field in dataclasses.fields(message):
        is_optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        shown.append(f"`{field.name}`: {field.type}" + (" (optional)" if is_optional else ""))
    return "<br>".join(shown) or "none"
