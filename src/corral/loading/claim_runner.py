"""Carries out work that lies in the database until a worker has confirmed it: stops of replicas, removals of files.

Every frontend runs such a loop; a piece of work is claimed by one of them at a time, and its claim expires with the
frontend that held it. Guarantee: a worker that does not respond delays no other; at most `AT_A_TIME` are waited for.

Work is also announced by events, so `PollPacer` polls at every pass while there is some, and seldom after a quiet time.
A lost announcement costs `PASSES_BETWEEN_POLLS` passes and no more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from corral.domain.cluster import OutboxEvent
from corral.domain.node import NodeId
from corral.ports.bus import Bus
from corral.runtime.tasks import TaskSet
from corral.store.database import Database, Transaction, as_uuid

# While a frontend waits for a worker's reply, no other frontend sends it the same command.
LEASE_S = 120.0
AT_A_TIME = 64
# After so many passes in a row that found nothing, only one pass in so many polls.
QUIET_PASSES = 30
PASSES_BETWEEN_POLLS = 10

Claim = TypeVar("Claim")


class PollPacer:
    """Decides whether a frontend's loop polls the database now: always while there is work, rarely in quiet times."""

    def __init__(self) -> None:
        self._in_vain = 0

    def start_pass(self) -> bool:
        """Return whether this pass is to poll."""
        if self._in_vain < QUIET_PASSES or self._in_vain % PASSES_BETWEEN_POLLS == 0:
            return True
        self._in_vain += 1
        return False

    def record_poll(self, *, found: bool) -> None:
        self._in_vain = 0 if found else self._in_vain + 1

    def wake(self) -> None:
        """Poll at the next pass: work was announced."""
        self._in_vain = 0


class ClaimRunner(ABC, Generic[Claim]):
    """Base class that claims due work of one kind in PostgreSQL and carries out each piece in its own task."""

    # Names the tasks in logs.
    name: ClassVar[str]
    # Kinds of events that say that a node may respond again.
    return_kinds: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        database: Database,
        bus: Bus,
        *,
        leaves_to_peers: Callable[[], bool] = lambda: False,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._leaves_to_peers = leaves_to_peers
        self._database = database
        self._bus = bus
        self._tasks = TaskSet(self.name, on_crash)
        self._pace = PollPacer()

    async def tick(self) -> int:
        """Start to carry out what is due, and return how many pieces there were."""
        free = AT_A_TIME - len(self._tasks)
        if free <= 0 or self._leaves_to_peers() or not self._pace.start_pass():
            return 0
        async with self._database.transaction() as tx:
            claims = await self._claim(tx, free)
        self._pace.record_poll(found=bool(claims) or len(self._tasks) > 0)
        for claim in claims:
            self._tasks.start(self._carry_out(claim), name=self._describe(claim))
        return len(claims)

    async def wait_idle(self) -> None:
        """Wait until no worker's answer is outstanding."""
        await self._tasks.join()

    async def close(self) -> None:
        await self._tasks.close()

    async def follow(self, events: Sequence[OutboxEvent]) -> bool:
        """Make the work of nodes that are back due at once. Return whether there may be something to do."""
        returned_nodes = {as_uuid(event.key) for event in events if event.kind in self.return_kinds}
        known = sorted(NodeId(node) for node in returned_nodes if node is not None)
        if known:
            async with self._database.transaction() as tx:
                await self._hasten(tx, known)
        is_called = bool(known) or any(self._is_called_by(event) for event in events)
        if is_called:
            self._pace.wake()
        return is_called

    @abstractmethod
    async def _claim(self, tx: Transaction, limit: int) -> Sequence[Claim]:
        """Claim at most `limit` due pieces of work for `LEASE_S`."""

    @abstractmethod
    async def _hasten(self, tx: Transaction, node_ids: Sequence[NodeId]) -> None:
        """Make the work that waits for these nodes due."""

    @abstractmethod
    def _is_called_by(self, event: OutboxEvent) -> bool:
        """Return whether the event announces work."""

    @abstractmethod
    def _describe(self, claim: Claim) -> str:
        """Return the name of the task that carries the claim out."""

    @abstractmethod
    async def _carry_out(self, claim: Claim) -> None:
        """Send the command to the worker, and write what has come of it. Does not raise."""
