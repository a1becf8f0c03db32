"""Renders `calls.md`: the calls of clients, which engines speak them themselves, and what happens otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.routing import Route

from corral.api.application import DIALECT_ROUTES
from corral.api.dialects.error_envelopes import ANTHROPIC, OLLAMA
from corral.api.dialects.routes import CallRoute, MemoryRoute
from corral.backends.catalog import read_built_in
from corral.gateway.request.request_builder import CALLS
from tools.markdown import format_code, format_page, format_table

_INTRODUCTION = """\
The calls of clients to models. A call that the engine of a model speaks itself is passed on: body and response are
between the client and the engine, but for the model's name and its defaults. The manifest of a backend lists the calls
that its engine speaks (`serves`); an engine without that list is called all the same.
[Clients](../how-to/clients.md) says how to point clients here. A request with the header `anthropic-version` counts as
one of Anthropic's clients, also where OpenAI has the same path."""
_APIS = {id(ANTHROPIC): "Anthropic's", id(OLLAMA): "Ollama's"}


def render() -> str:
    head = ["call", "API", "engines of the built-in gallery that speak it", "otherwise"]
    return format_page("Calls", _INTRODUCTION, format_table(head, _rows()))


def _rows() -> Iterator[tuple[str, ...]]:
    for path, call in CALLS.items():
        yield format_code(f"POST {path}"), "OpenAI's", _engines(call), "the engine's own refusal"
    for path in ("/v1/models", "/v1/models/{model}"):
        yield format_code(f"GET {path}"), "OpenAI's", "", MemoryRoute.fallback
    for route in DIALECT_ROUTES:
        yield _row(route)


def _row(route: Route) -> tuple[str, ...]:
    made = route.endpoint
    assert isinstance(made, CallRoute), route.path
    api = _APIS.get(id(made.envelope), "OpenAI's")
    method = next(iter(sorted((route.methods or set()) - {"HEAD"})))
    return format_code(f"{method} {made.path}"), api, _engines(made.call) if api != "Ollama's" else "", made.fallback


def _engines(call: str) -> str:
    names = {
        entry.alias or entry.name
        for entry in read_built_in().entries
        for version in entry.versions
        if call in version.manifest.serves
    }
    return ", ".join(format_code(name) for name in sorted(names))
