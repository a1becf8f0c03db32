"""`/api/operations` and `/api/backend-intents`: what is under way, what has ended, what is owed, and acting on it.

`views.py` turns the domain's values into JSON, `routes.py` and `intents.py` are the routes. The event stream with the
progress in it is `api/stream/`.
"""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.operations import intents, routes

router = APIRouter(routes=[route for part in (routes, intents) for route in part.router.routes])
