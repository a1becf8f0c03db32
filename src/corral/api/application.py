"""The FastAPI application: routes, errors, documentation."""

from __future__ import annotations

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
from corral.api.metrics import Metrics
from corral.api.middleware import Edge
from corral.api.page import routes as page
from corral.api.parts import Parts
from corral.api.stream import routes as stream
from corral.wire.errors import ErrorOut

_ERRORS: dict[int | str, dict[str, object]] = {
    400: {"model": ErrorOut, "description": "A value is wrong; the message names it."},
    401: {"model": ErrorOut, "description": "No credential, or one that is unknown, revoked or expired."},
    403: {"model": ErrorOut, "description": "The credential may not do this."},
    404: {"model": ErrorOut, "description": "What was named does not exist."},
    409: {"model": ErrorOut, "description": "Not possible in the present state."},
    413: {"model": ErrorOut, "description": "The body is too large."},
    422: {"model": ErrorOut, "description": "Understood, and refused."},
    429: {"model": ErrorOut, "description": "More than the caller may; Retry-After says when it may again."},
    503: {"model": ErrorOut, "description": "A part that is needed does not answer; try again."},
}


def create_app(parts: Parts | None, metrics: Metrics) -> FastAPI:
    """The application. Without parts it only knows its own description, which is what the docs are made from."""
    app = FastAPI(
        title="Corral",
        version=__version__,
        summary="One inference service out of many machines.",
        docs_url="/docs",
        redoc_url=None,
        responses=_ERRORS,
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
        usage,
        events,
        openai,
        dialects,
        files,
    )
    for module in routers:
        app.include_router(module.router)
    return app


def with_edge(app: FastAPI, parts: Parts, metrics: Metrics) -> ASGIApp:
    """What the server is given: the application behind its outermost layer."""
    return Edge(app, clock=parts.clock, ids=parts.ids, metrics=metrics, not_ready=parts.not_ready, health=parts.health)
