"""Who gets in, and what they may: join tokens, API keys, users and the sessions of browsers."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.access import keys, oidc, sessions, tokens, users

router = APIRouter()
for part in (tokens.router, keys.router, users.router, sessions.router, oidc.router):
    router.include_router(part)
