"""Routes about agents: collections, configurations, threads and turns, streams, the MCP servers that admins declare,
and those of models."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.agents import activity, collections, mcp_servers, model_servers, routes, stream, threads

# Collections come before agents: `/api/agents/collections` is not an agent.
router = APIRouter(
    routes=[
        route
        for part in (collections, routes, activity, threads, stream, mcp_servers, model_servers)
        for route in part.router.routes
    ]
)
