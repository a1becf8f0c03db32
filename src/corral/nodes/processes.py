"""Manages engines on one node by commands to its worker: list, start, stop, read logs, and collect unused files.

The worker is the authority: nothing is answered from the registry, and a node that is off the bus cannot answer.
Stopping is acknowledged: every process in the answer has ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from corral.bus.messages import (
    CollectBackends,
    CollectBackendsReply,
    JobAcceptedReply,
    ListRunning,
    LogLine,
    ReadLog,
    ReadLogReply,
    RunningProcess,
    StartBackend,
    StopBackend,
    StopBackendReply,
    StopModel,
)
from corral.bus.subjects import (
    BACKEND_COLLECT,
    BACKEND_LOGS,
    BACKEND_START,
    BACKEND_STOP,
    MODEL_STOP,
    MODELS_RUNNING,
    SubjectSpec,
)
from corral.domain.errors import Conflict, CorralError, NodeUnreachable, NotFound
from corral.domain.node import Node, NodeType
from corral.nodes.commands import describe
from corral.policy.faults import COMMAND_UNKNOWN
from corral.ports.bus import Bus
from corral.store import nodes as node_store
from corral.store.database import Database

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
    """Holds the processes of one node, or the problem that kept them from being read."""

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


async def start(database: Database, bus: Bus, reference: str, command: StartBackend) -> JobAcceptedReply:
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
    node = await _get_worker_node(database, reference)
    kept: deque[LogLine] = deque(maxlen=lines)
    first = after = 0
    for _ in range(_ROUNDS_MAX):
        part = await _request(database, bus, node, BACKEND_LOGS, ReadLog(key=key, after=after, limit=LINES_MAX))
        first = part.first
        kept.extend(part.lines)
        if not part.lines or part.next <= after:
            break
        after = part.next
    if not kept and key not in (await _request(database, bus, node, BACKEND_LOGS, ReadLog())).keys:
        raise NotFound(
            f"No process {key!r} has left a log on {node.name}.",
            hint=f"`corral backends logs --node {node.name}` lists those that have.",
            code="log_not_found",
        )
    return ReadLogReply(lines=tuple(kept), first=first, next=after)


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
