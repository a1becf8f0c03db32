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
    errors,
    files,
    insight,
    models,
    node_self_service,
    nodes,
    operations,
    rules,
    sessions,
    stream,
    usage,
)
from corral.api.deps import ApiDeps
from corral.api.dialects.ollama_routes import OLLAMA_ROUTES
from corral.api.dialects.routes import V1_ROUTES
from corral.api.dialects.uploads import UPLOAD_ROUTES
from corral.api.join import routes as join
from corral.api.metrics import FrontendMetrics
from corral.api.middleware import EdgeMiddleware
from corral.api.openai.routes import OPENAI_ROUTES
from corral.api.openapi import complete_document
from corral.api.page import routes as page

DIALECT_ROUTES = (*V1_ROUTES, *UPLOAD_ROUTES, *OLLAMA_ROUTES)


class _CorralApplication(FastAPI):
    """The FastAPI application, with inference calls and errors in its OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = complete_document(super().openapi())
        return self.openapi_schema


def create_app(deps: ApiDeps | None, metrics: FrontendMetrics) -> FastAPI:
    """Create the application. Without dependencies it only has its OpenAPI document, from which the docs are
    generated."""
    app = _CorralApplication(
        title="Corral",
        version=__version__,
        summary="One inference service from many machines.",
        docs_url=None,
        redoc_url=None,
        # A redirect would repeat the Host header of the request, which any client can forge.
        redirect_slashes=False,
    )
    app.state.deps = deps
    app.state.metrics = metrics
    errors.install_error_handlers(app)
    # Dialects come before OpenAI's routes: a request with Anthropic's headers gets Anthropic's response.
    app.router.routes.extend([*node_self_service.FAST_ROUTES, *DIALECT_ROUTES, *OPENAI_ROUTES, *page.ROUTES])
    # Rules come before nodes: `/api/nodes/scheduling` is not a node. Streams come before operations: `events` is not an
    # operation.
    routers = (
        cluster,
        insight,
        node_self_service,
        rules,
        nodes,
        stream,
        operations,
        backends,
        models,
        access,
        sessions,
        join,
        usage,
        files,
    )
    # Appended instead of included: FastAPI prepares included routers again for every application, at its first request,
    # which takes a third of a second for all of Corral's routes.
    app.router.routes.extend(route for module in routers for route in module.router.routes)
    return app


def wrap_with_edge(app: FastAPI, deps: ApiDeps, metrics: FrontendMetrics) -> ASGIApp:
    """Return the ASGI application for the server: the routes behind `EdgeMiddleware`."""
    return EdgeMiddleware(app, metrics, deps)
