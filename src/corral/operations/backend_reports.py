"""Writes workers' reports of installed backends, and settles the assignments that the reports fulfil.

Only the current worker process of a node may report. A report without changes writes nothing but its time. The report
and the settling are two transactions, so that none waits for an operation while it holds the lock of a node. Should a
frontend die between them, the next report settles the same assignments. Reports that arrive while others are being
written are written together: when an operation ends on a thousand nodes at once, they do not queue for its row, nor
take every connection.
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
from corral.policy.operation_plan import is_satisfied
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store.database import Database, Transaction

# Limits how many reports are written together; more would only hold locks longer.
BATCH_MAX = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendReport:
    """One worker's report to a frontend of its installed backends, and of those that it has removed."""

    node_id: NodeId
    boot_id: str
    installed: Mapping[str, InstalledBackend]
    removed: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendReportResult:
    """Says what a worker's report of its engine backends changed: backend names, and operations that it advanced."""

    changed: tuple[str, ...] = ()
    settled: tuple[OperationId, ...] = ()


class BackendReportWriter:
    """Writes workers' reports of their engine backends to PostgreSQL in batches; each caller waits for its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting_reports: list[tuple[BackendReport, asyncio.Future[BackendReportResult]]] = []
        self._write_lock = asyncio.Lock()

    async def submit_report(self, report: BackendReport) -> BackendReportResult:
        """Write a report and return what it changed. The first caller that finds no writer writes for all that wait."""
        answer: asyncio.Future[BackendReportResult] = asyncio.get_running_loop().create_future()
        self._waiting_reports.append((report, answer))
        try:
            async with self._write_lock:
                while not answer.done():
                    await self._write()
        finally:
            # A caller that was cancelled while it waited needs no write.
            self._waiting_reports = [item for item in self._waiting_reports if item[1] is not answer]
        return answer.result()

    async def _write(self) -> None:
        batch: dict[NodeId, tuple[BackendReport, asyncio.Future[BackendReportResult]]] = {}
        later: list[tuple[BackendReport, asyncio.Future[BackendReportResult]]] = []
        for item in self._waiting_reports:
            # Two reports of one node are written one after the other, in the order of arrival.
            if item[0].node_id not in batch and len(batch) < BATCH_MAX:
                batch[item[0].node_id] = item
            else:
                later.append(item)
        self._waiting_reports = later
        try:
            outcomes = await self._apply_batch([report for report, _ in batch.values()])
        except BaseException:
            # The next caller that waits writes the rest.
            self._waiting_reports = [*batch.values(), *self._waiting_reports]
            raise
        for node_id, (_, answer) in batch.items():
            outcome = outcomes[node_id]
            if isinstance(outcome, BackendReportResult):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

    async def _apply_batch(self, reports: Sequence[BackendReport]) -> Mapping[NodeId, BackendReportResult | Exception]:
        """Write the reports together; if that fails, one by one, so that a faulty one keeps none of the others out."""
        together = await attempt(lambda: apply_reports(self._database, reports))
        if not isinstance(together, AttemptFailure):
            return together.value
        if isinstance(together.error, Unavailable) or len(reports) == 1:
            return {report.node_id: together.error for report in reports}
        outcomes: dict[NodeId, BackendReportResult | Exception] = {}
        for report in reports:
            outcomes.update(await self._apply_batch([report]))
        return outcomes


def make_report(
    node_id: NodeId, boot_id: str, installed: Iterable[InstalledBackend], removed: Mapping[str, int]
) -> BackendReport:
    reported = {item.name: _with_zone(item) for item in installed}
    return BackendReport(node_id=node_id, boot_id=boot_id, installed=reported, removed=removed)


async def apply_reports(
    database: Database, reports: Sequence[BackendReport]
) -> dict[NodeId, BackendReportResult | CorralError]:
    """Write at most one report of each node. A report that is refused keeps none of the others out."""
    outcomes: dict[NodeId, BackendReportResult | CorralError] = {}
    accepted: dict[NodeId, BackendReport] = {}
    async with database.transaction() as tx:
        nodes = await node_store.lock_nodes(tx, [report.node_id for report in reports])
        for report in reports:
            refusal = _find_refusal(report, nodes.get(report.node_id))
            outcomes[report.node_id] = refusal or BackendReportResult()
            if refusal is None and _is_accepted_node(nodes[report.node_id]):
                accepted[report.node_id] = report
        changed = await _write_reports(tx, accepted, nodes)
    if not accepted:
        return outcomes
    async with database.transaction() as tx:
        settled = await _settle(tx, accepted)
        await assignment_store.wake_nodes(tx, sorted(node_id for node_id, names in changed.items() if names))
    for node_id in accepted:
        concerned = sorted({key for node, key in settled if node == node_id})
        outcomes[node_id] = BackendReportResult(changed=tuple(changed[node_id]), settled=tuple(concerned))
    return outcomes


def _find_refusal(report: BackendReport, node: Node | None) -> CorralError | None:
    if node is None:
        return NotFound("The node was removed a moment ago.", code="node_not_found")
    if report.boot_id != node.boot_id:
        return BootSuperseded(
            f"A newer worker process of node {node.name} has registered; messages of this one are ignored."
        )
    return None


def _is_accepted_node(node: Node) -> bool:
    return node.approved_at is not None and node.type is NodeType.BACKEND


async def _write_reports(
    tx: Transaction, accepted: Mapping[NodeId, BackendReport], nodes: Mapping[NodeId, Node]
) -> dict[NodeId, list[str]]:
    if not accepted:
        return {}
    changed = await assignment_store.replace_installed_many(
        tx, {node_id: report.installed.values() for node_id, report in accepted.items()}
    )
    await assignment_store.note_reports(tx, accepted.keys())
    news = [(node_id, {"name": nodes[node_id].name, "backends": names}) for node_id, names in changed.items() if names]
    await outbox.append_many(tx, "node.backends_changed", [(str(node_id), data) for node_id, data in news])
    return changed


async def _settle(tx: Transaction, accepted: Mapping[NodeId, BackendReport]) -> list[tuple[NodeId, OperationId]]:
    assignments = await assignment_store.list_for_nodes(tx, accepted.keys())
    satisfied = [
        item
        for item in assignments
        if is_satisfied(item, accepted[item.node_id].installed, accepted[item.node_id].removed)
    ]
    return await assignment_store.settle(tx, satisfied)


def _with_zone(item: InstalledBackend) -> InstalledBackend:
    """Return the backend with a time zone on its times: a time without one is the worker's UTC."""
    if item.installed_at is None or item.installed_at.tzinfo is not None:
        return item
    return replace(item, installed_at=item.installed_at.replace(tzinfo=UTC))
