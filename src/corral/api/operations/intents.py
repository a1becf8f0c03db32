"""`/api/backend-intents`: what nodes still owe, and what was put aside after too many failures."""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.operations.views import intent_out, retry_out
from corral.api.parts import OperateIn, PartsIn
from corral.operations import actions
from corral.store import assignments as store
from corral.wire.nodes import MessageOut
from corral.wire.operations import IntentOut, RetryOut

router = APIRouter(prefix="/api/backend-intents", tags=["operations"])


@router.get("", response_model_exclude_none=True)
async def list_intents(parts: PartsIn, _: OperateIn) -> list[IntentOut]:
    """Every assignment that is not fulfilled, by node and backend; dead ones too."""
    async with parts.database.transaction() as tx:
        owed = await store.list_assignments(tx)
    return [intent_out(one.assignment, one.node_name) for one in owed]


@router.delete("/{node}/{backend:path}")
async def drop_intent(parts: PartsIn, operator: OperateIn, node: str, backend: str) -> MessageOut:
    """The node does not owe it any more. What it has already begun is stopped."""
    await actions.drop_assignment(parts.database, node, backend, operator.name)
    return MessageOut(message=f"{node} does not owe {backend} any more.")


@router.post("/{node}/{backend:path}/revive", response_model_exclude_none=True)
async def revive_intent(parts: PartsIn, operator: OperateIn, node: str, backend: str) -> RetryOut:
    """Ask this node for the same again, with its failures forgotten: an operation of its own."""
    return retry_out(await actions.revive_assignment(parts.database, parts.admission, node, backend, operator.name))
