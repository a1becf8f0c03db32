"""`POST /api/explain`: which replica would answer a request that came now, and why.

Guarantee: it is the pick itself, with the same numbers, made without taking anything; answered from memory, also while
PostgreSQL is away. Limit: it tells of now and of the frontend that answers. Of a request that was, its own headers, its
line in the access log and its trace say where it went.
"""

from __future__ import annotations

from fastapi import APIRouter

from corral.api.parts import OperateIn, PartsIn
from corral.policy.serving.routing import policy_name
from corral.serving.router import Outlook
from corral.store.use import Served
from corral.wire.explain import CandidateOut, ExplainIn, ExplainOut, LeftOutOut

router = APIRouter(tags=["cluster"])


@router.post("/api/explain")
async def explain(body: ExplainIn, parts: PartsIn, _: OperateIn) -> ExplainOut:
    """Which replica would answer a request for this model now, and why: what is known of each replica, in the order in
    which they would be picked. Nothing is sent to any of them."""
    routing = parts.gateway.router
    model = await routing.resolve(body.model)
    outlook = routing.outlook(model)
    names = {node.id: node.name for node in parts.directory.list_nodes()}
    return ExplainOut(
        model=model.name,
        answered_by=parts.frontend_id,
        policy=policy_name(model.route_policy),
        picked=outlook.picked,
        waiting=outlook.waiting,
        message=_sentence(model, outlook, parts.gateway.wait_s),
        candidates=[
            CandidateOut(
                replica_id=term.replica_id,
                node=term.node_name,
                is_picked=term.replica_id == outlook.picked,
                expected_s=term.expected_s,
                in_flight=term.in_flight,
                capacity=term.capacity,
                seconds=term.seconds,
                is_learnt=term.is_learnt,
                breaker=term.breaker,
                free_bytes=term.free_bytes,
                sentence=term.sentence,
            )
            for term in outlook.terms
        ],
        left_out=[
            LeftOutOut(
                replica_id=replica.id,
                node=names.get(replica.node_id, replica.node_id),
                sentence=f"{names.get(replica.node_id, replica.node_id)}: {why}",
            )
            for replica, why in outlook.left_out
        ],
    )


def _sentence(model: Served, outlook: Outlook, wait_s: float) -> str:
    if outlook.picked is not None:
        picked = next(term for term in outlook.terms if term.replica_id == outlook.picked)
        return f"The next request for {model.name} goes to {picked.node_name}."
    if outlook.waiting:
        return f"{outlook.waiting} requests wait for {model.name} here; the next one would wait behind them."
    if outlook.terms:
        return f"All replicas of {model.name} are full; the next request would wait for its turn."
    limit = f"for up to {wait_s:g} s" if wait_s else "as long as it takes"
    return f"No replica of {model.name} takes requests; the next one would wait {limit} for it to be loaded."
