"""Streams what an agent does for one owner: the turns of all their threads, and those that it started by itself.

A reader gets every turn from its beginning and every entry of its trace, as they are stored. Each item carries a cursor
that says how far the reader has come in each turn, so that it resumes behind any item at any frontend, without losing
or repeating one. Limits: turns of calls of the OpenAI API and of other agents are left out: their callers get the
answer. A reader follows `FOLLOWED_MAX` turns at a time; more wait until one of them has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from corral.domain.agent import Agent
from corral.domain.cluster import OutboxEvent
from corral.domain.run import Run, RunEvent, RunKind
from corral.runs.trace import LOOK_INTERVAL_S, RunTraceNotifier
from corral.store import agents as store
from corral.store import runs as run_store
from corral.store.database import Database, Transaction, as_uuid, read_now

FOLLOWED_MAX = 50
# A run becomes visible at the commit of its transaction, which is a moment after its time of creation.
LAG = timedelta(seconds=10)
# Turns that have ended within the lag, which a cursor has to name; more are forgotten, so that it stays short.
REMEMBERED_MAX = 100
CURSOR_CHARS_MAX = 8 * 1024
# In a cursor: the reader does not have the beginning of this turn.
_UNSEEN = -1
_CREATED = "operation.created"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCursor:
    """Position of a reader in the stream of LLM agents' turns: the last entry it has seen of each turn.

    Of each turn since a time, and of older turns that were open then.
    """

    since: datetime
    # The last entry that the reader has of each turn; `_UNSEEN`: not even its beginning.
    seen: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        micros = int((self.since - _EPOCH) / timedelta(microseconds=1))
        turns = (f"{run_id.replace('-', '')}.{seq}" for run_id, seq in self.seen.items())
        return "~".join((str(micros), *turns))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_cursor(text: str) -> StreamCursor | None:
    """Return the cursor that a text holds; None if the text is not a cursor."""
    micros, *turns = text.split("~")
    if not micros.isdecimal() or len(micros) > 17 or len(text) > CURSOR_CHARS_MAX:
        return None
    seen: dict[str, int] = {}
    for turn in turns:
        run_id, _, seq = turn.partition(".")
        known = as_uuid(run_id)
        if known is None or not seq.removeprefix("-").isdecimal() or len(seq) > 15:
            return None
        seen[known] = int(seq)
    return StreamCursor(since=_EPOCH + timedelta(microseconds=int(micros)), seen=seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStreamItem:
    """One item of the stream of LLM agents' turns: the beginning of a turn (`event` is None), or a trace entry."""

    run: Run
    event: RunEvent | None
    cursor: StreamCursor


class AgentStreamReader:
    """Streams the turns of LLM agents to any number of readers, and is woken by the events of new runs."""

    def __init__(self, database: Database, readers: RunTraceNotifier) -> None:
        self._database = database
        self._readers = readers
        # The readers at this frontend, by the id of their agent, which is the subject of its operations.
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def follow(self, events: Iterable[OutboxEvent]) -> None:
        """Wake the readers of agents for which a run was created."""
        kind = str(RunKind.AGENT_TURN.operation_kind)
        for event in events:
            if event.kind == _CREATED and event.data.get("kind") == kind:
                for wake in self._waiting.get(str(event.data.get("subject")), ()):
                    wake.set()

    async def begin(self, agent: Agent, owner: str) -> StreamCursor:
        """Return the cursor of a new reader: it gets the turns that are open now, and those that begin later."""
        async with self._database.transaction() as tx:
            since = await read_now(tx) - LAG
            opened = await run_store.list_agent_turns(tx, agent.id, owner, since=None, limit=FOLLOWED_MAX)
            recent = await run_store.list_agent_turns(tx, agent.id, owner, since=since, limit=REMEMBERED_MAX)
        # Turns that have just ended are not for this reader; one whose transaction is about to commit is.
        seen = {str(run.id): run.last_seq if run.state.is_final else _UNSEEN for run in (*opened, *recent)}
        return StreamCursor(since=since, seen=seen)

    async def watch(self, agent: Agent, owner: str, cursor: StreamCursor) -> AsyncIterator[Sequence[AgentStreamItem]]:
        """Yield the entries behind a cursor, in batches; an empty batch says that nothing has happened for a moment.
        Ends when the agent is deleted."""
        wake = asyncio.Event()
        self._waiting.setdefault(agent.id, set()).add(wake)
        followed: set[str] = set()
        try:
            while True:
                wake.clear()
                batch = await self._read(agent, owner, cursor)
                if batch is None:
                    return
                cursor = batch.cursor
                for run_id in batch.open_ids - followed:
                    self._readers.add(run_id, wake)
                for run_id in followed - batch.open_ids:
                    self._readers.remove(run_id, wake)
                has_new = not batch.open_ids <= followed
                followed = set(batch.open_ids)
                if batch.items:
                    yield batch.items
                if batch.has_more or has_new:
                    # Entries may have come between the read and the moment at which the reader could be woken.
                    continue
                try:
                    async with asyncio.timeout(LOOK_INTERVAL_S):
                        await wake.wait()
                except TimeoutError:
                    yield ()
        finally:
            for run_id in followed:
                self._readers.remove(run_id, wake)
            self._waiting[agent.id].discard(wake)
            if not self._waiting[agent.id]:
                del self._waiting[agent.id]

    async def _read(self, agent: Agent, owner: str, cursor: StreamCursor) -> _StreamBatch | None:
        async with self._database.transaction() as tx:
            if await store.find_agent(tx, agent.id) is None:
                return None
            now = await read_now(tx)
            limit = FOLLOWED_MAX + len(cursor.seen)
            runs = await run_store.list_agent_turns(
                tx, agent.id, owner, since=cursor.since, also=list(cursor.seen), limit=limit
            )
            return await _collect(tx, runs, cursor, now, is_cut=len(runs) == limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StreamBatch:
    items: Sequence[AgentStreamItem]
    cursor: StreamCursor
    open_ids: frozenset[str]
    has_more: bool


async def _collect(
    tx: Transaction, runs: Sequence[Run], cursor: StreamCursor, now: datetime, *, is_cut: bool
) -> _StreamBatch:
    """Read what is new in these turns, oldest turn first. `is_cut`: there may be newer turns, which were not read."""
    items: list[AgentStreamItem] = []
    # Turns that are gone, because they were deleted, are forgotten.
    known = {run.id for run in runs}
    seen = {run_id: seq for run_id, seq in cursor.seen.items() if run_id in known}
    ended: dict[str, datetime] = {}
    open_ids: set[str] = set()
    has_more = False
    left_out: datetime | None = None
    for run in runs:
        if run.id not in seen and len(seen) - len(ended) >= FOLLOWED_MAX:
            left_out = left_out or run.created_at
            continue
        last = seen.get(run.id, _UNSEEN)
        if last == _UNSEEN:
            seen[run.id] = last = 0
            items.append(AgentStreamItem(run=run, event=None, cursor=replace(cursor, seen=dict(seen))))
        events = await run_store.read_events(tx, run.id, last)
        for event in events:
            seen[run.id] = event.seq
            items.append(AgentStreamItem(run=run, event=event, cursor=replace(cursor, seen=dict(seen))))
        has_more = has_more or len(events) >= run_store.EVENTS_PER_READ
        if run.state.is_final and seen[run.id] >= run.last_seq:
            ended[run.id] = run.created_at
        else:
            open_ids.add(run.id)
    if is_cut and left_out is None:
        # All of these are followed or have ended, so the next read goes on behind them.
        has_more, left_out = True, runs[-1].created_at
    until = now - LAG if left_out is None else min(now - LAG, left_out - timedelta(microseconds=1))
    since = max(cursor.since, until)
    remembered = sorted(created for created in ended.values() if created > since)
    if len(remembered) > REMEMBERED_MAX:
        since = remembered[len(remembered) - REMEMBERED_MAX - 1]
    kept = {run_id: seq for run_id, seq in seen.items() if run_id not in ended or ended[run_id] > since}
    return _StreamBatch(
        items=items,
        cursor=StreamCursor(since=since, seen=kept),
        open_ids=frozenset(open_ids),
        has_more=has_more,
    )
