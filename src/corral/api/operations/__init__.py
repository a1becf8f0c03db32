"""`/api/operations` and `/api/backend-intents`: what is under way, what has ended, what is owed, and acting on it.

`views.py` turns the domain's values into JSON, `routes.py` and `intents.py` are the routes, `stream.py` is the event
stream with the progress in it.
"""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.operations import intents, routes, stream

router = APIRouter()
# The stream first: its path would otherwise be the id of an operation.
for part in (stream.router, routes.router, intents.router):
    router.include_router(part)
