"""Runs creating calls with an `Idempotency-Key` once, however often they are sent.

The response is stored for a day in the transaction that did the work. It may hold a secret that is shown once, so it
is encrypted with the idempotency key itself, of which only a hash is stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.responses import Response
from nacl.secret import SecretBox
from pydantic import BaseModel

from corral.domain.access import Principal
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.store import access as store
from corral.store.database import Database, Transaction

KEY_LENGTH_MAX = 255


async def create_once(
    request: Request, database: Database, principal: Principal, work: Callable[[Transaction], Awaitable[BaseModel]]
) -> Response:
    """Do the work in a transaction and respond with 201, or repeat the response of the first time."""

    async def make_response(tx: Transaction) -> tuple[int, bytes]:
        return 201, (await work(tx)).model_dump_json().encode()

    return await run_once(request, database, principal, make_response)


async def run_once(
    request: Request,
    database: Database,
    principal: Principal,
    work: Callable[[Transaction], Awaitable[tuple[int, bytes]]],
) -> Response:
    """Run `work` once per `Idempotency-Key`. Unlike in `create_once`, `work` chooses the status and writes the JSON."""
    key = request.headers.get("idempotency-key")
    if key is None:
        async with database.transaction() as tx:
            status, body = await work(tx)
        return _make_response(status, body, replayed=False)
    if not 1 <= len(key) <= KEY_LENGTH_MAX:
        raise InvalidRequest(f"Idempotency-Key must have 1 to {KEY_LENGTH_MAX} characters.")
    scope = f"{principal.key_id} {request.url.path} {key}"
    key_hash = hashlib.sha256(scope.encode()).hexdigest()
    # The query is included, because some calls have parameters there.
    request_hash = hashlib.sha256(request.url.query.encode() + await request.body()).hexdigest()
    box = SecretBox(hashlib.sha256(b"answer " + scope.encode()).digest())
    async with database.transaction() as tx:
        await store.lock_answer(tx, key_hash)
        known = await store.find_answer(tx, key_hash)
        if known is not None:
            if known[0] != request_hash:
                raise Unprocessable(
                    "This Idempotency-Key was used with another body.",
                    hint="Use a new key for a new request.",
                    code="idempotency_key_reused",
                )
            return _make_response(known[1], box.decrypt(known[2]), replayed=True)
        status, body = await work(tx)
        await store.insert_answer(tx, key_hash, request_hash, status, box.encrypt(body))
    return _make_response(status, body, replayed=False)


def _make_response(status: int, body: bytes, *, replayed: bool) -> Response:
    headers = {"Idempotency-Replayed": "true"} if replayed else None
    return Response(body, status_code=status, media_type="application/json", headers=headers)
