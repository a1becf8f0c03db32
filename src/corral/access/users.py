"""Users: people with a name, a scope, and a password or an identity at an OpenID Connect provider.

Disabling or deleting a user ends all their keys and sessions: at this frontend before the response, at the others with
the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from corral.access.keys import ensure_admin_key_remains
from corral.domain.access import Scope, User
from corral.ports.runtime import IdGenerator
from corral.store import access as store
from corral.store import outbox
from corral.store.database import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpec:
    """Values with which a user is created: name, scope, and a password hash or an identity at a provider."""

    name: str
    scope: Scope
    # None: the user signs in through a provider, or not at all.
    password_hash: str | None = None
    issuer: str | None = None
    subject: str | None = None


class UserChange(TypedDict, total=False):
    """Fields of a user that are to change; a field that is absent stays."""

    scope: Scope
    password_hash: str
    disabled: bool


async def create_user(tx: Transaction, ids: IdGenerator, spec: UserSpec, actor: str) -> User:
    user = await store.insert_user(
        tx,
        {
            "id": ids.new_id(),
            "name": spec.name.lower(),
            "scope": spec.scope,
            "password_hash": spec.password_hash,
            "issuer": spec.issuer,
            "subject": spec.subject,
            "created_by": actor[:255],
        },
    )
    await store.record_audit(tx, actor, "user.create", user.id, user.name)
    await outbox.append(tx, "user.created", user.id, {"name": user.name})
    return user


async def change_user(tx: Transaction, user_id: str, change: UserChange, actor: str) -> User:
    """Change a user. A new password ends the sessions that were opened with the old one."""
    user = await store.get_user(tx, user_id)
    async with ensure_admin_key_remains(tx):
        if "scope" in change:
            await store.update_user(tx, user.id, {"scope": change["scope"]})
        if "password_hash" in change:
            await store.update_user(tx, user.id, {"password_hash": change["password_hash"]})
            await store.delete_sessions(tx, user.id)
        if "disabled" in change:
            await store.set_disabled(tx, user.id, disabled=change["disabled"])
    await store.record_audit(tx, actor, "user.change", user.id, f"{user.name}: {', '.join(sorted(change))}")
    await outbox.append(tx, "user.changed", user.id, {"name": user.name})
    return await store.get_user(tx, user.id)


async def delete_user(tx: Transaction, user_id: str, actor: str) -> User:
    """Delete a user with their keys, sessions and secrets. The record of their usage stays."""
    user = await store.get_user(tx, user_id)
    async with ensure_admin_key_remains(tx):
        await store.delete_user(tx, user.id)
    await store.record_audit(tx, actor, "user.delete", user.id, user.name)
    await outbox.append(tx, "user.removed", user.id, {"name": user.name})
    return user
