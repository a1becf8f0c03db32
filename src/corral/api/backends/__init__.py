"""Routes about backends: the catalog, installed backends, changes, and engines on one node.

Every route that requests a change goes through `operation_requests.py`; the paths of `/api`, of LocalAI's API and of a
node differ only in their responses.
"""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.backends import catalog, engines, node_backends, operation_requests

router = APIRouter(
    routes=[route for part in (catalog, operation_requests, node_backends, engines) for route in part.router.routes]
)
