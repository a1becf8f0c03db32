"""Calls about operations, and following one to its end.

`follow` yields the operation as it is now and after each change, and ends when there is nothing left to wait for. It
reads the event stream; while that is broken or blocked, for instance by a proxy, it polls the operation instead. What
it yields never goes back: an older state is dropped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from urllib.parse import quote

from pydantic import ValidationError

from corral.client.events import EventStream, StreamInterruptedNotice, StreamItem
from corral.client.transport import ApiRequest, ApiTransport
from corral.domain.errors import CorralError, NotAllowed, NotAuthenticated, Unavailable
from corral.domain.operation import ACTIVE
from corral.wire.live import EventOut
from corral.wire.operations import (
    AssignmentOut,
    ClearedHistoryOut,
    OperationActionOut,
    OperationDetailOut,
    OperationHistoryOut,
    OperationNoteOut,
    OperationOut,
    OperationProgressOut,
    OperationRetryOut,
    OperationsOut,
    TargetDetailOut,
    TargetOut,
)

STREAM_PATH = "/api/operations/events"
PROGRESS_KIND = "operation.progress"
# Interval at which an operation is polled when there is no stream.
READ_EVERY_S = 1.0
# An alias, because inside a class with a method `list` that name means the method.
Notes = list[OperationNoteOut]


def make_operation_path(operation_id: str, *rest: str) -> str:
    return "/".join(["/api/operations", *(quote(part, safe="") for part in (operation_id, *rest))])


def is_inactive(operation: OperationOut) -> bool:
    """Return whether there is nothing left to wait for. Changes that are pending for absent nodes may take days and are
    not waited for."""
    return operation.state not in ACTIVE


class OperationCalls:
    """Client-side calls of the HTTP API about operations; follows one until it is no longer active."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self) -> list[OperationOut]:
        """List operations that are running, pending, paused, or failed and not dismissed."""
        answer = await self._transport.fetch(ApiRequest(method="GET", path="/api/operations"), OperationsOut)
        return answer.operations

    async def get(self, operation_id: str) -> OperationDetailOut:
        return await self._transport.fetch(
            ApiRequest(method="GET", path=make_operation_path(operation_id)), OperationDetailOut
        )

    async def list_notes(self, operation_id: str) -> Notes:
        """Return the log of one operation, oldest entry first."""
        return await self._transport.fetch(
            ApiRequest(method="GET", path=make_operation_path(operation_id, "events")), Notes
        )

    async def cancel(self, operation_id: str) -> OperationActionOut:
        return await self._act(operation_id, "cancel")

    async def pause(self, operation_id: str) -> OperationActionOut:
        return await self._act(operation_id, "pause")

    async def resume(self, operation_id: str) -> OperationActionOut:
        return await self._act(operation_id, "resume")

    async def dismiss(self, operation_id: str) -> OperationActionOut:
        return await self._act(operation_id, "dismiss")

    async def undismiss(self, operation_id: str) -> OperationActionOut:
        return await self._act(operation_id, "undismiss")

    async def retry(self, operation_id: str) -> OperationRetryOut:
        """Start the same operation again. The response names the new operation."""
        call = ApiRequest(method="POST", path=make_operation_path(operation_id, "retry"), creates=True)
        return await self._transport.fetch(call, OperationRetryOut)

    async def list_history(
        self, *, limit: int = 50, cursor: str | None = None, filters: Mapping[str, str] | None = None
    ) -> OperationHistoryOut:
        """Return one page of the operations that have ended. `filters` are the route's: node, outcome, kind, search,
        since, until."""
        parameters = {"limit": str(limit), **({"before": cursor} if cursor else {}), **(filters or {})}
        return await self._transport.fetch(
            ApiRequest(method="GET", path="/api/operations/history", parameters=parameters), OperationHistoryOut
        )

    async def clear_history(self) -> int:
        """Delete the history and return the number of deleted records."""
        call = ApiRequest(method="DELETE", path="/api/operations/history")
        return (await self._transport.fetch(call, ClearedHistoryOut)).removed

    async def _act(self, operation_id: str, verb: str) -> OperationActionOut:
        return await self._transport.fetch(
            ApiRequest(method="POST", path=make_operation_path(operation_id, verb)), OperationActionOut
        )

    def watch_all(self, last_event_id: str | None = None) -> AsyncGenerator[StreamItem, None]:
        """Yield the events of all operations. `operation.progress` carries a `ProgressOut` and has no position to
        resume at."""
        return EventStream(transport=self._transport, position=last_event_id, path=STREAM_PATH).iter_items()

    async def follow(self, operation_id: str) -> AsyncGenerator[OperationDetailOut, None]:
        """Yield the operation now and after each step, until there is nothing left to wait for."""
        known = await self.get(operation_id)
        yield known
        if is_inactive(known):
            return
        try:
            async with aclosing(self.watch_all()) as items:
                async for item in items:
                    newer = await self._apply_item(known, item)
                    if newer is None or newer.rev < known.rev or newer == known:
                        continue
                    known = newer
                    yield known
                    if is_inactive(known):
                        return
        except (NotAuthenticated, NotAllowed):
            raise
        except CorralError:
            # No stream can be opened. Poll the operation, which either works or raises the reason.
            async with aclosing(self._poll(known)) as readings:
                async for reading in readings:
                    yield reading

    async def _apply_item(self, known: OperationDetailOut, item: StreamItem) -> OperationDetailOut | None:
        """Return the operation after an item of the stream, or None if the item does not concern it."""
        if isinstance(item, EventOut):
            if item.key != known.id:
                return None
            if item.kind == PROGRESS_KIND:
                return _apply_progress(known, item)
        try:
            return await self.get(known.id)
        except Unavailable:
            if isinstance(item, StreamInterruptedNotice):
                return None
            raise

    async def _poll(self, known: OperationDetailOut) -> AsyncGenerator[OperationDetailOut, None]:
        while not is_inactive(known):
            await self._transport.clock.sleep(READ_EVERY_S)
            newer = await self.get(known.id)
            if newer != known and newer.rev >= known.rev:
                known = newer
                yield known


class AssignmentCalls:
    """Client-side calls of the HTTP API about pending changes: engine backend changes that nodes have not made yet."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self) -> list[AssignmentOut]:
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/backend-intents"), list[AssignmentOut])

    async def discard(self, node: str, backend: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=self._make_path(node, backend)))

    async def retry(self, node: str, backend: str) -> OperationRetryOut:
        call = ApiRequest(method="POST", path=f"{self._make_path(node, backend)}/revive", creates=True)
        return await self._transport.fetch(call, OperationRetryOut)

    def _make_path(self, node: str, backend: str) -> str:
        return f"/api/backend-intents/{quote(node, safe='')}/{quote(backend, safe='')}"


def _apply_progress(known: OperationDetailOut, event: EventOut) -> OperationDetailOut | None:
    """Return the operation with one progress event applied, or None if the event is older or cannot be parsed."""
    try:
        step = OperationProgressOut.model_validate(event.data)
    except ValidationError:
        return None
    if step.rev < known.rev:
        return None
    moved = {target.node_id: target for target in step.nodes}
    return known.model_copy(
        update={
            "rev": step.rev,
            "state": step.state,
            "progress": max(step.progress, known.progress),
            "phase": step.phase,
            "current_bytes": step.current_bytes,
            "total_bytes": step.total_bytes,
            "message": step.message or known.message,
            "nodes": [_update_target(target, moved.get(target.node_id)) for target in known.nodes],
        }
    )


def _update_target(target: TargetDetailOut, step: TargetOut | None) -> TargetDetailOut:
    return target if step is None else target.model_copy(update=step.model_dump(exclude_unset=True))
