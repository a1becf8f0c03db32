"""Models over HTTP: configurations and their revisions, the galleries, installing, and the whole fleet in one file."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.models import configs, fleet, galleries, installing, loads

router = APIRouter()
for part in (galleries.router, configs.router, installing.router, fleet.router, loads.router):
    router.include_router(part)
