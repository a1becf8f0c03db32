"""Finds in whose name a request about collections is made: the caller's own, or with `?user_id=` that of another owner,
which only admins may."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Query

from corral.api.deps import DepsIn, OwnerIn
from corral.domain.access import Owner, Principal
from corral.domain.errors import NotAllowed, NotFound
from corral.store import access as access_store

UserIdIn = Annotated[
    str, Query(max_length=64, description="For admins: whose collections are meant: a user's id, or key:… of a key.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionActor:
    """Says who sends a request about collections, and in whose name.

    The limits and models of `caller` count for a search, those of `acting` for the reading of documents.
    """

    caller: Principal
    acting: Principal

    @property
    def owner(self) -> Owner:
        return self.acting.owner


async def _find_actor(deps: DepsIn, caller: OwnerIn, user_id: UserIdIn = "") -> CollectionActor:
    if not user_id:
        return CollectionActor(caller=caller, acting=caller)
    if not caller.is_admin:
        raise NotAllowed("Only admins see and change the collections of other users.", hint="Leave user_id out.")
    kind, colon, owner_id = user_id.partition(":")
    if not colon:
        kind, owner_id = "user", user_id
    async with deps.database.transaction() as tx:
        if kind == "user":
            user = await access_store.get_user(tx, owner_id)
            owner, name, scope = Owner(user_id=user.id), user.name, user.scope
        elif kind == "key":
            key = await access_store.get_key(tx, owner_id)
            owner, name, scope = Owner(key_id=key.id, user_id=None), key.name, key.scope
        else:
            raise NotFound("There is no such user.", hint="`corral users list` shows them.", code="user_not_found")
    acting = replace(
        caller, key_id=owner.credential_id, name=name, scope=scope, user_id=owner.user_id, node_id=None, limits=()
    )
    return CollectionActor(caller=caller, acting=acting)


ActorIn = Annotated[CollectionActor, Depends(_find_actor)]
