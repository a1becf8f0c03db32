"""Who gets in, and what they may: join tokens, API keys, users and the sessions of browsers; and what they did."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.access import audit, keys, oidc, sessions, tokens, users

router = APIRouter()
for part in (tokens.router, keys.router, users.router, sessions.router, oidc.router, audit.router):
    router.include_router(part)
