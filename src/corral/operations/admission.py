"""The one door for operations: checked, written and told in one transaction, before anybody hears the id.

Guarantee: of any number of equal requests, on any number of frontends, one becomes an operation and the others are
given its id. A rival for the same scope is refused, or waits behind if it was asked to. Nothing is sent to a node here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from corral.domain.errors import Conflict, NotFound
from corral.domain.node import Node
from corral.domain.operation import Operation, OperationId
from corral.operations.planning import Builds, Fleet, Planned, check, named_nodes, plan_targets, read_fleet
from corral.operations.request import Asked
from corral.operations.resuming import resume_paused
from corral.operations.scope import is_same_intent, scope_key
from corral.ports.runtime import Ids
from corral.store import access as access_store
from corral.store import assignments as assignment_store
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store.database import Database, Transaction
from corral.store.operations import NewOperation

# Operations that wait behind one another in one scope; more than a few are a script that has run wild.
CHAIN_MAX = 20
# Refusals that are about what nodes have now.
_MAY_CHANGE = frozenset({"backend_not_installed", "already_current"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    operation: Operation
    # It was there already: the same was asked for before.
    is_duplicate: bool = False
    # It was paused, and this request has taken it up again.
    is_resumed: bool = False


class Again(Protocol):
    """Asking for exactly what an operation was asked for with."""

    async def __call__(self, tx: Transaction, old: Operation, actor: str) -> Admitted: ...


class Admission:
    """`others`: who asks again for operations that are not about backends, by pool."""

    def __init__(
        self, database: Database, catalog: Builds, ids: Ids, others: Mapping[str, Again] | None = None
    ) -> None:
        self._database = database
        self._catalog = catalog
        self._ids = ids
        self._others = others or {}

    async def admit(self, asked: Asked, actor: str, *, queue_behind: bool = False) -> Admitted:
        """With `queue_behind`, a rival of the same scope is waited for instead of refused."""
        async with self._database.transaction() as tx:
            return await self.admit_in(tx, asked, actor, queue_behind=queue_behind)

    async def again(self, tx: Transaction, old: Operation, actor: str) -> Admitted:
        """Exactly the same once more, as a retry of the old one."""
        other = self._others.get(old.kind.pool)
        if other is not None:
            return await other(tx, old, actor)
        return await self.admit_in(tx, Asked.from_json(old.request), actor, retry_of=old.id)

    async def plan(self, asked: Asked) -> Planned:
        """What would be done to which node; nothing is written."""
        async with self._database.transaction() as tx:
            fleet = await read_fleet(tx, asked)
        return plan_targets(asked, fleet.nodes, fleet.installed, self._catalog, owed=fleet.owed)

    async def admit_in(
        self,
        tx: Transaction,
        asked: Asked,
        actor: str,
        *,
        queue_behind: bool = False,
        retry_of: OperationId | None = None,
    ) -> Admitted:
        """As a part of a larger change. Refused as a whole, or written."""
        check(asked)
        fleet = await read_fleet(tx, asked)
        named = None if asked.nodes is None else named_nodes(asked, fleet.nodes)
        key = scope_key(asked, None if named is None else [node.id for node in named])
        await operation_store.lock_scope(tx, key)
        chain = await operation_store.list_active(tx, key)
        if chain and is_same_intent(asked, chain[-1].request):
            return await self._again(tx, chain[-1])
        if chain and not queue_behind:
            raise in_progress(chain[-1], "the same nodes")
        check_chain(chain)
        self._check_possible(asked, fleet, may_become_true=bool(chain))
        if not chain:
            for paused in await operation_store.find_paused(tx, key):
                if is_same_intent(asked, paused.request):
                    resumed = await resume_paused(tx, paused, self._ids, actor)
                    return Admitted(operation=resumed, is_duplicate=True, is_resumed=True)
        new = self._new(asked, named, key, actor)
        return Admitted(operation=await write(tx, new, chain, retry_of))

    def _check_possible(self, asked: Asked, fleet: Fleet, *, may_become_true: bool) -> None:
        """A request that no node could meet is refused. What waits behind another is planned when its turn comes: until
        then the other may bring what is missing."""
        try:
            plan_targets(asked, fleet.nodes, fleet.installed, self._catalog, owed=fleet.owed)
        except (Conflict, NotFound) as refusal:
            if not may_become_true or refusal.slug not in _MAY_CHANGE:
                raise

    def _new(self, asked: Asked, named: Sequence[Node] | None, key: str, actor: str) -> NewOperation:
        only = named[0] if named is not None and len(named) == 1 else None
        return NewOperation(
            id=OperationId(self._ids.new_id()),
            kind=asked.kind,
            subject=asked.backend,
            scope_key=key,
            scope_node=only.id if only else None,
            scope_node_name=only.name if only else "",
            request=asked.to_json(),
            created_by=actor,
            deadline_s=asked.deadline_s,
        )

    async def _again(self, tx: Transaction, operation: Operation) -> Admitted:
        await assignment_store.hasten(tx, operation.id)
        return Admitted(operation=await operation_store.get(tx, operation.id), is_duplicate=True)


async def write(
    tx: Transaction, new: NewOperation, chain: Sequence[Operation], retry_of: OperationId | None
) -> Operation:
    """The row, behind the last of the chain, with its note, its line in the record and its event."""
    after = chain[-1] if chain else None
    message = (
        "Waits for its turn."
        if after is None
        else f"Waits until the {after.kind.replace('_', ' ')} of {after.subject} has ended."
    )
    operation = await operation_store.insert(
        tx, new, message=message, after_id=after.id if after else None, retry_of=retry_of
    )
    if operation is None:
        # Somebody who does not take the lock of the scope; the index is the last word.
        raise Conflict("Another operation of the same scope was admitted just now; try again.", code="try_again")
    words = f"Asked for by {new.created_by}."
    await operation_store.add_note(tx, operation.id, words)
    detail = f"{operation.kind} {operation.subject}"
    await access_store.record(tx, new.created_by, "operation.create", operation.id, detail)
    await outbox.append(tx, "operation.created", operation.id, operation_store.event_data(operation))
    return operation


def check_chain(chain: Sequence[Operation]) -> None:
    if len(chain) >= CHAIN_MAX:
        raise Conflict(f"{CHAIN_MAX} operations wait in this scope already.", code="too_many_waiting")


def in_progress(rival: Operation, where: str) -> Conflict:
    return Conflict(
        f"The {rival.kind.replace('_', ' ')} of {rival.subject} is {rival.state.replace('_', ' ')} for {where}.",
        hint=f"Wait for it, queue behind it with --after, or stop it: corral operations cancel {rival.id}",
        code="operation_in_progress",
        details={"operation_id": rival.id, "kind": str(rival.kind), "state": str(rival.state)},
    )
