"""Who gets in, and what they may: join tokens, API keys, users and the sessions of browsers; and what they did."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.access import audit, keys, oidc, sessions, tokens, users

router = APIRouter(
    routes=[route for part in (tokens, keys, users, sessions, oidc, audit) for route in part.router.routes]
)
