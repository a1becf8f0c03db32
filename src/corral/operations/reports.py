"""Workers report what they have installed, and what their nodes owed and now have is settled.

Only the present process of a node is heard. A report that says nothing new writes nothing but its time. The report and
the settling are two transactions: nobody waits for an operation while holding a node. Should a frontend die between
them, the next report settles the same. Reports that come while others are being written are written together: when an
operation ends on a thousand nodes at once, they do not queue for its row, nor take every connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC

from corral.domain.backend import InstalledBackend
from corral.domain.errors import BootSuperseded, CorralError, NotFound, Unavailable
from corral.domain.node import Node, NodeId, NodeType
from corral.domain.operation import OperationId
from corral.policy.assignments import is_satisfied
from corral.runtime.guard import Failed, attempt
from corral.store import assignments as assignment_store
from corral.store import installed as installed_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store.database import Database, Transaction

# How many are written together; more would only hold locks longer.
BATCH_MAX = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`removed`: backends that are gone, with the generation of their removal."""

    node_id: NodeId
    boot_id: str
    installed: Mapping[str, InstalledBackend]
    removed: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a report changed: names of backends, and the operations that it brought further."""

    changed: tuple[str, ...] = ()
    settled: tuple[OperationId, ...] = ()


class Reports:
    """The reports that reach this frontend. Each caller waits until its own is written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[Report, asyncio.Future[Taken]]] = []
        self._writing = asyncio.Lock()

    async def take(self, report: Report) -> Taken:
        """Whoever finds nobody writing, writes for all that wait."""
        answer: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
        self._waiting.append((report, answer))
        try:
            async with self._writing:
                while not answer.done():
                    await self._write()
        finally:
            # One that is cancelled while it waits is not written for nobody.
            self._waiting = [item for item in self._waiting if item[1] is not answer]
        return answer.result()

    async def _write(self) -> None:
        batch: dict[NodeId, tuple[Report, asyncio.Future[Taken]]] = {}
        later: list[tuple[Report, asyncio.Future[Taken]]] = []
        for item in self._waiting:
            # Two of one node are written one after the other, as they came.
            if item[0].node_id not in batch and len(batch) < BATCH_MAX:
                batch[item[0].node_id] = item
            else:
                later.append(item)
        self._waiting = later
        try:
            outcomes = await self._outcomes([report for report, _ in batch.values()])
        except BaseException:
            # Whoever waits next writes them.
            self._waiting = [*batch.values(), *self._waiting]
            raise
        for node_id, (_, answer) in batch.items():
            outcome = outcomes[node_id]
            if isinstance(outcome, Taken):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

    async def _outcomes(self, reports: Sequence[Report]) -> Mapping[NodeId, Taken | Exception]:
        """Together; if that fails, one by one: an odd one keeps none of the others out."""
        together = await attempt(lambda: take_all(self._database, reports))
        if not isinstance(together, Failed):
            return together.value
        if isinstance(together.error, Unavailable) or len(reports) == 1:
            return {report.node_id: together.error for report in reports}
        outcomes: dict[NodeId, Taken | Exception] = {}
        for report in reports:
            outcomes.update(await self._outcomes([report]))
        return outcomes


async def take(
    database: Database,
    node_id: NodeId,
    boot_id: str,
    installed: Iterable[InstalledBackend],
    removed: Mapping[str, int],
) -> Taken:
    """One report by itself."""
    report = report_of(node_id, boot_id, installed, removed)
    outcome = (await take_all(database, [report]))[node_id]
    if isinstance(outcome, CorralError):
        raise outcome
    return outcome


def report_of(
    node_id: NodeId, boot_id: str, installed: Iterable[InstalledBackend], removed: Mapping[str, int]
) -> Report:
    there = {item.name: _with_zone(item) for item in installed}
    return Report(node_id=node_id, boot_id=boot_id, installed=there, removed=removed)


async def take_all(database: Database, reports: Sequence[Report]) -> dict[NodeId, Taken | CorralError]:
    """At most one report of each node. A report that is refused keeps none of the others out."""
    outcomes: dict[NodeId, Taken | CorralError] = {}
    accepted: dict[NodeId, Report] = {}
    async with database.transaction() as tx:
        nodes = await node_store.lock_nodes(tx, [report.node_id for report in reports])
        for report in reports:
            refusal = _refusal(report, nodes.get(report.node_id))
            outcomes[report.node_id] = refusal or Taken()
            if refusal is None and _is_heard(nodes[report.node_id]):
                accepted[report.node_id] = report
        changed = await _note(tx, accepted, nodes)
    if not accepted:
        return outcomes
    async with database.transaction() as tx:
        settled = await _settle(tx, accepted)
        await assignment_store.wake_nodes(tx, sorted(node_id for node_id, names in changed.items() if names))
    for node_id in accepted:
        concerned = sorted({key for node, key in settled if node == node_id})
        outcomes[node_id] = Taken(changed=tuple(changed[node_id]), settled=tuple(concerned))
    return outcomes


def _refusal(report: Report, node: Node | None) -> CorralError | None:
    if node is None:
        return NotFound("The node has just been removed.", code="node_not_found")
    if report.boot_id != node.boot_id:
        return BootSuperseded(
            f"A newer worker process of node {node.name} has registered; this one is no longer heard."
        )
    return None


def _is_heard(node: Node) -> bool:
    return node.approved_at is not None and node.type is NodeType.BACKEND


async def _note(
    tx: Transaction, accepted: Mapping[NodeId, Report], nodes: Mapping[NodeId, Node]
) -> dict[NodeId, list[str]]:
    if not accepted:
        return {}
    changed = await installed_store.replace_many(
        tx, {node_id: report.installed.values() for node_id, report in accepted.items()}
    )
    await installed_store.note_reports(tx, accepted.keys())
    news = [(node_id, {"name": nodes[node_id].name, "backends": names}) for node_id, names in changed.items() if names]
    await outbox.append_many(tx, "node.backends_changed", [(str(node_id), data) for node_id, data in news])
    return changed


async def _settle(tx: Transaction, accepted: Mapping[NodeId, Report]) -> list[tuple[NodeId, OperationId]]:
    owed = await assignment_store.list_of_nodes(tx, accepted.keys())
    satisfied = [
        item for item in owed if is_satisfied(item, accepted[item.node_id].installed, accepted[item.node_id].removed)
    ]
    return await assignment_store.settle(tx, satisfied)


def _with_zone(item: InstalledBackend) -> InstalledBackend:
    """A time without a zone is the worker's UTC."""
    if item.installed_at is None or item.installed_at.tzinfo is not None:
        return item
    return replace(item, installed_at=item.installed_at.replace(tzinfo=UTC))
