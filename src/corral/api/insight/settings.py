"""`GET /api/settings`: what this frontend was told at its start, and by whom. For admins; secrets are masked."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.parts import AdminIn, PartsIn
from corral.wire.settings import SettingsOut

router = APIRouter(tags=["cluster"])


@router.get("/api/settings")
async def settings(parts: PartsIn, _: AdminIn) -> SettingsOut:
    """Every setting with its value, where that came from, and what it does."""
    return SettingsOut(answered_by=parts.frontend_id, settings=list(parts.settings))
