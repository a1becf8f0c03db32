"""Users: people with a name, a scope, and a password or a provider who vouches for them.

A user who is disabled or gone stops at once, with every key and session: here before the answer, on the other frontends
with the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from corral.access.keys import keeping_a_way_in
from corral.domain.access import Scope, User
from corral.ports.runtime import Ids
from corral.store import access as audit
from corral.store import access_users as store
from corral.store import outbox
from corral.store.database import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class UserWish:
    name: str
    scope: Scope
    # None: they come in by a provider, or not at all.
    password_hash: str | None = None
    issuer: str | None = None
    subject: str | None = None


class UserChange(TypedDict, total=False):
    """What shall be different; what is not named stays."""

    scope: Scope
    password_hash: str
    disabled: bool


async def create_user(tx: Transaction, ids: Ids, wish: UserWish, actor: str) -> User:
    user = await store.insert_user(
        tx,
        {
            "id": ids.new_id(),
            "name": wish.name.lower(),
            "scope": wish.scope,
            "password_hash": wish.password_hash,
            "issuer": wish.issuer,
            "subject": wish.subject,
            "created_by": actor[:255],
        },
    )
    await audit.record(tx, actor, "user.create", user.id, user.name)
    await outbox.append(tx, "user.created", user.id, {"name": user.name})
    return user


async def change_user(tx: Transaction, user_id: str, change: UserChange, actor: str) -> User:
    """A new password ends the sessions that were opened with the old one."""
    before = await store.get_user(tx, user_id)
    async with keeping_a_way_in(tx):
        if "scope" in change:
            await store.update_user(tx, before.id, {"scope": change["scope"]})
        if "password_hash" in change:
            await store.update_user(tx, before.id, {"password_hash": change["password_hash"]})
            await store.delete_sessions(tx, before.id)
        if "disabled" in change:
            await store.set_disabled(tx, before.id, disabled=change["disabled"])
    await audit.record(tx, actor, "user.change", before.id, f"{before.name}: {', '.join(sorted(change))}")
    await outbox.append(tx, "user.changed", before.id, {"name": before.name})
    return await store.get_user(tx, before.id)


async def delete_user(tx: Transaction, user_id: str, actor: str) -> User:
    """Gone with their keys and sessions. What they used stays in the record."""
    user = await store.get_user(tx, user_id)
    async with keeping_a_way_in(tx):
        await store.delete_user(tx, user.id)
    await audit.record(tx, actor, "user.delete", user.id, user.name)
    await outbox.append(tx, "user.removed", user.id, {"name": user.name})
    return user
