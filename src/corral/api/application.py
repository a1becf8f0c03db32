"""The FastAPI application: routes, errors, documentation."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from corral import __version__
from corral.api import (
    access,
    agents,
    backends,
    cluster,
    errors,
    files,
    fine_tuning,
    insight,
    mcp,
    models,
    node_batches,
    node_documents,
    node_fine_tuning,
    node_quantization,
    node_runs,
    node_self_service,
    node_skills,
    nodes,
    operations,
    quantization,
    rules,
    runs,
    secrets,
    sessions,
    skills,
    stream,
    tasks,
    usage,
)
from corral.api.deps import ApiDeps
from corral.api.dialects.ollama_routes import OLLAMA_ROUTES
from corral.api.dialects.routes import V1_ROUTES
from corral.api.dialects.uploads import UPLOAD_ROUTES
from corral.api.join import routes as join
from corral.api.metrics import FrontendMetrics
from corral.api.middleware import EdgeMiddleware
from corral.api.openai import batches as openai_batches
from corral.api.openai import files as openai_files
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
    # Skills come before agents: `/api/agents/skills` is not an agent.
    # Rules come before nodes: `/api/nodes/scheduling` is not a node. Streams come before operations: `events` is not an
    # operation.
    routers = (
        cluster,
        insight,
        node_self_service,
        node_runs,
        node_batches,
        node_skills,
        node_quantization,
        quantization,
        fine_tuning,
        node_fine_tuning,
        node_documents,
        runs,
        openai_files,
        openai_batches,
        tasks,
        skills,
        agents,
        rules,
        nodes,
        stream,
        operations,
        backends,
        models,
        access,
        secrets,
        sessions,
        join,
        usage,
        files,
        mcp,
    )
    # Appended instead of included: FastAPI prepares included routers again for every application, at its first request,
    # which takes a third of a second for all of Corral's routes.
    app.router.routes.extend(route for module in routers for route in module.router.routes)
    return app


def wrap_with_edge(app: FastAPI, deps: ApiDeps, metrics: FrontendMetrics) -> ASGIApp:
    """Return the ASGI application for the server: the routes behind `EdgeMiddleware`."""
    edge = EdgeMiddleware(app, metrics, deps)
    # Tools call the routes in this process, through all of their layers.
    app.state.mcp_loader = mcp.McpEndpointLoader(app, edge, deps)
    return edge
