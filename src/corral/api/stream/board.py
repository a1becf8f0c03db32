"""What watchers see beside the changes: the live view, the numbers of nodes, and the last hour of both.

Guarantee: however many watch, each is read and rendered once; nobody watches, and no view is made. A watcher that is
behind gets the newest of each and skips what was between. Limits: the live view moves at most once a second, nodes once
in two; the history costs one look at the nodes every five seconds, whether somebody watches or not.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from corral.api.views import node_live
from corral.domain.errors import StoreUnavailable, Unavailable
from corral.domain.node import NodeId
from corral.insight import history as past
from corral.insight import history_keeper
from corral.insight import sharing as adding
from corral.insight.history import History, Reading
from corral.insight.history_keeper import HistoryKeeper
from corral.insight.sharing import Sharing
from corral.ports.runtime import Clock
from corral.runtime.loop import Loop
from corral.store import nodes as node_store
from corral.store.database import Database, Transaction
from corral.store.nodes import NodeReading
from corral.wire.live import LiveOut, NodeLive, NodesLive

WATCHERS_MAX = 500
NODES_INTERVAL_S = 2.0
# What is younger is not made again; a little less than the interval, which varies.
LIVE_LEAST_S = 0.85
NODES_LEAST_S = 1.7
# A history that comes up a little after the nodes were read takes those.
NODES_FRESH_S = 3.0
# Steps of the nodes' numbers for those who are behind.
STEPS_MAX = 8
# The requests in flight at each node; None: as the leases say.
Busy = Callable[[Transaction], Awaitable[Mapping[NodeId, int] | None]]


class MakeLoop(Protocol):
    """Makes a loop of a name, an interval in seconds and a pass; `leader_only` runs it where the leader is."""

    def __call__(
        self, name: str, interval_s: float, tick: Callable[[], Awaitable[object]], *, leader_only: bool = False
    ) -> Loop: ...


class _Moving(ABC):
    """Something of which only the newest counts. It is made when somebody asks for it, and not twice at a time."""

    def __init__(self, clock: Clock, least_s: float) -> None:
        self.version = 0
        self._clock = clock
        self._least_s = least_s
        self._made_at: float | None = None
        self._making = asyncio.Lock()
        self._moved = asyncio.Event()

    async def refresh(self) -> None:
        async with self._making:
            if self.age_s() < self._least_s:
                return
            if await self._make():
                self.version += 1
                moved, self._moved = self._moved, asyncio.Event()
                moved.set()
            self._made_at = self._clock.monotonic()

    def age_s(self) -> float:
        return float("inf") if self._made_at is None else self._clock.monotonic() - self._made_at

    async def watch(self) -> AsyncGenerator[bytes, None]:
        """What there is, and then whatever has changed since the last time that this watcher took something."""
        seen = 0
        await self.refresh()
        while True:
            moved = self._moved
            if self.version == seen:
                await moved.wait()
                continue
            frame, seen = self._frame(seen), self.version
            yield frame

    @abstractmethod
    async def _make(self) -> bool:
        """Whether it is another than before."""

    @abstractmethod
    def _frame(self, seen: int) -> bytes:
        """For who has seen this version."""


class LiveBoard(_Moving):
    def __init__(self, clock: Clock, look: Callable[[], Awaitable[LiveOut]]) -> None:
        super().__init__(clock, LIVE_LEAST_S)
        self._look = look
        self._shown: LiveOut | None = None
        self._bytes = b""

    async def _make(self) -> bool:
        seen = await self._look()
        # The time alone is nothing new.
        if self._shown is not None and seen.model_copy(update={"at": self._shown.at}) == self._shown:
            return False
        self._shown = seen
        self._bytes = f"event: live\ndata: {seen.model_dump_json(exclude_defaults=True)}\n\n".encode()
        return True

    def _frame(self, _: int) -> bytes:
        return self._bytes


@dataclass(frozen=True, slots=True)
class _Row:
    version: int
    reading: NodeReading
    shown: NodeLive


class NodeBoard(_Moving):
    """Only nodes whose readings have changed are read whole."""

    def __init__(self, clock: Clock, database: Database, busy: Busy) -> None:
        super().__init__(clock, NODES_LEAST_S)
        self._database = database
        self._busy = busy
        self._rows: dict[NodeId, _Row] = {}
        self._frames: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._readings: Sequence[NodeReading] = ()
        self._read_at: float | None = None

    async def readings(self) -> Sequence[NodeReading]:
        """Of all nodes, a few seconds old at most."""
        if self._read_at is None or self._clock.monotonic() - self._read_at > NODES_FRESH_S:
            async with self._database.transaction() as tx:
                await self._read(tx)
        return self._readings

    async def _read(self, tx: Transaction) -> None:
        readings = await node_store.list_readings(tx)
        busy = await self._busy(tx)
        if busy is not None:
            readings = [replace(one, in_flight=busy.get(one.id, 0)) for one in readings]
        self._readings = readings
        self._read_at = self._clock.monotonic()

    async def _make(self) -> bool:
        async with self._database.transaction() as tx:
            await self._read(tx)
            rows = {one.id: row for one in self._readings if (row := self._rows.get(one.id)) and row.reading == one}
            changed = {one.id: one for one in self._readings if one.id not in rows}
            nodes = await node_store.list_nodes(tx, only=changed) if changed else []
        version = self.version + 1
        self._rows = rows | {
            node.id: _Row(version, changed[node.id], node_live(node, changed[node.id].in_flight)) for node in nodes
        }
        return bool(nodes) or not self.version

    def _frame(self, seen: int) -> bytes:
        step = (seen, self.version)
        if step not in self._frames:
            shown = NodesLive(nodes=[row.shown for row in self._rows.values() if row.version > seen])
            self._frames[step] = f"event: nodes\ndata: {shown.model_dump_json()}\n\n".encode()
            if len(self._frames) > STEPS_MAX:
                self._frames.popitem(last=False)
        return self._frames[step]


class Board:
    def __init__(
        self, database: Database, clock: Clock, sharing: Sharing, look: Callable[[], Awaitable[LiveOut]], busy: Busy
    ) -> None:
        self._clock = clock
        self.sharing = sharing
        self.live = LiveBoard(clock, look)
        self.nodes = NodeBoard(clock, database, busy)
        self.history = History()
        self.history_keeper = HistoryKeeper(database, clock, self.history)
        # Of every stream, and of those with numbers among them.
        self.watchers = 0
        self._viewers = 0

    def loops(self, make: MakeLoop) -> tuple[Loop, ...]:
        return (
            make("live numbers", adding.INTERVAL_S, self.tick),
            make("node numbers", NODES_INTERVAL_S, self.tick_nodes),
            make("history", past.STEP_S, self.note),
            make("history keeper", history_keeper.INTERVAL_S, self.history_keeper.tick, leader_only=True),
        )

    def check_room(self) -> None:
        if self.watchers >= WATCHERS_MAX:
            raise Unavailable(
                f"This frontend has {self.watchers} watchers, and takes no more.",
                hint="Close pages that nobody looks at, or ask another frontend.",
                code="too_many_watchers",
            )

    @contextmanager
    def watching(self, *, has_numbers: bool) -> Iterator[None]:
        self.watchers += 1
        self._viewers += has_numbers
        try:
            yield
        finally:
            self.watchers -= 1
            self._viewers -= has_numbers

    async def tick(self) -> int:
        """Tell the peers, and show what they told; of how many places was told."""
        if self._viewers:
            self.sharing.watched()
        told = await self.sharing.tick()
        if self._viewers:
            await self.live.refresh()
        return told

    async def tick_nodes(self) -> bool:
        if self._viewers:
            await self.nodes.refresh()
        return bool(self._viewers)

    async def note(self) -> bool:
        """One moment for the history; whether the nodes are in it."""
        nodes: Sequence[NodeReading] | None = None
        # Without PostgreSQL there is a gap in the curves of nodes; requests have theirs.
        with suppress(StoreUnavailable):
            await self.history_keeper.restore()
            nodes = await self.nodes.readings()
        cluster = self._requests() | (_memory(nodes) if nodes is not None else {})
        of_nodes: dict[str, Reading] = {node.id: _reading(node) for node in nodes or ()}
        self.history.add(self._clock.wall().timestamp(), cluster, None if nodes is None else of_nodes)
        return nodes is not None

    def _requests(self) -> dict[str, float | None]:
        summed = self.sharing.look()
        pace = summed.total.pace()
        return {
            "tokens_per_s": pace.tokens_per_s,
            "requests_per_s": pace.requests_per_s,
            "errors_per_s": pace.errors_per_s,
            "first_byte_p50_s": pace.first_byte_s.p50,
            "first_byte_p95_s": pace.first_byte_s.p95,
            "queue_p95_s": pace.queue_s.p95,
            "waiting": summed.waiting,
            "in_flight": summed.in_flight,
        }


def _memory(nodes: Sequence[NodeReading]) -> dict[str, float | None]:
    there = [node for node in nodes if node.is_there]
    known = [(one.total_vram, _used(one.total_vram, one.available_vram)) for one in there if one.total_vram]
    if not known:
        # A fleet without a GPU has no such curve, rather than one at zero.
        return {"vram_used": None, "vram_total": None}
    return {"vram_used": sum(used or 0 for _, used in known), "vram_total": sum(total for total, _ in known)}


def _reading(node: NodeReading) -> Reading:
    """What a machine that is not there had is not what it has."""
    if not node.is_there:
        return {}
    return {
        "vram_used": _used(node.total_vram, node.available_vram),
        "ram_used": _used(node.total_ram, node.available_ram),
        "disk_free": node.available_disk,
        "in_flight": node.in_flight,
        "models": node.models,
    }


def _used(total: int | None, available: int | None) -> int | None:
    return None if total is None or available is None else max(0, total - available)
