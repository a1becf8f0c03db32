"""Creating calls with an `Idempotency-Key` happen once, however often they are sent.

The answer is remembered for a day in the transaction that did the work. It may hold a secret that is told once, so it
is sealed with the idempotency key itself, of which only a hash is stored.
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


async def once(
    request: Request, database: Database, principal: Principal, work: Callable[[Transaction], Awaitable[BaseModel]]
) -> Response:
    """Do the work in a transaction and answer 201, or give the answer of the first time."""

    async def made(tx: Transaction) -> tuple[int, bytes]:
        return 201, (await work(tx)).model_dump_json().encode()

    return await once_as(request, database, principal, made)


async def once_as(
    request: Request,
    database: Database,
    principal: Principal,
    work: Callable[[Transaction], Awaitable[tuple[int, bytes]]],
) -> Response:
    """As `once`; the work says the status and writes its own JSON."""
    key = request.headers.get("idempotency-key")
    if key is None:
        async with database.transaction() as tx:
            status, body = await work(tx)
        return _answer(status, body, replayed=False)
    if not 1 <= len(key) <= KEY_LENGTH_MAX:
        raise InvalidRequest(f"Idempotency-Key must have 1 to {KEY_LENGTH_MAX} characters.")
    scope = f"{principal.key_id} {request.url.path} {key}"
    key_hash = hashlib.sha256(scope.encode()).hexdigest()
    # Some calls say in their address what is wanted.
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
            return _answer(known[1], box.decrypt(known[2]), replayed=True)
        status, body = await work(tx)
        await store.insert_answer(tx, key_hash, request_hash, status, box.encrypt(body))
    return _answer(status, body, replayed=False)


def _answer(status: int, body: bytes, *, replayed: bool) -> Response:
    headers = {"Idempotency-Replayed": "true"} if replayed else None
    return Response(body, status_code=status, media_type="application/json", headers=headers)
