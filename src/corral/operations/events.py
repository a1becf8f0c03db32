"""Events of jobs are buffered: a thousand workers that report are one pass twice a second, not a thousand transactions.

`record` only touches memory and keeps the newest event of each job of a node: what one node says never displaces what
another says of a job with the same id. `flush` takes in what has come since. While
PostgreSQL is away the newest ones wait; beyond the bound the oldest are dropped, and their workers are asked later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import structlog

from corral.bus.messages import JobEvent, OperationDelta
from corral.domain.node import NodeId
from corral.domain.operation import OPEN, JobId, Operation, OperationId, Progress
from corral.operations.hearing import CODE_MAX, Listener, Said, delta_of, heard, plain, result_of, stopped_by, take_in
from corral.operations.numbers import EventOutcome, Numbers
from corral.policy.progress import Change, Heard, aggregate
from corral.ports.bus import Delivery
from corral.ports.runtime import Ids
from corral.store import assignments as assignment_store
from corral.store import dispatch as store
from corral.store.database import Database, Transaction, as_uuid

WAITING_MAX = 20_000
# How many jobs one transaction takes in; larger ones only hold locks longer.
BATCH_MAX = 1000
# Texts of workers, so their number is not bounded by itself.
ODD_MAX = 256

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """Operations of which a target has changed its state, and what watchers are to see."""

    called: frozenset[OperationId] = frozenset()
    deltas: tuple[OperationDelta, ...] = ()


class JobEvents:
    def __init__(
        self,
        database: Database,
        ids: Ids,
        *,
        origin: str,
        is_held: Callable[[str], bool],
        numbers: Numbers,
        listeners: Mapping[str, Listener] | None = None,
    ) -> None:
        self._database = database
        self._ids = ids
        self._origin = origin
        self._is_held = is_held
        self._numbers = numbers
        self._listeners = listeners or {}
        self._waiting: OrderedDict[tuple[NodeId, JobId], Said] = OrderedDict()
        self._odd: set[tuple[str, str]] = set()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def record(self, delivery: Delivery[JobEvent]) -> None:
        event = delivery.message
        news, job, node = heard(event), as_uuid(event.job_id), as_uuid(delivery.node or "")
        if news is None or job is None or node is None:
            self._numbers.heard(EventOutcome.ODD)
            self._tell_odd(delivery)
            return
        self._numbers.heard(EventOutcome.TAKEN)
        said = Said(node=NodeId(node), job_id=JobId(job), news=news, stopped=stopped_by(event), result=result_of(event))
        self._put(said)

    def _tell_odd(self, delivery: Delivery[JobEvent]) -> None:
        """Once for each node and state: a worker of a later version says it four times a second."""
        node, state = plain(delivery.node or "", CODE_MAX), plain(delivery.message.state, CODE_MAX)
        if (node, state) in self._odd:
            return
        if len(self._odd) >= ODD_MAX:
            self._odd.clear()
        self._odd.add((node, state))
        log.warning("an event of a job is not understood and left out", node=node, state=state)

    def _put(self, said: Said) -> None:
        key = (said.node, said.job_id)
        older = self._waiting.pop(key, None)
        self._waiting[key] = said if older is None else _newest(older, said)
        while len(self._waiting) > WAITING_MAX:
            self._waiting.popitem(last=False)
            self.dropped += 1
            self._numbers.heard(EventOutcome.DROPPED)

    async def flush(self) -> Flushed:
        """Take in what is waiting now; what comes meanwhile is for the next pass."""
        called: set[OperationId] = set()
        deltas: list[OperationDelta] = []
        left = len(self._waiting)
        while left > 0 and self._waiting:
            batch = [self._waiting.popitem(last=False)[1] for _ in range(min(BATCH_MAX, left, len(self._waiting)))]
            left -= len(batch)
            try:
                async with self._database.transaction() as tx:
                    flushed = await self._take(tx, batch)
            except BaseException:
                for said in batch:
                    self._put(said)
                raise
            called |= flushed.called
            deltas += flushed.deltas
        return Flushed(called=frozenset(called), deltas=tuple(deltas))

    async def _take(self, tx: Transaction, batch: Collection[Said]) -> Flushed:
        changes = await take_in(tx, batch, self._ids, listeners=self._listeners)
        if not changes:
            return Flushed()
        called = frozenset(change.target.operation_id for change in changes if change.target.state is not change.was)
        touched = sorted({change.target.operation_id for change in changes})
        shown = await store.read_shown(tx, touched)
        whole = {
            operation.id: aggregate(operation.targets, operation.progress)
            for operation in shown
            if operation.state in OPEN
        }
        revisions = await store.write_progress(tx, whole)
        # Whoever holds an operation that we do not is called; ours are called in memory.
        await assignment_store.wake_operations(tx, sorted(key for key in called if not self._is_held(key)))
        moved = _moved(changes)
        deltas = [
            delta_of(_as_of(operation, whole, revisions), moved[operation.id], origin=self._origin)
            for operation in shown
            if operation.id in revisions
        ]
        return Flushed(called=called, deltas=tuple(deltas))


def _as_of(operation: Operation, whole: dict[OperationId, Progress], revisions: dict[OperationId, int]) -> Operation:
    return replace(operation, progress=whole[operation.id], rev=revisions[operation.id])


def _moved(changes: Collection[Change]) -> dict[OperationId, set[NodeId]]:
    moved: dict[OperationId, set[NodeId]] = {}
    for change in changes:
        moved.setdefault(change.target.operation_id, set()).add(change.target.node)
    return moved


def _newest(older: Said, newer: Said) -> Said:
    """By the worker's own count, not by arrival. A process that either says has ended, has ended."""
    stopped = tuple(dict.fromkeys((*older.stopped, *newer.stopped)))
    return replace(newer if _seq(newer) >= _seq(older) else older, stopped=stopped)


def _seq(said: Said) -> int:
    assert isinstance(said.news, Heard), "only what workers say is buffered"
    return said.news.seq
