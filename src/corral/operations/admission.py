"""Admission of operations: a request is checked, written and announced in one transaction, before its id is returned.

`AdmissionController` is the same for every pool of operations. A pool says what a request is about, which operation it
may join, and what refuses it: `operations/backend_pool.py` for backends, `loading/admission.py` for models.

Guarantee: of any number of equal requests, on any number of frontends, one becomes an operation and the others are
given its id. A rival for the same scope is refused, or waits behind the active operation if the request says so, and
begins once that one has ended. A request for a paused operation resumes it. Admission sends nothing to a node.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from corral.domain.errors import Conflict, NotFound
from corral.domain.node import Node, NodeId
from corral.domain.operation import Operation, OperationId, OperationKind, OperationState
from corral.ports.runtime import IdGenerator
from corral.store import access as access_store
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store.database import Database, Transaction, as_uuid
from corral.store.dispatch import OperationLease
from corral.store.operations import FIRST_FENCE, LeaseTerms, NewOperation
from corral.store.schema import NOW

# Limits how many operations wait behind one another in one scope; a longer chain is a script out of control.
CHAIN_MAX = 20


class OperationSpec(Protocol):
    """Interface of what an operation is to do. Stored whole with the operation, so that a retry repeats it."""

    @property
    def kind(self) -> OperationKind: ...

    @property
    def subject(self) -> str:
        """Return the name of what the operation is about."""
        ...

    @property
    def deadline_s(self) -> float | None:
        """Return how long the operation may stay open; None: without limit."""
        ...

    def check(self) -> None:
        """Raise if the request is invalid by itself, without a look at the registry."""
        ...

    def to_json(self) -> dict[str, Any]: ...


S = TypeVar("S", bound=OperationSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest(Generic[S]):
    """A checked request for an operation: its spec, its scope, and the nodes that it names; None: it names none."""

    spec: S
    scope_key: str
    nodes: Sequence[Node] | None
    # True if the scope was made in this transaction, so that it can have no rival.
    is_scope_new: bool = False


R = TypeVar("R", bound=AdmissionRequest[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionResult:
    """The operation that a request for a change was accepted as.

    A new one, or an existing one that the request joined or resumed.
    """

    operation: Operation
    # True if the same request was admitted before.
    is_duplicate: bool = False
    # True if the operation was paused, and this request has resumed it.
    is_resumed: bool = False


class OperationClaimer(Protocol):
    """Interface of the frontend's dispatcher, which drives operations that this frontend has admitted itself."""

    def find_lease_terms(self, pool: str) -> LeaseTerms | None:
        """Return how an operation is claimed while it is admitted; None: the first frontend that looks shall
        claim it."""
        ...

    def hold_admitted(self, lease: OperationLease, pool: str, placed: Operation | None) -> None:
        """Drive an operation whose admission has been committed with a lease for this frontend. `placed`: the operation
        with its targets, whose commands can be sent without reading the rows again."""
        ...

    def wake(self) -> None:
        """Look for due operations at once."""
        ...


class AdmissionController(ABC, Generic[S, R]):
    """Base class that admits requests for operations: checks a spec, joins, refuses or queues it, and writes the row.

    One for each pool of operations: backends, models, runs.
    """

    # Completes the sentence about a rival: "The load of m is running for …".
    scope_words: ClassVar[str]
    # Whether an admitted operation gets a note, and a line in the audit.
    is_audited: ClassVar[bool] = True
    # Whether a caller waits for the operation: then this frontend drives it from its admission on, if it can.
    is_claimed_at_once: ClassVar[bool] = False

    def __init__(self, database: Database, ids: IdGenerator) -> None:
        self._database = database
        self._ids = ids
        self.claimer: OperationClaimer | None = None

    async def admit(self, spec: S, actor: str, *, queue_behind: bool = False) -> AdmissionResult:
        """Admit an operation. With `queue_behind`, it waits for a rival of the same scope instead of being refused."""
        async with self._database.transaction() as tx:
            return await self.admit_in(tx, spec, actor, queue_behind=queue_behind)

    async def admit_retry(self, tx: Transaction, old: Operation, actor: str) -> AdmissionResult:
        """Admit the spec of an old operation once more, as its retry."""
        return await self.admit_in(tx, self._parse_retry(old.request), actor, retry_of=old.id)

    async def admit_in(
        self,
        tx: Transaction,
        spec: S,
        actor: str,
        *,
        queue_behind: bool = False,
        retry_of: OperationId | None = None,
    ) -> AdmissionResult:
        """Admit an operation inside a larger transaction: the whole change is written, or refused with an error."""
        spec.check()
        request = await self._resolve(tx, spec)
        chain: list[Operation] = []
        if not request.is_scope_new:
            await operation_store.lock_scope(tx, request.scope_key)
            chain = await operation_store.list_active(tx, request.scope_key)
        while True:
            existing = await self._find_existing(tx, request, chain)
            if existing is not None:
                return existing
            if chain and not queue_behind and not self._must_queue_behind(request, chain[-1]):
                raise _make_in_progress_error(chain[-1], self.scope_words)
            if not chain or await operation_store.keep_active(tx, chain[-1].id):
                break
            # It has ended since it was read, so it would never promote an operation behind it.
            chain = await operation_store.list_active(tx, request.scope_key)
        if len(chain) >= CHAIN_MAX:
            raise Conflict(
                f"{CHAIN_MAX} operations for {self.scope_words} already wait.",
                hint="Wait until one has ended, or cancel one of them.",
                code="too_many_waiting",
            )
        self._check_possible(request, is_first=not chain)
        if not chain and (paused := await self._find_paused(tx, request)) is not None:
            return AdmissionResult(
                operation=await self.resume_in(tx, paused, actor), is_duplicate=True, is_resumed=True
            )
        new = self._make_operation(request, actor)
        request, terms = await self._plan_start(tx, request, self._find_lease_terms(spec, chain))
        operation = await _write_operation(tx, new, chain, retry_of, terms)
        operation = await self._write_details(tx, request, operation)
        self._call_after_commit(tx, operation, terms)
        if self.is_audited:
            await operation_store.add_note(tx, operation.id, f"Requested by {actor}.")
            detail = f"{operation.kind} {operation.subject}"
            await access_store.record_audit(tx, actor, "operation.create", operation.id, detail)
        return AdmissionResult(operation=operation)

    async def _find_existing(self, tx: Transaction, request: R, chain: Sequence[Operation]) -> AdmissionResult | None:
        """Return the operation that answers the request: an active one that it joins, or one that has just ended."""
        joined = self._find_joined(request, chain)
        if joined is not None:
            await self._on_joined(tx, joined)
            return AdmissionResult(operation=await operation_store.get(tx, joined.id), is_duplicate=True)
        recent = await self._find_recent(tx, request)
        return None if recent is None else AdmissionResult(operation=recent, is_duplicate=True)

    def _find_lease_terms(self, spec: S, chain: Sequence[Operation]) -> LeaseTerms | None:
        if not self.is_claimed_at_once or self.claimer is None or chain:
            return None
        return self.claimer.find_lease_terms(spec.kind.pool)

    def _call_after_commit(self, tx: Transaction, operation: Operation, terms: LeaseTerms | None) -> None:
        """Have this frontend begin with an operation as soon as it is committed, without waiting for an event."""
        if not self.is_claimed_at_once or self.claimer is None:
            return
        if terms is None:
            tx.on_commit(self.claimer.wake)
        elif terms.owner is not None:
            lease = OperationLease(id=operation.id, owner=terms.owner, fence=FIRST_FENCE)
            placed = operation if operation.targets else None
            tx.on_commit(partial(self.claimer.hold_admitted, lease, operation.kind.pool, placed))

    async def resume_in(self, tx: Transaction, paused: Operation, actor: str) -> Operation:
        """Queue a paused operation again: the same operation, with new jobs. The caller holds the lock of the scope
        and has checked that no rival is active."""
        operation = await operation_store.lock(tx, paused.id)
        values = {
            "state": OperationState.QUEUED,
            "message": "Waiting for its turn.",
            "finished_at": None,
            "due_at": NOW,
        }
        operation = await self._restart(tx, operation, values)
        await operation_store.add_note(tx, operation.id, f"Resumed by {actor}.")
        await access_store.record_audit(tx, actor, "operation.resume", operation.id, operation.subject)
        await outbox.append(tx, "operation.changed", operation.id, operation_store.make_event_data(operation))
        return await operation_store.get(tx, operation.id)

    @abstractmethod
    def _parse_retry(self, stored_request: Mapping[str, Any]) -> S:
        """Return the spec that a retry of a stored request is admitted with."""

    @abstractmethod
    async def _resolve(self, tx: Transaction, spec: S) -> R:
        """Return the scope and the named nodes of a spec. Raises if something that it names does not exist."""

    @abstractmethod
    def _find_joined(self, request: R, chain: Sequence[Operation]) -> Operation | None:
        """Return the active operation of the scope that does what the request is for."""

    @abstractmethod
    async def _find_paused(self, tx: Transaction, request: R) -> Operation | None:
        """Return the paused operation that the request resumes."""

    @abstractmethod
    async def _restart(self, tx: Transaction, operation: Operation, values: Mapping[str, Any]) -> Operation:
        """Write the values of a resumed operation, and give its targets new jobs."""

    async def _plan_start(
        self,
        tx: Transaction,  # noqa: ARG002 - a hook
        request: R,
        terms: LeaseTerms | None,
    ) -> tuple[R, LeaseTerms | None]:
        """Return the request and how the operation is inserted, after a look at what its first step would find.
        `terms`: how this frontend can claim it."""
        return request, terms

    async def _write_details(self, tx: Transaction, request: R, operation: Operation) -> Operation:  # noqa: ARG002 - a hook
        """Write what belongs to a new operation besides its row, and return the operation, with its targets if it has
        got some."""
        return operation

    async def _on_joined(self, tx: Transaction, operation: Operation) -> None:
        """Called before a request is given the id of an active operation."""

    async def _find_recent(self, tx: Transaction, request: R) -> Operation | None:  # noqa: ARG002 - a hook
        """Return the operation that has ended a moment ago and answers the request."""
        return None

    def _must_queue_behind(self, request: R, rival: Operation) -> bool:  # noqa: ARG002 - a hook
        """Return whether the request waits behind this rival although it did not request to queue."""
        return False

    def _check_possible(self, request: R, *, is_first: bool) -> None:
        """Raise if nothing could fulfil the request. `is_first`: it waits behind no other operation."""

    def _make_operation(self, request: R, actor: str) -> NewOperation:
        spec: OperationSpec = request.spec
        only = request.nodes[0] if request.nodes is not None and len(request.nodes) == 1 else None
        return NewOperation(
            id=OperationId(self._ids.new_id()),
            kind=spec.kind,
            subject=spec.subject,
            scope_key=request.scope_key,
            scope_node=only.id if only else None,
            scope_node_name=only.name if only else "",
            request=spec.to_json(),
            created_by=actor,
            deadline_s=spec.deadline_s,
        )


# The admission controller of each pool.
AdmissionControllers = Mapping[str, AdmissionController[Any, Any]]


def find_named_nodes(references: Sequence[str], nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes with these ids or names, each once. Raises if one of them does not exist."""
    by_id = {node.id: node for node in nodes}
    by_name = {node.name: node for node in nodes}
    found: dict[NodeId, Node] = {}
    for reference in references:
        node = by_id.get(NodeId(as_uuid(reference) or reference)) or by_name.get(reference)
        if node is None:
            raise NotFound(
                f"There is no node {reference[:80]!r}.",
                hint="`corral nodes list` shows the nodes.",
                code="node_not_found",
            )
        found[node.id] = node
    return list(found.values())


async def _write_operation(
    tx: Transaction,
    new: NewOperation,
    chain: Sequence[Operation],
    retry_of: OperationId | None,
    terms: LeaseTerms | None,
) -> Operation:
    """Insert the operation row behind the last of the chain."""
    after = chain[-1] if chain else None
    message = (
        "Waiting for its turn."
        if after is None
        else f"Waiting until the {after.kind.replace('_', ' ')} of {after.subject} has ended."
    )
    operation = await operation_store.insert(
        tx, new, message=message, after_id=after.id if after else None, retry_of=retry_of, terms=terms
    )
    if operation is None:
        # A writer that does not take the lock of the scope can get here; the unique index decides.
        raise Conflict("Another operation of the same scope was admitted a moment ago. Try again.", code="try_again")
    return operation


def _make_in_progress_error(rival: Operation, where: str) -> Conflict:
    return Conflict(
        f"The {rival.kind.replace('_', ' ')} of {rival.subject} is {rival.state.replace('_', ' ')} for {where}.",
        hint=f"Wait for it, queue behind it with --after, or stop it: corral operations cancel {rival.id}",
        code="operation_in_progress",
        details={"operation_id": rival.id, "kind": str(rival.kind), "state": str(rival.state)},
    )
