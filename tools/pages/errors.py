"""Renders `errors.md`: every kind of error and every code that a program may receive.

The kinds are the classes below `CorralError`; the codes are found where the source writes `code="…"`. A code that is
put together at run time is shown as its pattern.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.util
import inspect
import pkgutil
from collections import defaultdict

import corral
from corral.domain.errors import CorralError
from tools.markdown import format_code, format_page, format_table
from tools.source import DocsProblem, find_keyword, get_called_name, get_literal_text, iter_modules

_INTRODUCTION = """\
Every error response has the same shape:

```json
{"error": {"code": "node_not_found", "message": "There is no node 'gpu-9'.",
           "hint": "`corral nodes list` shows the nodes.", "type": "node_error", "details": {}, "request_id": "…"}}
```

`code` is for programs and stable. `message` is a sentence for people and may change. `hint` says what to do next.
The command line prints `error:` and `hint:` and exits with 1."""

# Written by `api/errors.py` and `api/middleware.py` themselves, before or beside any error of ours.
EDGE = {
    "http_error": ("as it says", "A response of the web framework without a code of its own."),
    "internal": ("500", "A mistake inside Corral; the frontend's log has more under the request's id."),
    "method_not_allowed": ("405", "The path exists, but not with this method."),
    "not_found": ("404", "Nothing is at this path."),
    "starting": ("503", "The frontend has not read the registry yet, or is stopping."),
}


def render() -> str:
    kinds = _kinds()
    rows = [
        (
            f"{'&nbsp;' * 4 * depth}`{kind.__name__}`",
            str(kind.status),
            format_code(kind.code),
            _yes(kind),
            _sentence(kind),
        )
        for kind, depth in kinds
    ]
    return format_page(
        "Errors",
        _INTRODUCTION,
        "## Kinds",
        format_table(["kind", "status", "code", "trying again may help", "when"], rows),
        "## Codes",
        "Where a kind is not precise enough, the error has a code of its own.",
        format_table(["code", "kind", "status", "raised in"], _codes({kind.__name__: kind for kind, _ in kinds})),
        "## From the edge of the API",
        format_table(["code", "status", "when"], _edge()),
    )


def _edge() -> list[tuple[str, str, str]]:
    written = {
        node.value
        for module in iter_modules("src/corral/api")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant)
    }
    gone = [
        f"{slug} is no longer written by the API; take it out of tools/pages/errors.py."
        for slug in EDGE
        if slug not in written
    ]
    if gone:
        raise DocsProblem(*gone)
    return [(format_code(slug), status, when) for slug, (status, when) in EDGE.items()]


def _kinds() -> list[tuple[type[CorralError], int]]:
    """Return the tree of errors, each class with its depth, in the order of the source below each parent."""
    for module in pkgutil.walk_packages(corral.__path__, "corral."):
        # Every module may have an error of its own. Migrations are programs of Alembic's.
        if ".migrations" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    def below(kind: type[CorralError], depth: int) -> list[tuple[type[CorralError], int]]:
        children = sorted(kind.__subclasses__(), key=lambda child: (child.status, child.__module__, _line(child)))
        return [(kind, depth)] + [found for child in children for found in below(child, depth + 1)]

    return [found for found in below(CorralError, 0) if found[0].__module__.startswith("corral.")]


def _line(kind: type) -> int:
    return inspect.getsourcelines(kind)[1]


def _sentence(kind: type) -> str:
    return (inspect.getdoc(kind) or "").splitlines()[0]


def _yes(kind: type[CorralError]) -> str:
    return "yes" if kind.retryable else "no"


def _codes(kinds: dict[str, type[CorralError]]) -> list[tuple[str, str, str, str]]:
    places: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for module in iter_modules("src/corral"):
        for call in ast.walk(module.tree):
            if not isinstance(call, ast.Call):
                continue
            kind = kinds.get(get_called_name(call).rpartition(".")[2])
            given = find_keyword(call, "code")
            if kind is None or given is None:
                continue
            for slug in _slugs(given, module.path):
                if slug != kind.code:
                    places[slug, kind.__name__, str(kind.status)].add(module.path.removeprefix("src/corral/"))
    return [
        (format_code(slug), format_code(kind), status, ", ".join(format_code(path) for path in sorted(found)))
        for (slug, kind, status), found in sorted(places.items())
    ]


def _slugs(given: ast.expr, path: str) -> list[str]:
    text = get_literal_text(given)
    if text is not None:
        return [text]
    if isinstance(given, ast.JoinedStr):
        parts = [get_literal_text(value) or "<…>" for value in given.values]
        return ["".join(parts)]
    if isinstance(given, ast.IfExp):
        return _slugs(given.body, path) + _slugs(given.orelse, path)
    if isinstance(given, ast.Constant):
        return []
    if isinstance(given, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        # The code is passed on from another place, where it is found.
        return []
    raise DocsProblem(f"{path}: an error's code is an expression that cannot be read: {ast.unparse(given)}.")
