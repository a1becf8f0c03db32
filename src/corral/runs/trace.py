"""The trace of a run: written by the worker that holds it, read by any number of streams at any frontend.

Guarantees: each entry is stored once, in the order of its number; a delivery that is repeated changes nothing. Only the
worker and the attempt that hold the run can write. A reader that resumes behind a number misses and repeats nothing, at
whichever frontend. A trace is bounded: beyond its limit entries of text are dropped, and the trace says so; beyond
twice the limit the run fails. What a run's row repeats of the trace is bounded, too: more open calls or approvals than
a worker can have fail the run.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog

from corral.bus.messages import RunDelta
from corral.bus.subjects import RUN_DELTA
from corral.domain.errors import Unavailable
from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobId, OperationId
from corral.domain.run import (
    OpenToolCall,
    Run,
    RunEvent,
    RunEventType,
    RunId,
    RunState,
    RunUsage,
    is_run_end,
)
from corral.ports.bus import Bus, Delivery
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import assignments as assignment_store
from corral.store import run_deliveries as delivery_store
from corral.store import runs as store
from corral.store.database import Database, Transaction, as_uuid
from corral.store.run_deliveries import TraceDelivery
from corral.store.runs import StoredRun

log = structlog.get_logger(__name__)
# Limits of one trace. A turn has tens of entries; this is for a run out of control.
TRACE_EVENTS_MAX = 20_000
TRACE_BYTES_MAX = 32 * 1024 * 1024
# So many times these limits end a run: without it a worker that lies could fill the disk with calls of tools.
OVERFLOW_FACTOR = 2
# Calls of tools that are open, and those that wait for a person. A step of a model has at most 32 calls, and the next
# one begins when all of them have their results.
OPEN_CALLS_MAX = 64
# All approvals of an attempt.
APPROVALS_MAX = 1000
REASON_MAX = 1000
# A reader that is not woken looks after this long: a hint over the bus can be lost.
LOOK_INTERVAL_S = 2.0
# How soon a reader looks again for the end of a run whose trace has ended: its frontend ends it a moment later.
END_POLL_S = 0.2
# How many entries of a trace are kept in memory while it has readers.
RECENT_MAX = 200
# How many deliveries one transaction writes; more only hold locks longer.
DELIVERIES_PER_BATCH = 64
# Of how many runs the rows are remembered; more than a frontend's workers deliver for at a time.
KNOWN_MAX = 1024
_OVERFULL = {
    "state": "failed",
    "error_code": "trace_too_large",
    "error_text": "The trace of the run is too large: its tools write too much.",
}
_TOO_MANY_CALLS = {
    **_OVERFULL,
    "error_text": "The trace of the run is too large: too many tool calls are open, or wait for approval.",
}
_TEXT_TYPES = frozenset({RunEventType.CONTENT, RunEventType.REASONING})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """Answer to a worker that delivered entries of a run's trace: how far it is stored, and news for the worker."""

    last_seq: int
    must_stop: bool = False
    # Decisions about tool calls, by call id.
    decisions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class WatchedTrace:
    """Tracks who waits at this frontend for the trace of one run, and the entries that were stored or read last.

    Every reader takes its entries from here as long as they follow the one that it has read last, so that any number of
    readers costs one read, and none if the entries were delivered to this frontend.
    """

    def __init__(self) -> None:
        self.waiting: set[asyncio.Event] = set()
        # Readers of one trace read one after the other: the first for all.
        self.lock = asyncio.Lock()
        # Grows whenever the stored trace may have changed in a way that is not in the entries here.
        self.hint_count = 0
        self._recent: deque[RunEvent] = deque(maxlen=RECENT_MAX)

    def wake(self) -> None:
        for event in self.waiting:
            event.set()

    def remember(self, events: Sequence[RunEvent]) -> None:
        """Keep entries for readers. Entries behind a gap take the place of those before it."""
        last = self._recent[-1].seq if self._recent else None
        new = [event for event in events if last is None or event.seq > last]
        if new and last is not None and new[0].seq != last + 1:
            self._recent.clear()
        self._recent.extend(new)

    @property
    def last_seq(self) -> int:
        return self._recent[-1].seq if self._recent else 0

    def list_behind(self, after: int) -> list[RunEvent]:
        """Return the entries behind a number; empty if some of them, or all, are not here."""
        if not self._recent or not self._recent[0].seq <= after + 1 <= self._recent[-1].seq:
            return []
        return [event for event in self._recent if event.seq > after]


class RunTraceNotifier:
    """Wakes readers of a run's trace at this frontend, and tells other frontends that the trace has grown or ended."""

    def __init__(self, bus: Bus, frontend_id: str, wake_operation: Callable[[OperationId], bool]) -> None:
        self._bus = bus
        self._frontend_id = frontend_id
        # Returns whether this frontend drives the operation.
        self._wake_operation = wake_operation
        self._watched: dict[str, WatchedTrace] = {}

    async def announce(self, run_id: RunId, last_seq: int, state: RunState, events: Sequence[RunEvent] = ()) -> None:
        """Wake readers here and at other frontends. A failure costs them a moment, nothing else. `events` are entries
        that were just stored."""
        watched = self._watched.get(run_id)
        if watched is not None:
            watched.remember(events)
            watched.hint_count += not events
            watched.wake()
        is_ended = any(event.type is RunEventType.END for event in events)
        delta = RunDelta(
            run_id=run_id, last_seq=last_seq, state=str(state), is_ended=is_ended, origin=self._frontend_id
        )
        outcome = await attempt(lambda: self._bus.publish(RUN_DELTA, delta))
        if isinstance(outcome, AttemptFailure):
            log.debug("the readers of a trace at other frontends were not woken", problem=outcome.sentence)

    async def on_delta(self, delivery: Delivery[RunDelta]) -> None:
        message = delivery.message
        if message.origin == self._frontend_id:
            return
        self.wake(message.run_id)
        if message.is_ended:
            # The frontend that drives the run concludes it now, and not when it looks for due operations.
            self._wake_operation(OperationId(message.run_id))

    def wake(self, run_id: str) -> None:
        watched = self._watched.get(run_id)
        if watched is not None:
            watched.hint_count += 1
            watched.wake()

    def add(self, run_id: str, event: asyncio.Event) -> WatchedTrace:
        """Set the event from now on whenever the trace of a run may have grown."""
        watched = self._watched.setdefault(run_id, WatchedTrace())
        watched.waiting.add(event)
        return watched

    def remove(self, run_id: str, event: asyncio.Event) -> None:
        watched = self._watched.get(run_id)
        if watched is not None:
            watched.waiting.discard(event)
            if not watched.waiting:
                del self._watched[run_id]


@dataclass(slots=True, kw_only=True, eq=False)
class _PendingDelivery:
    """Holds what a worker has delivered until it is stored."""

    node_id: NodeId
    run_id: str
    job_id: str
    events: Sequence[RunEvent]
    # Set when the delivery is stored: the answer, and what has changed.
    result: DeliveryResult | None = None
    change: tuple[Run, TraceDelivery] | None = None


class RunTraceWriter:
    """Writes the entries of runs' traces that workers deliver into PostgreSQL, many in one transaction.

    What has arrived while a transaction was under way is the next one. A delivery that follows the last one which this
    frontend has stored is one statement: it is written if the row is as it was, else the row is read first.
    """

    def __init__(
        self, database: Database, readers: RunTraceNotifier, clock: Clock, wake_operation: Callable[[OperationId], bool]
    ) -> None:
        self._database = database
        self._clock = clock
        self._readers = readers
        # Returns whether this frontend drives the operation.
        self._wake_operation = wake_operation
        self._pending: list[_PendingDelivery] = []
        self._lock = asyncio.Lock()
        # What this frontend has read or written last of runs that go on. Only a guess: each write checks it.
        self._known: OrderedDict[str, StoredRun] = OrderedDict()

    def remember(self, stored: StoredRun) -> None:
        """Remember the row of a run, so that its next delivery need not read it."""
        run = stored.run
        self._known.pop(run.id, None)
        if run.approvals or stored.outcome is not None:
            return
        self._known[run.id] = replace(stored, run=replace(run, request={}, result=None))
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    async def deliver(self, node_id: NodeId, run_id: str, job_id: str, events: Sequence[RunEvent]) -> DeliveryResult:
        """Store new entries of a run's trace. Without entries it is a sign of life."""
        delivery = _PendingDelivery(node_id=node_id, run_id=run_id, job_id=job_id, events=events)
        self._pending.append(delivery)
        try:
            async with self._lock:
                if delivery in self._pending:
                    await self._write_batch(delivery)
        finally:
            if delivery in self._pending:
                self._pending.remove(delivery)
        if delivery.result is None:
            # Another transaction has locked the run, or the batch of which the delivery was a part has failed.
            await self._write_one(delivery)
        assert delivery.result is not None, "the delivery was just written"
        if delivery.change is not None:
            await self._announce(*delivery.change)
        elif any(event.type is RunEventType.END for event in events):
            # Stored before, and perhaps not announced.
            await self._wake(OperationId(run_id))
        return delivery.result

    async def fail(self, node_id: NodeId, run: Run, fault: Fault) -> None:
        """End the present attempt of a run in the place of its worker, which cannot begin it."""
        assert run.job_id is not None, "a worker holds the run"
        outcome = {"state": "failed", "error_code": fault.code, "error_text": fault.text}
        end = RunEvent(seq=run.last_seq + 1, at=self._clock.wall(), type=RunEventType.END, data=outcome)
        await self.deliver(node_id, run.id, run.job_id, [end])

    async def _write_batch(self, first: _PendingDelivery) -> None:
        """Write what waits, each run once. A batch that fails is left to its deliveries, of which one may be to blame;
        raises `Unavailable` if PostgreSQL is away."""
        batch = {delivery.run_id: delivery for delivery in reversed(self._pending)}
        batch[first.run_id] = first
        taken = list(batch.values())[-DELIVERIES_PER_BATCH:]
        for delivery in taken:
            self._pending.remove(delivery)
        for write in (self._write_known, self._write_free):
            left = [delivery for delivery in taken if delivery.result is None]
            outcome = await attempt(partial(write, left)) if left else None
            if isinstance(outcome, AttemptFailure):
                if isinstance(outcome.error, Unavailable):
                    raise outcome.error
                log.debug("deliveries are written one by one", problem=outcome.sentence)

    async def _write_known(self, taken: Sequence[_PendingDelivery]) -> None:
        """Write the deliveries that follow rows which this frontend knows, without reading these."""
        changes: dict[RunId, tuple[_PendingDelivery, StoredRun, TraceDelivery]] = {}
        for delivery in taken:
            stored = self._known.pop(delivery.run_id, None)
            if stored is None or not stored.run.is_held_by(delivery.node_id, delivery.job_id):
                continue
            new = list_new(delivery.events, stored.run.last_seq)
            if new:
                changes[stored.run.id] = (delivery, stored, apply_events(stored, new))
        if not changes:
            return
        async with self._database.single_statements() as tx:
            written = await delivery_store.write_known(tx, [change for _, _, change in changes.values()])
        for run_id in written:
            delivery, stored, change = changes[run_id]
            delivery.result = DeliveryResult(last_seq=change.events[-1].seq)
            delivery.change = (stored.run, change)
            self.remember(_apply_change(stored, change))

    async def _write_free(self, taken: Sequence[_PendingDelivery]) -> None:
        """Write the deliveries whose runs no other transaction has locked."""
        async with self._database.transaction() as tx:
            stored = await store.lock_free_runs(tx, [delivery.run_id for delivery in taken])
            free = [delivery for delivery in taken if delivery.run_id in stored]
            done = await _write(tx, [(delivery, stored[RunId(delivery.run_id)]) for delivery in free])
        for delivery, result, change in done:
            delivery.result, delivery.change = result, change
            if change is not None:
                self.remember(_apply_change(stored[RunId(delivery.run_id)], change[1]))

    async def _write_one(self, delivery: _PendingDelivery) -> None:
        async with self._database.transaction() as tx:
            stored = await store.lock_run(tx, delivery.run_id)
            done = await _write(tx, [(delivery, stored)])
        for _, result, change in done:
            delivery.result, delivery.change = result, change

    async def _wake(self, operation_id: OperationId) -> None:
        if not self._wake_operation(operation_id) and as_uuid(operation_id) is not None:
            # In a transaction of its own: the operation is locked before its run everywhere else.
            async with self._database.transaction() as tx:
                await assignment_store.wake_operations(tx, [operation_id])

    async def _announce(self, run: Run, delivery: TraceDelivery) -> None:
        if delivery.outcome is not None:
            await self._wake(OperationId(run.id))
        await self._readers.announce(run.id, delivery.events[-1].seq, delivery.state, delivery.events)


async def _write(
    tx: Transaction, deliveries: Sequence[tuple[_PendingDelivery, StoredRun | None]]
) -> list[tuple[_PendingDelivery, DeliveryResult, tuple[Run, TraceDelivery] | None]]:
    """Write deliveries whose runs are locked. Return the answer to each, and what it has changed."""
    done: list[tuple[_PendingDelivery, DeliveryResult, tuple[Run, TraceDelivery] | None]] = []
    changes: list[TraceDelivery] = []
    jobs: list[JobId] = []
    for delivery, stored in deliveries:
        if stored is None or not stored.run.is_held_by(delivery.node_id, delivery.job_id):
            last_seq = stored.run.last_seq if stored else 0
            done.append((delivery, DeliveryResult(last_seq=last_seq, must_stop=True), None))
            continue
        run = stored.run
        jobs.append(JobId(delivery.job_id))
        new = list_new(delivery.events, run.last_seq) if stored.outcome is None else []
        change = apply_events(stored, new) if new else None
        if change is not None:
            changes.append(change)
        last_seq = run.last_seq if change is None else change.events[-1].seq
        result = DeliveryResult(last_seq=last_seq, decisions=_list_decisions(run.approvals))
        done.append((delivery, result, None if change is None else (run, change)))
    await delivery_store.write_deliveries(tx, changes, jobs)
    return done


def _apply_change(stored: StoredRun, change: TraceDelivery) -> StoredRun:
    """Return the row of a run behind a delivery."""
    run = replace(
        stored.run,
        last_seq=change.events[-1].seq,
        state=change.state,
        open_calls=tuple(change.open_calls),
        usage=change.usage,
        approvals=change.approvals,
    )
    size_bytes = stored.event_bytes + change.size_bytes
    return replace(stored, run=run, outcome=change.outcome, silent_since=None, event_bytes=size_bytes)


def list_new(events: Sequence[RunEvent], last_seq: int) -> list[RunEvent]:
    """Return the entries that follow the stored ones without a gap; the worker sends what comes after a gap again."""
    new: list[RunEvent] = []
    for event in sorted(events, key=lambda entry: entry.seq):
        if event.seq == last_seq + len(new) + 1:
            new.append(event)
    return new


def apply_events(stored: StoredRun, events: Sequence[RunEvent]) -> TraceDelivery:
    """Return what new entries change in a run: its state, its open tool call, its usage, its outcome."""
    run, size_bytes = stored.run, 0
    state = RunState.RUNNING if run.state is RunState.LEASED else run.state
    open_calls = {call.call_id: call for call in run.open_calls}
    usage, approvals = run.usage, dict(run.approvals)
    outcome: Mapping[str, Any] | None = None
    kept: list[RunEvent] = []
    for sent in events:
        event = _replace_excess(sent, stored.event_bytes + size_bytes, open_calls, approvals)
        is_full = stored.event_bytes + size_bytes > TRACE_BYTES_MAX or event.seq > TRACE_EVENTS_MAX
        entry = replace(event, data={"dropped": True}) if is_full and event.type in _TEXT_TYPES else event
        kept.append(entry)
        size_bytes += len(json.dumps(entry.data))
        match event.type:
            case RunEventType.TOOL_CALL:
                call = _read_open_call(event)
                open_calls[call.call_id] = call
                usage = replace(usage, tool_calls=usage.tool_calls + 1)
            case RunEventType.TOOL_RESULT:
                open_calls.pop(_read_call_id(event), None)
            case RunEventType.STEP:
                usage = replace(usage, steps=usage.steps + 1)
            case RunEventType.USAGE:
                usage = _add_usage(usage, event.data)
            case RunEventType.APPROVAL_REQUESTED:
                state = RunState.WAITING_APPROVAL
                approvals[_read_call_id(event)] = _make_request(event)
            case RunEventType.APPROVAL_RESOLVED if (call_id := _read_call_id(event)) in approvals:
                approvals[call_id] = _make_resolved(event, approvals[call_id])
                waits = any("approved" not in entry for entry in approvals.values())
                state = RunState.WAITING_APPROVAL if waits else RunState.RUNNING
            case RunEventType.END:
                outcome = dict(event.data)
                break
            case _:
                pass
    assert run.job_id is not None, "only the worker that holds a run delivers its trace"
    return TraceDelivery(
        run_id=run.id,
        job_id=run.job_id,
        events=kept,
        size_bytes=size_bytes,
        state=state,
        open_calls=tuple(open_calls.values()),
        usage=usage,
        approvals=approvals,
        outcome=outcome,
    )


def _is_overfull(size_bytes: int, seq: int) -> bool:
    return size_bytes > OVERFLOW_FACTOR * TRACE_BYTES_MAX or seq > OVERFLOW_FACTOR * TRACE_EVENTS_MAX


def _replace_excess(
    event: RunEvent, size_bytes: int, open_calls: Collection[str], approvals: Mapping[str, Any]
) -> RunEvent:
    """Return an entry, or the end of the run in the place of one that is more than a run may have."""
    excess = None
    match event.type:
        case RunEventType.END:
            return event
        case RunEventType.TOOL_CALL if len(open_calls) >= OPEN_CALLS_MAX:
            excess = _TOO_MANY_CALLS
        case RunEventType.APPROVAL_REQUESTED:
            waiting = sum("arguments" in entry for entry in approvals.values())
            if waiting >= OPEN_CALLS_MAX or len(approvals) >= APPROVALS_MAX:
                excess = _TOO_MANY_CALLS
        case _:
            pass
    if _is_overfull(size_bytes, event.seq):
        excess = _OVERFULL
    return event if excess is None else replace(event, type=RunEventType.END, tool="", data=excess)


def _read_call_id(event: RunEvent) -> str:
    return str(event.data.get("call_id", ""))[:200]


def _read_open_call(event: RunEvent) -> OpenToolCall:
    return OpenToolCall(
        call_id=_read_call_id(event),
        tool=event.tool or str(event.data.get("name", ""))[:200],
        is_repeatable=event.data.get("is_repeatable") is True,
    )


def _add_usage(usage: RunUsage, data: Mapping[str, Any]) -> RunUsage:
    def read(name: str) -> int:
        value = data.get(name)
        return value if isinstance(value, int) and 0 <= value < 2**40 else 0

    return replace(
        usage,
        prompt_tokens=usage.prompt_tokens + read("prompt_tokens"),
        completion_tokens=usage.completion_tokens + read("completion_tokens"),
    )


def _make_request(event: RunEvent) -> dict[str, Any]:
    return {"tool": event.tool, "arguments": event.data.get("arguments"), "requested_at": event.at.isoformat()}


def _make_resolved(event: RunEvent, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a call that no longer waits: also one that its worker refused without a decision. Its
    arguments are in the trace."""
    reason = str(event.data.get("reason") or "")[:REASON_MAX]
    resolved = {"approved": event.data.get("approved") is True, "reason": reason, **request}
    resolved.pop("arguments", None)
    return resolved


def _list_decisions(approvals: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        call_id: {"approved": entry["approved"], "reason": entry.get("reason", "")}
        for call_id, entry in approvals.items()
        if isinstance(entry, Mapping) and isinstance(entry.get("approved"), bool)
    }


class RunTraceReader:
    """Streams a run's trace (text, tool calls) from a frontend to one reader until the run has ended."""

    def __init__(self, database: Database, readers: RunTraceNotifier, clock: Clock) -> None:
        self._database = database
        self._readers = readers
        self._clock = clock

    async def follow(
        self, run_id: str, after: int = 0, *, until_ended: bool = False
    ) -> AsyncIterator[Sequence[RunEvent]]:
        """Yield entries behind `after` as they are stored, in batches; an empty batch says that nothing has happened
        for a moment. Ends behind the last entry; with `until_ended` once the run has ended too, a moment later."""
        grown = asyncio.Event()
        watched = self._readers.add(run_id, grown)
        hint_count, must_read, interval_s = watched.hint_count, True, LOOK_INTERVAL_S
        try:
            while True:
                grown.clear()
                must_read = must_read or watched.hint_count != hint_count
                hint_count = watched.hint_count
                events, is_over = await self._find(watched, run_id, after, must_read=must_read)
                must_read = False
                if events:
                    after = events[-1].seq
                    yield events
                if is_over and not (until_ended and events):
                    return
                if is_over or len(events) >= store.EVENTS_PER_READ:
                    interval_s, must_read = END_POLL_S if is_over else interval_s, True
                    continue
                try:
                    async with asyncio.timeout(interval_s):
                        await grown.wait()
                except TimeoutError:
                    must_read = True
                    yield ()
        finally:
            self._readers.remove(run_id, grown)

    async def _find(
        self, watched: WatchedTrace, run_id: str, after: int, *, must_read: bool
    ) -> tuple[Sequence[RunEvent], bool]:
        """Return the entries behind a number, and whether the run is over with them."""
        async with watched.lock:
            events = watched.list_behind(after)
            if events:
                return events, is_run_end(events[-1].type, events[-1].data)
            if not must_read and watched.last_seq <= after:
                return [], False
            read, is_over = await self._read(run_id, after)
            watched.remember(read)
            return read, is_over

    async def _read(self, run_id: str, after: int) -> tuple[list[RunEvent], bool]:
        async with self._database.single_statements() as tx:
            progress = await store.find_progress(tx, run_id)
            events = await store.read_events(tx, run_id, after)
        if progress is None:
            return events, True
        state, last_seq = progress
        is_last = bool(events) and is_run_end(events[-1].type, events[-1].data)
        read_all = (events[-1].seq if events else after) >= last_seq
        return events, is_last or (state.is_final and read_all)
