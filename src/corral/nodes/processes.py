"""Engines on one node, asked of its worker over the bus: what runs, starting, stopping, what they print, and what of
their files is of no use.

The worker is the authority: nothing is answered from the registry, and a node that is off the bus cannot answer.
Stopping is acknowledged: what the answer lists has ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from corral.bus.messages import (
    BackendsCollected,
    BackendStopped,
    CollectBackends,
    JobAccepted,
    ListRunning,
    Log,
    LogLine,
    ReadLog,
    RunningProcess,
    StartBackend,
    StopBackend,
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
# A log is a few files that are turned over; a worker that never comes to its end is not believed.
_ROUNDS_MAX = 50
# One question of an admin does not fill the bus.
_NODES_AT_A_TIME = 32


async def running(database: Database, bus: Bus, reference: str) -> tuple[RunningProcess, ...]:
    """What runs there, with memory and processor as the worker measures them now."""
    node = await _worker(database, reference)
    return (await _ask(database, bus, node, MODELS_RUNNING, ListRunning(measures=True))).processes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProcessesReport:
    """The processes of one node, or why they are not known."""

    node: Node
    processes: tuple[RunningProcess, ...] = ()
    problem: str = ""


async def measure_nodes(database: Database, bus: Bus, nodes: Sequence[Node]) -> list[NodeProcessesReport]:
    """Ask the workers of several nodes at once; one that does not answer is told with its problem."""
    turns = asyncio.Semaphore(_NODES_AT_A_TIME)

    async def ask(node: Node) -> NodeProcessesReport:
        async with turns:
            try:
                found = await running(database, bus, node.id)
            except CorralError as error:
                return NodeProcessesReport(node=node, problem=error.message)
        return NodeProcessesReport(node=node, processes=found)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(node)) for node in nodes]
    return [task.result() for task in tasks]


async def start(database: Database, bus: Bus, reference: str, wish: StartBackend) -> JobAccepted:
    """The worker has the job when this returns; `wish.job_id` makes a second sending the same job."""
    node = await _worker(database, reference)
    return await _ask(database, bus, node, BACKEND_START, wish)


async def stop_backend(database: Database, bus: Bus, reference: str, wish: StopBackend) -> BackendStopped:
    node = await _worker(database, reference)
    return await _ask(database, bus, node, BACKEND_STOP, wish)


async def stop_process(database: Database, bus: Bus, reference: str, key: str, *, force: bool) -> BackendStopped:
    """End exactly one process. One that does not exist is an error: nobody means nothing by a name."""
    node = await _worker(database, reference)
    answer = await _ask(database, bus, node, MODEL_STOP, StopModel(process_key=key, force=force))
    if not answer.matched:
        raise NotFound(
            f"No process {key!r} runs on {node.name}.",
            hint=f"`corral backends processes --node {node.name}` shows what runs.",
            code="process_not_found",
        )
    return BackendStopped(stopped=(key,) if answer.terminated else (), survivors=() if answer.terminated else (key,))


async def collect(database: Database, bus: Bus, reference: str, *, dry_run: bool) -> BackendsCollected:
    """Have the worker throw away what no backend uses, or tell what that is."""
    node = await _worker(database, reference)
    return await _ask(database, bus, node, BACKEND_COLLECT, CollectBackends(dry_run=dry_run))


async def log_keys(database: Database, bus: Bus, reference: str) -> tuple[str, ...]:
    node = await _worker(database, reference)
    return (await _ask(database, bus, node, BACKEND_LOGS, ReadLog())).keys


async def read_log(database: Database, bus: Bus, reference: str, wish: ReadLog) -> Log:
    """Lines after a number; with `wait_s`, the worker waits that long for the first."""
    node = await _worker(database, reference)
    return await _ask(database, bus, node, BACKEND_LOGS, wish)


async def last_lines(database: Database, bus: Bus, reference: str, key: str, lines: int) -> Log:
    """The newest lines of a log. One that does not exist is an error."""
    node = await _worker(database, reference)
    kept: deque[LogLine] = deque(maxlen=lines)
    first = after = 0
    for _ in range(_ROUNDS_MAX):
        part = await _ask(database, bus, node, BACKEND_LOGS, ReadLog(key=key, after=after, limit=LINES_MAX))
        first = part.first
        kept.extend(part.lines)
        if not part.lines or part.next <= after:
            break
        after = part.next
    if not kept and key not in (await _ask(database, bus, node, BACKEND_LOGS, ReadLog())).keys:
        raise NotFound(
            f"No process {key!r} has left a log on {node.name}.",
            hint=f"`corral backends logs --node {node.name}` lists those that have.",
            code="log_not_found",
        )
    return Log(lines=tuple(kept), first=first, next=after)


async def _worker(database: Database, reference: str) -> Node:
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


async def _ask(database: Database, bus: Bus, node: Node, spec: SubjectSpec[Q, R], message: Q) -> R:
    try:
        return await bus.request(spec, message, node=node.id)
    except NodeUnreachable as error:
        # Silence in time says nothing about the bus; that nobody listens does.
        if error.slug != NodeUnreachable.code:
            raise
        # Also notes what is seen of the node on the bus; one that is not there raises here.
        answer = await describe(database, bus, node.id)
        raise Conflict(
            f"The worker of {node.name} does not know {spec.name}; it runs Corral {answer.version}.",
            hint="Upgrade Corral on that machine, then try again.",
            code=COMMAND_UNKNOWN,
        ) from error
