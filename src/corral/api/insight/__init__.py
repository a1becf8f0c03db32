"""What people and collectors see of the requests that pass: `/api/live`, and the requests' part of `/metrics`; and
what a frontend was told: `/api/settings`."""

from fastapi import APIRouter

from corral.api.insight import live, settings

router = APIRouter()
for part in (live.router, settings.router):
    router.include_router(part)

__all__ = ["router"]
