"""What people and collectors see of the requests that pass: `/api/live`, why one goes where it goes, and the requests'
part of `/metrics`; and what a frontend was told: `/api/settings`."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.insight import explain, live, settings

router = APIRouter(routes=[route for part in (live, explain, settings) for route in part.router.routes])
