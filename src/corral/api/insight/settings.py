"""`/api/settings`: what this frontend runs with, where that came from, and changing some of it. Secrets are masked."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body

from corral.api.parts import AdminIn, Parts, PartsIn
from corral.wire.settings import SettingChangesIn, SettingsOut

router = APIRouter(tags=["cluster"])
_EXAMPLE = {"request_wait": "90s", "disk_check": False, "model_idle": None}


@router.get("/api/settings")
async def settings(parts: PartsIn, _: AdminIn) -> SettingsOut:
    """Every setting with its value, where that came from, and what it does."""
    return _shown(parts)


@router.post("/api/settings")
async def change_settings(
    parts: PartsIn, admin: AdminIn, body: Annotated[SettingChangesIn, Body(examples=[_EXAMPLE])]
) -> SettingsOut:
    """Change settings of all frontends while they run, by name; null goes back to the default. Settings with `is_live`
    can be changed, all of the request or none. What a frontend was given at its start wins there."""
    await parts.live.change(body, admin.name)
    return _shown(parts)


def _shown(parts: Parts) -> SettingsOut:
    effective = parts.live.effective
    shown = [
        one.model_copy(update={"is_live": True, **_in_force(parts, one.name)}) if one.name in effective else one
        for one in parts.settings
    ]
    return SettingsOut(answered_by=parts.frontend_id, settings=shown)


def _in_force(parts: Parts, name: str) -> dict[str, str]:
    now = parts.live.effective[name]
    return {"value": now.value, "source": now.source}
