"""The FastAPI application: routes, errors, documentation."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from corral import __version__
from corral.api import (
    access,
    backends,
    cluster,
    dialects,
    errors,
    events,
    files,
    insight,
    models,
    node_holdings,
    node_self,
    nodes,
    openai,
    operations,
    rules,
    usage,
)
from corral.api.join import routes as join
from corral.api.metrics import Metrics
from corral.api.middleware import Edge
from corral.api.page import routes as page
from corral.api.parts import Parts
from corral.api.stream import routes as stream
from corral.wire.errors import ErrorOut

_ERRORS = {
    "400": "A value is wrong; the message names it.",
    "401": "No credential, or one that is unknown, revoked or expired.",
    "403": "The credential may not do this.",
    "404": "What was named does not exist.",
    "409": "Not possible in the present state.",
    "413": "The body is too large.",
    "422": "Understood, and refused.",
    "429": "More than the caller may; Retry-After says when it may again.",
    "503": "A part that is needed does not answer; try again.",
}
_SCHEMAS = "#/components/schemas/"
# FastAPI's own form of an error, which no route of ours has.
_NOT_OURS = ("HTTPValidationError", "ValidationError")


class _Application(FastAPI):
    """Describes itself with the errors that every route has in common. They are not told to the routes: FastAPI makes a
    reader of its own for each error of each route, and nobody ever reads an error with it."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = _with_errors(super().openapi())
        return self.openapi_schema


def create_app(parts: Parts | None, metrics: Metrics) -> FastAPI:
    """The application. Without parts it only knows its own description, which is what the docs are made from."""
    app = _Application(
        title="Corral",
        version=__version__,
        summary="One inference service out of many machines.",
        docs_url=None,
        redoc_url=None,
        # A redirect would name whatever host the request names.
        redirect_slashes=False,
    )
    app.state.parts = parts
    app.state.metrics = metrics
    errors.install(app)
    # Dialects before OpenAI's: whoever says to be Anthropic's client is answered like one.
    app.router.routes.extend([*node_self.SWIFT_ROUTES, *dialects.ROUTES, *openai.ROUTES, *page.ROUTES])
    # Rules before nodes: `/api/nodes/scheduling` is no node. Streams before operations: `events` is none.
    routers = (
        cluster,
        insight,
        node_self,
        node_holdings,
        rules,
        nodes,
        stream,
        operations,
        backends,
        models,
        access,
        join,
        usage,
        events,
        openai,
        dialects,
        files,
    )
    # Joined, not included: FastAPI works out what it includes once more for every application, at its first request,
    # and for all of ours that is a third of a second.
    app.router.routes.extend(route for module in routers for route in module.router.routes)
    return app


def with_edge(app: FastAPI, parts: Parts, metrics: Metrics) -> ASGIApp:
    """What the server is given: the application behind its outermost layer."""
    return Edge(app, metrics, parts)


def _with_errors(described: dict[str, Any]) -> dict[str, Any]:
    answer = {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{ErrorOut.__name__}"}}}
    errors = {code: {"description": sentence, "content": answer} for code, sentence in _ERRORS.items()}
    for methods in described["paths"].values():
        for operation in methods.values():
            # What a route says itself is more exact.
            own = {code: said for code, said in operation["responses"].items() if not _is_not_ours(said)}
            operation["responses"] = dict(sorted({**errors, **own}.items()))
    schemas = described["components"]["schemas"]
    for name in _NOT_OURS:
        schemas.pop(name, None)
    form = _without_none(ErrorOut.model_json_schema(mode="serialization", ref_template=_SCHEMAS + "{model}"))
    schemas.update(form.pop("$defs", {}))
    schemas[ErrorOut.__name__] = form
    described["components"]["schemas"] = dict(sorted(schemas.items()))
    return described


def _without_none(form: Any) -> Any:
    """As FastAPI writes forms: a default of null is not said."""
    if isinstance(form, dict):
        return {name: _without_none(value) for name, value in form.items() if value is not None}
    return [_without_none(value) for value in form] if isinstance(form, list) else form


def _is_not_ours(answer: dict[str, Any]) -> bool:
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return bool(schema.get("$ref") == f"{_SCHEMAS}{_NOT_OURS[0]}")
