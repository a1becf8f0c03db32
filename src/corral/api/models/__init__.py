"""Routes about models: configurations and revisions, galleries, installation, loads, and the whole fleet as one
file."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.models import configs, fleet, galleries, installation, loads

router = APIRouter(
    routes=[route for part in (galleries, configs, fleet, installation, loads) for route in part.router.routes]
)
