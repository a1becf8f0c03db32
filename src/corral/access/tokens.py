"""Creates, spends and revokes join tokens, with which machines register as nodes."""

from __future__ import annotations

from dataclasses import dataclass

from corral.access.secrets import hash_secret, make_secret, make_shown_prefix
from corral.domain.access import ADMIN_KEY_PREFIX, JOIN_TOKEN_PREFIX, JoinToken, SecretState
from corral.domain.errors import NotAuthenticated
from corral.ports.runtime import IdGenerator
from corral.store import access as store
from corral.store import outbox
from corral.store.database import Transaction

_REFUSALS = {
    SecretState.REVOKED: "This join token has been revoked.",
    SecretState.EXPIRED: "This join token has expired.",
    SecretState.USED_UP: "This join token has no uses left.",
}
_MAKE_ANOTHER = "An admin can make a new one with `corral tokens create`."


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTokenSpec:
    """Values with which a join token for machines is created: name, uses, lifetime, approval of nodes at once."""

    name: str
    max_uses: int | None
    expires_in_s: float | None
    approves: bool


async def create_token(tx: Transaction, ids: IdGenerator, spec: JoinTokenSpec, actor: str) -> tuple[JoinToken, str]:
    """Create a join token and return it with its secret, which is not stored."""
    secret = make_secret(JOIN_TOKEN_PREFIX, ids)
    token = await store.insert_token(
        tx,
        {
            "id": ids.new_id(),
            "name": spec.name,
            "hash": hash_secret(secret),
            "prefix": make_shown_prefix(secret),
            "max_uses": spec.max_uses,
            "approves": spec.approves,
            "created_by": actor,
        },
        spec.expires_in_s,
    )
    await store.record_audit(tx, actor, "token.create", token.id, spec.name)
    await outbox.append(tx, "token.created", token.id, {"name": token.name})
    return token, secret


async def revoke_token(tx: Transaction, token_id: str, actor: str) -> JoinToken:
    token = await store.revoke_token(tx, token_id)
    await store.record_audit(tx, actor, "token.revoke", token_id, token.name)
    await outbox.append(tx, "token.revoked", token_id, {"name": token.name})
    return token


async def spend_token(tx: Transaction, secret: str | None) -> JoinToken:
    """Count one use of a valid token. Raises with the reason for an invalid one."""
    if not secret:
        raise NotAuthenticated(
            "A join token is needed to register.",
            hint=f"corral worker --join … --token …  {_MAKE_ANOTHER}",
            code="join_token_missing",
        )
    if secret.startswith(ADMIN_KEY_PREFIX):
        raise NotAuthenticated("That is an API key, not a join token.", hint=_MAKE_ANOTHER, code="join_token_unknown")
    token = await store.find_token_by_hash(tx, hash_secret(secret))
    if token is None:
        raise NotAuthenticated("This join token is not known here.", hint=_MAKE_ANOTHER, code="join_token_unknown")
    if token.state is not SecretState.ACTIVE:
        raise NotAuthenticated(_REFUSALS[token.state], hint=_MAKE_ANOTHER, code=f"join_token_{token.state}")
    await store.count_token_use(tx, token.id)
    return token


async def is_approving_token(tx: Transaction, secret: str | None) -> bool:
    """Return whether this is a valid join token that approves nodes at once. It is not spent."""
    token = await store.find_token_by_hash(tx, hash_secret(secret)) if secret else None
    return token is not None and token.approves and token.state is SecretState.ACTIVE


async def ensure_local_token(tx: Transaction, ids: IdGenerator, secret: str) -> None:
    """Ensure the join token of the worker that `corral up` starts on this machine. It approves the node at once."""
    await store.ensure_token(
        tx,
        {
            "id": ids.new_id(),
            "name": "this machine",
            "hash": hash_secret(secret),
            "prefix": make_shown_prefix(secret),
            "approves": True,
            "created_by": "corral up",
        },
    )
