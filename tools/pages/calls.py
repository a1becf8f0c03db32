"""`calls.md`: what clients can call, which engines speak it themselves, and what happens otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.routing import Route

from corral.api.dialects import ROUTES
from corral.api.dialects.envelopes import ANTHROPIC, OLLAMA
from corral.api.dialects.routes import CallRoute, Told
from corral.api.openai.asked import CALLS
from corral.backends.catalog import read_built_in
from tools.markdown import code, page, table

_INTRODUCTION = """\
How models can be asked. A call that the engine of a model speaks itself is passed on: body and answer are between
the client and the engine, but for the model's name and its defaults. What an engine speaks stands in the manifest of
its backend (`serves`); an engine of which nobody knows that is called all the same. How to point clients here is told
in [Clients](../how-to/clients.md). Who sends `anthropic-version` is Anthropic's client, also where OpenAI has the same
path."""
_APIS = {id(ANTHROPIC): "Anthropic's", id(OLLAMA): "Ollama's"}


def render() -> str:
    head = ["call", "API", "engines of the built-in gallery that speak it", "otherwise"]
    return page("Calls", _INTRODUCTION, table(head, _rows()))


def _rows() -> Iterator[tuple[str, ...]]:
    for path, call in CALLS.items():
        yield code(f"POST {path}"), "OpenAI's", _engines(call), "the engine's own refusal"
    for path in ("/v1/models", "/v1/models/{model}"):
        yield code(f"GET {path}"), "OpenAI's", "", Told.otherwise
    for route in ROUTES:
        yield _row(route)


def _row(route: Route) -> tuple[str, ...]:
    made = route.endpoint
    assert isinstance(made, CallRoute), route.path
    api = _APIS.get(id(made.envelope), "OpenAI's")
    method = next(iter(sorted((route.methods or set()) - {"HEAD"})))
    return code(f"{method} {made.path}"), api, _engines(made.call) if api != "Ollama's" else "", made.otherwise


def _engines(call: str) -> str:
    names = {
        entry.alias or entry.name
        for entry in read_built_in().entries
        for version in entry.versions
        if call in version.manifest.serves
    }
    return ", ".join(code(name) for name in sorted(names))
