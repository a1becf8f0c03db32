"""Models over HTTP: configurations and their revisions, the galleries, installing, and the whole fleet in one file."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.models import configs, fleet, galleries, installing, loads

router = APIRouter(
    routes=[route for part in (galleries, configs, installing, fleet, loads) for route in part.router.routes]
)
