"""Sends commands to one node over the bus, and records what the answers tell about the node.

A command without a subscriber is an observation: the node is off the bus. That is recorded; nothing
else of the node changes, because its replicas go on answering requests.

Engines on the node are listed, started and stopped, their logs read and unused files collected. The worker is the
authority: nothing is answered from the registry, and a node that is off the bus cannot answer. Stopping is
acknowledged: every process in the answer has ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from corral.bus.messages import (
    CollectBackends,
    CollectBackendsReply,
    DescribeNode,
    JobAcceptedReply,
    ListRunning,
    LogLine,
    NodeDescription,
    ReadLog,
    ReadLogReply,
    RunningProcess,
    StartBackend,
    StopBackend,
    StopBackendReply,
    StopModel,
    StopNode,
    StopNodeReply,
    WakeNode,
)
from corral.bus.subjects import (
    BACKEND_COLLECT,
    BACKEND_LOGS,
    BACKEND_START,
    BACKEND_STOP,
    MODEL_STOP,
    MODELS_RUNNING,
    NODE_DESCRIBE,
    NODE_STOP,
    NODE_WAKE,
    SubjectSpec,
)
from corral.domain.errors import Conflict, CorralError, NodeUnreachable, NotFound
from corral.domain.node import Node, NodeId, NodeType
from corral.policy.faults import COMMAND_UNKNOWN
from corral.ports.bus import Bus
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store.database import Database


async def describe(database: Database, bus: Bus, reference: str) -> NodeDescription:
    """Ask the worker to describe itself."""
    node = await _get_commandable_node(database, reference)
    try:
        answer = await bus.request(NODE_DESCRIBE, DescribeNode(), node=node.id)
    except NodeUnreachable:
        await note_bus(database, node.id, is_on_bus=False)
        raise
    await note_bus(database, node.id, is_on_bus=True)
    return answer


async def stop(database: Database, bus: Bus, reference: str) -> StopNodeReply:
    """Ask the worker to finish its work and exit; the worker signs off itself."""
    node = await _get_commandable_node(database, reference)
    try:
        return await bus.request(NODE_STOP, StopNode(), node=node.id)
    except NodeUnreachable:
        await note_bus(database, node.id, is_on_bus=False)
        raise


async def wake(bus: Bus, node_id: NodeId) -> None:
    """Hint to a node that something about it has changed; without the hint its next heartbeat brings the news."""
    try:
        await bus.publish(NODE_WAKE, WakeNode(), node=node_id)
    except CorralError:
        return


async def note_bus(database: Database, node_id: NodeId, *, is_on_bus: bool) -> None:
    """Record whether the node is on the bus, and wake its pending changes when it is back."""
    async with database.transaction() as tx:
        node = await node_store.find_node(tx, node_id)
        has_changed = node is not None and await node_store.set_bus(tx, node_id, is_on_bus=is_on_bus)
        if node is not None and has_changed:
            await outbox.append(tx, "node.bus_changed", node_id, {"name": node.name, "on_bus": is_on_bus})
    if has_changed and is_on_bus:
        # A transaction of its own: none waits for an operation while it holds the lock of a node.
        async with database.transaction() as tx:
            await assignment_store.wake_nodes(tx, [node_id])


async def _get_commandable_node(database: Database, reference: str) -> Node:
    async with database.transaction() as tx:
        node = await node_store.get_node(tx, reference)
    if node.approved_at is None:
        raise Conflict(
            f"Node {node.name} is not approved and gets no commands.",
            hint=f"corral nodes approve {node.name}",
            code="node_pending",
        )
    return node


Q = TypeVar("Q")
R = TypeVar("R")

LINES_MAX = 1000
# A log is a few rotated files; a worker whose log never ends is not believed.
_ROUNDS_MAX = 50
# Limits the commands of one request of an admin, so that it does not fill the bus.
_NODES_AT_A_TIME = 32


async def list_running(database: Database, bus: Bus, reference: str) -> tuple[RunningProcess, ...]:
    """Return the running processes of a node, with memory and CPU as the worker measures them now."""
    node = await _get_worker_node(database, reference)
    return (await _request(database, bus, node, MODELS_RUNNING, ListRunning(measures=True))).processes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProcessesReport:
    """Engine processes of one node as its worker replied, or the problem that kept them from being read."""

    node: Node
    processes: tuple[RunningProcess, ...] = ()
    problem: str = ""


async def measure_nodes(database: Database, bus: Bus, nodes: Sequence[Node]) -> list[NodeProcessesReport]:
    """Ask the workers of several nodes at once; a node that does not respond is reported with its problem."""
    turns = asyncio.Semaphore(_NODES_AT_A_TIME)

    async def ask(node: Node) -> NodeProcessesReport:
        async with turns:
            try:
                found = await list_running(database, bus, node.id)
            except CorralError as error:
                return NodeProcessesReport(node=node, problem=error.message)
        return NodeProcessesReport(node=node, processes=found)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(node)) for node in nodes]
    return [task.result() for task in tasks]


async def start_engine(database: Database, bus: Bus, reference: str, command: StartBackend) -> JobAcceptedReply:
    """Start a process on a node. The worker has accepted the job when this returns; the same `command.job_id` makes
    a second call the same job."""
    node = await _get_worker_node(database, reference)
    return await _request(database, bus, node, BACKEND_START, command)


async def stop_backend(database: Database, bus: Bus, reference: str, command: StopBackend) -> StopBackendReply:
    node = await _get_worker_node(database, reference)
    return await _request(database, bus, node, BACKEND_STOP, command)


async def stop_process(database: Database, bus: Bus, reference: str, key: str, *, force: bool) -> StopBackendReply:
    """End exactly one process. Raises `NotFound` if it does not exist."""
    node = await _get_worker_node(database, reference)
    answer = await _request(database, bus, node, MODEL_STOP, StopModel(process_key=key, force=force))
    if not answer.matched:
        raise NotFound(
            f"No process {key!r} runs on {node.name}.",
            hint=f"`corral backends processes --node {node.name}` shows what runs.",
            code="process_not_found",
        )
    return StopBackendReply(stopped=(key,) if answer.terminated else (), survivors=() if answer.terminated else (key,))


async def collect_garbage(database: Database, bus: Bus, reference: str, *, dry_run: bool) -> CollectBackendsReply:
    """Have the worker delete files that no backend uses, or only list them."""
    node = await _get_worker_node(database, reference)
    return await _request(database, bus, node, BACKEND_COLLECT, CollectBackends(dry_run=dry_run))


async def list_log_keys(database: Database, bus: Bus, reference: str) -> tuple[str, ...]:
    node = await _get_worker_node(database, reference)
    return (await _request(database, bus, node, BACKEND_LOGS, ReadLog())).keys


async def read_log(database: Database, bus: Bus, reference: str, query: ReadLog) -> ReadLogReply:
    """Return log lines after a number; with `wait_s`, the worker waits that long for the first."""
    node = await _get_worker_node(database, reference)
    return await _request(database, bus, node, BACKEND_LOGS, query)


async def read_last_lines(database: Database, bus: Bus, reference: str, key: str, lines: int) -> ReadLogReply:
    """Return the newest lines of a log. Raises `NotFound` if the log does not exist."""
    kept: deque[LogLine] = deque(maxlen=lines)
    first = after = 0
    async for part in iter_log(database, bus, reference, key, _ROUNDS_MAX):
        first, after = part.first, max(after, part.next)
        kept.extend(part.lines)
    return ReadLogReply(lines=tuple(kept), first=first, next=after)


async def iter_log(
    database: Database, bus: Bus, reference: str, key: str, parts_max: int
) -> AsyncGenerator[ReadLogReply, None]:
    """Yield a log from its oldest line to its present end, in at most so many parts of `LINES_MAX` lines. Raises
    `NotFound` if the log does not exist."""
    node = await _get_worker_node(database, reference)
    after = 0
    for _ in range(parts_max):
        part = await _request(database, bus, node, BACKEND_LOGS, ReadLog(key=key, after=after, limit=LINES_MAX))
        if (
            not part.lines
            and not after
            and key not in (await _request(database, bus, node, BACKEND_LOGS, ReadLog())).keys
        ):
            raise NotFound(
                f"No process {key!r} has left a log on {node.name}.",
                hint=f"`corral backends logs --node {node.name}` lists those that have.",
                code="log_not_found",
            )
        yield part
        if not part.lines or part.next <= after:
            return
        after = part.next


async def _get_worker_node(database: Database, reference: str) -> Node:
    async with database.transaction() as tx:
        node = await node_store.get_node(tx, reference)
    if node.type is NodeType.AGENT:
        raise Conflict(f"Node {node.name} is an agent node and runs no backend.", code="node_is_agent")
    if node.approved_at is None:
        raise Conflict(
            f"Node {node.name} is not approved and gets no commands.",
            hint=f"corral nodes approve {node.name}",
            code="node_pending",
        )
    return node


async def _request(database: Database, bus: Bus, node: Node, spec: SubjectSpec[Q, R], message: Q) -> R:
    try:
        return await bus.request(spec, message, node=node.id)
    except NodeUnreachable as error:
        # A late answer says nothing about the bus; a subject without subscribers does.
        if error.slug != NodeUnreachable.code:
            raise
        # Also records whether the node is on the bus; raises if it is not.
        answer = await describe(database, bus, node.id)
        raise Conflict(
            f"The worker of {node.name} does not know {spec.name}; it runs Corral {answer.version}.",
            hint="Upgrade Corral on that machine, then try again.",
            code=COMMAND_UNKNOWN,
        ) from error
