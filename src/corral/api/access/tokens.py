"""`/api/tokens`: how machines join."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request, Response

from corral.access import tokens
from corral.api.idempotency import once
from corral.api.parts import AdminIn, PartsIn
from corral.store import access as store
from corral.store.database import Transaction
from corral.wire.access import TokenIn, TokenMade, TokenOut

router = APIRouter(prefix="/api", tags=["access"])


@router.post("/tokens", status_code=201, response_model=TokenMade)
async def create_token(request: Request, parts: PartsIn, admin: AdminIn, body: TokenIn) -> Response:
    """A join token for new machines. The secret is in this answer and nowhere else."""
    wish = tokens.TokenWish(
        name=body.name, max_uses=body.max_uses, expires_in_s=body.expires_in_s, approves=body.approves
    )

    async def work(tx: Transaction) -> TokenMade:
        token, secret = await tokens.create_token(tx, parts.ids, wish, admin.name)
        return TokenMade(**asdict(token), token=secret)

    return await once(request, parts.database, admin, work)


@router.get("/tokens")
async def list_tokens(parts: PartsIn, _: AdminIn) -> list[TokenOut]:
    """Every join token with its uses and its state, the oldest first. No secrets."""
    async with parts.database.transaction() as tx:
        return [TokenOut(**asdict(token)) for token in await store.list_tokens(tx)]


@router.delete("/tokens/{token_id}")
async def revoke_token(parts: PartsIn, admin: AdminIn, token_id: str) -> TokenOut:
    """No machine can join with it any more; machines that did stay."""
    async with parts.database.transaction() as tx:
        return TokenOut(**asdict(await tokens.revoke_token(tx, token_id, admin.name)))
