"""Renders `api.md` and `openapi.json`: the HTTP API, from the application itself.

Who may call a route is read from the dependencies of its function, everything else from the OpenAPI description.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from corral.api.application import create_app
from corral.api.deps import AdminIn, AnyCallerIn, OperatorIn
from corral.api.metrics import FrontendMetrics
from tools.markdown import format_code, format_page, format_table, make_anchor

_INTRODUCTION = """\
A frontend's HTTP API. [openapi.json](openapi.json) is the same for programs; a running frontend serves it at
`/openapi.json` and a page to try it at `/docs`.

An API key is sent as `Authorization: Bearer ck_…` or `x-api-key: ck_…`. A body may have 1 MiB. Calls that create
something take an `Idempotency-Key`: sent again with the same key and body, the call returns the response of the first
time. Every response has an `X-Request-Id`; one that is sent along is kept. What people send is checked strictly,
an unknown field is an error; what workers send may hold fields that this version does not know.

`{node}` is a node's id or its name. Times are UTC, sizes are bytes, `null` is *not known*."""
_ADMIN, _OPERATE, _ANY, _NODE, _JOIN, _OPEN = (
    "admin key",
    "key that may operate",
    "any key",
    "the node's own credential",
    "join token, or the node's own credential",
    "-",
)


def render_openapi() -> str:
    return json.dumps(_openapi(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def render() -> str:
    description = _openapi()
    keys = _keys()
    groups: dict[str, list[str]] = {}
    overview: list[tuple[str, ...]] = []
    for method, path, route in _routes(description):
        name = f"{method} {path}"
        who = _who(method, path, keys)
        overview.append((f"[{format_code(name)}]({make_anchor(name)})", who, _sentence(route)))
        groups.setdefault(route["tags"][0], []).extend(_section(name, who, route))
    errors = next(iter(description["paths"].values()))
    return format_page(
        "HTTP API",
        _INTRODUCTION,
        format_table(["route", "who", "what it does"], overview),
        *(block for tag, blocks in groups.items() for block in (f"## {tag.capitalize()}", *blocks)),
        "## Errors",
        "Any route may respond with these; the codes are listed in [errors](errors.md).",
        _errors(next(iter(errors.values()))),
        "## Bodies",
        *_schemas(description["components"]["schemas"]),
    )


@cache
def _application() -> FastAPI:
    return create_app(None, FrontendMetrics())


def _openapi() -> dict[str, Any]:
    return _application().openapi()


def _routes(description: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            yield method.upper(), path, route


def _keys() -> dict[tuple[str, str], str]:
    """Return the key that each route needs. An admin's key may operate too, and every key counts as any key."""
    levels = ((AnyCallerIn, _ANY), (OperatorIn, _OPERATE), (AdminIn, _ADMIN))
    return {route: good_for for who, good_for in levels for route in _list_routes_requiring(who)}


def _list_routes_requiring(dependency: Any) -> set[tuple[str, str]]:
    dependency_call = get_args(dependency)[1].dependency
    found = set()
    for route in _application().routes:
        if isinstance(route, APIRoute) and _has_dependency(route.dependant, dependency_call):
            found |= {(method, route.path_format) for method in route.methods or ()}
    return found


def _has_dependency(dependant: Dependant, dependency: Any) -> bool:
    return dependant.call is dependency or any(_has_dependency(below, dependency) for below in dependant.dependencies)


def _who(method: str, path: str, keys: dict[tuple[str, str], str]) -> str:
    if (method, path) in keys:
        return keys[method, path]
    if path.startswith("/v1/"):
        # Answered by plain ASGI; the described ones need no key.
        return _ANY
    if path.startswith("/api/node/"):
        return _JOIN if path.endswith("/register") else _NODE
    return _OPEN


def _sentence(route: Mapping[str, Any]) -> str:
    return str(route.get("description") or f"{route['summary'].capitalize()}.")


def _section(name: str, caller: str, route: Mapping[str, Any]) -> list[str]:
    blocks = [f"### {name}", _sentence(route)]
    lines = [f"- Who: {caller if caller != _OPEN else 'anyone'}"]
    lines += [_parameter(parameter) for parameter in route.get("parameters", ())]
    body = route.get("requestBody")
    if body:
        lines.append(f"- Body{'' if body.get('required') else ' (may be left out)'}: {_content(body)}")
    lines += [
        f"- Response {status}: {_content(response)}"
        for status, response in route["responses"].items()
        if status < "300"
    ]
    return [*blocks, "\n".join(lines)]


def _parameter(parameter: Mapping[str, Any]) -> str:
    words = f"- {parameter['in'].capitalize()} {format_code(parameter['name'])}: {_type(parameter['schema'])}"
    if not parameter.get("required"):
        words += ", may be left out"
    about = parameter.get("description") or parameter["schema"].get("description")
    return f"{words}. {about}" if about else words


def _content(holder: Mapping[str, Any]) -> str:
    for kind, content in holder.get("content", {}).items():
        schema = content.get("schema")
        return _type(schema) if schema else format_code(kind)
    return "empty"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{format_code(name)}]({make_anchor(name)})"
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(_type(part) for part in schema[word])
    if "enum" in schema:
        return " or ".join(format_code(str(value)) for value in schema["enum"])
    return _plain_type(schema)


def _plain_type(schema: Mapping[str, Any]) -> str:
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return "`null`" if kind == "null" else str(schema.get("format", kind))


def _errors(route: Mapping[str, Any]) -> str:
    rows = [(status, answer["description"]) for status, answer in route["responses"].items() if status >= "400"]
    return format_table(["status", "when"], rows)


def _schemas(schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        yield f"### {name}"
        if schema.get("description"):
            yield str(schema["description"])
        required = set(schema.get("required", ()))
        if "properties" not in schema:
            yield f"One of {_type(schema)}."
            continue
        rows = [
            (format_code(field), _type(about), "yes" if field in required else "no", str(about.get("description", "")))
            for field, about in schema["properties"].items()
        ]
        yield format_table(["field", "type", "required", "what it is"], rows)
