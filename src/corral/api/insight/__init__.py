"""What people and collectors see of the requests that pass: `/api/live`, why one goes where it goes, and the requests'
part of `/metrics`; and what a frontend was told: `/api/settings`."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.insight import explain, live, settings

router = APIRouter()
for part in (live.router, explain.router, settings.router):
    router.include_router(part)
