"""Backends over HTTP: what there is, what is installed, asking for changes, and engines on one node.

Every route that asks for a change goes through `asking.py`, which has one way into admission; the paths of `/api`, of
the ancestor's API and of a node differ only in how they are answered.
"""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.backends import catalog, fleet, galleries, logs, monitor, one_node, upgrades

router = APIRouter(
    routes=[
        route for part in (catalog, upgrades, galleries, fleet, one_node, logs, monitor) for route in part.router.routes
    ]
)
