"""`GET /api/audit`: who did what to what. For admins: it names people."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from corral.api.parts import AdminIn, PartsIn
from corral.store import access as store
from corral.wire.access import AuditEntryOut, AuditOut

router = APIRouter(prefix="/api/audit", tags=["cluster"])


@router.get("")
async def list_audit(
    parts: PartsIn,
    _: AdminIn,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="`next` of the page before.")] = None,
) -> AuditOut:
    """The newest first, page by page. A page never changes: what comes later is before the first."""
    async with parts.database.transaction() as tx:
        # One more than is told: whether there is a next page.
        rows = await store.list_audit(tx, limit + 1, before=before)
    entries = [AuditEntryOut(**row) for row in rows[:limit]]
    return AuditOut(entries=entries, next=entries[-1].id if len(rows) > limit else None)
