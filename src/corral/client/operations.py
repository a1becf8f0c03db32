"""Calls about operations, and following one to its end.

`follow` gives the operation as it is now and again whenever it has moved, and ends when there is nothing left to wait
for. It lives on the event stream; while that is broken, or where something between here and there does not let it
through, it reads the operation again and again instead. What it gives never goes back: an older state is dropped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from urllib.parse import quote

from pydantic import ValidationError

from corral.client.events import EventStream, Interrupted, StreamItem
from corral.client.http import Call, Transport
from corral.domain.errors import CorralError, NotAllowed, NotAuthenticated, Unavailable
from corral.domain.operation import ACTIVE
from corral.wire.events import EventOut
from corral.wire.operations import (
    ActionOut,
    ClearedOut,
    HistoryOut,
    IntentOut,
    NoteOut,
    OperationInFull,
    OperationOut,
    OperationsOut,
    ProgressOut,
    RetryOut,
    TargetInFull,
    TargetOut,
)

STREAM_PATH = "/api/operations/events"
PROGRESS = "operation.progress"
# How often an operation is read where there is no stream.
READ_EVERY_S = 1.0
# By another name: in a class with a method `list`, that word means the method.
Notes = list[NoteOut]


def operation_path(operation_id: str, *rest: str) -> str:
    return "/".join(["/api/operations", *(quote(part, safe="") for part in (operation_id, *rest))])


def is_over(operation: OperationOut) -> bool:
    """Whether a follower has nothing left to wait for. What absent nodes owe may take days."""
    return operation.state not in ACTIVE


class OperationCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> list[OperationOut]:
        """What is under way, owed, paused, or has failed and was not dismissed."""
        answer = await self._transport.fetch(Call(method="GET", path="/api/operations"), OperationsOut)
        return answer.operations

    async def get(self, operation_id: str) -> OperationInFull:
        return await self._transport.fetch(Call(method="GET", path=operation_path(operation_id)), OperationInFull)

    async def notes(self, operation_id: str) -> Notes:
        """The log of one operation, oldest first."""
        return await self._transport.fetch(Call(method="GET", path=operation_path(operation_id, "events")), Notes)

    async def cancel(self, operation_id: str) -> ActionOut:
        return await self._act(operation_id, "cancel")

    async def pause(self, operation_id: str) -> ActionOut:
        return await self._act(operation_id, "pause")

    async def resume(self, operation_id: str) -> ActionOut:
        return await self._act(operation_id, "resume")

    async def dismiss(self, operation_id: str) -> ActionOut:
        return await self._act(operation_id, "dismiss")

    async def undismiss(self, operation_id: str) -> ActionOut:
        return await self._act(operation_id, "undismiss")

    async def retry(self, operation_id: str) -> RetryOut:
        """Ask for the same again; the answer has the new operation."""
        call = Call(method="POST", path=operation_path(operation_id, "retry"), creates=True)
        return await self._transport.fetch(call, RetryOut)

    async def history(
        self, *, limit: int = 50, before: str | None = None, filters: Mapping[str, str] | None = None
    ) -> HistoryOut:
        """Read one page of what has ended. `filters` are the route's: node, outcome, kind, search, since, until."""
        parameters = {"limit": str(limit), **({"before": before} if before else {}), **(filters or {})}
        return await self._transport.fetch(
            Call(method="GET", path="/api/operations/history", parameters=parameters), HistoryOut
        )

    async def clear_history(self) -> int:
        """How many records are gone."""
        call = Call(method="DELETE", path="/api/operations/history")
        return (await self._transport.fetch(call, ClearedOut)).removed

    async def _act(self, operation_id: str, verb: str) -> ActionOut:
        return await self._transport.fetch(Call(method="POST", path=operation_path(operation_id, verb)), ActionOut)

    def watch(self, last_event_id: str | None = None) -> AsyncGenerator[StreamItem, None]:
        """What happens to all operations; `operation.progress` carries a `ProgressOut` and has no place of its own."""
        return EventStream(transport=self._transport, position=last_event_id, path=STREAM_PATH).items()

    async def follow(self, operation_id: str) -> AsyncGenerator[OperationInFull, None]:
        """The operation now and after each step, until there is nothing left to wait for."""
        known = await self.get(operation_id)
        yield known
        if is_over(known):
            return
        try:
            async with aclosing(self.watch()) as items:
                async for item in items:
                    newer = await self._after(known, item)
                    if newer is None or newer.rev < known.rev or newer == known:
                        continue
                    known = newer
                    yield known
                    if is_over(known):
                        return
        except (NotAuthenticated, NotAllowed):
            raise
        except CorralError:
            # No stream gets through. The operation itself can still be read, or the reading says why not.
            async with aclosing(self._poll(known)) as readings:
                async for reading in readings:
                    yield reading

    async def _after(self, known: OperationInFull, item: StreamItem) -> OperationInFull | None:
        """What an item of the stream means for one operation; None: nothing."""
        if isinstance(item, EventOut):
            if item.key != known.id:
                return None
            if item.kind == PROGRESS:
                return _moved(known, item)
        try:
            return await self.get(known.id)
        except Unavailable:
            if isinstance(item, Interrupted):
                return None
            raise

    async def _poll(self, known: OperationInFull) -> AsyncGenerator[OperationInFull, None]:
        while not is_over(known):
            await self._transport.clock.sleep(READ_EVERY_S)
            newer = await self.get(known.id)
            if newer != known and newer.rev >= known.rev:
                known = newer
                yield known


class IntentCalls:
    """What nodes still owe."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> list[IntentOut]:
        return await self._transport.fetch(Call(method="GET", path="/api/backend-intents"), list[IntentOut])

    async def drop(self, node: str, backend: str) -> None:
        await self._transport.send(Call(method="DELETE", path=self._path(node, backend)))

    async def revive(self, node: str, backend: str) -> RetryOut:
        call = Call(method="POST", path=f"{self._path(node, backend)}/revive", creates=True)
        return await self._transport.fetch(call, RetryOut)

    def _path(self, node: str, backend: str) -> str:
        return f"/api/backend-intents/{quote(node, safe='')}/{quote(backend, safe='')}"


def _moved(known: OperationInFull, event: EventOut) -> OperationInFull | None:
    """The operation with a step of progress taken in. A step that cannot be read, or is older, is none."""
    try:
        step = ProgressOut.model_validate(event.data)
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
            "nodes": [_with(target, moved.get(target.node_id)) for target in known.nodes],
        }
    )


def _with(target: TargetInFull, step: TargetOut | None) -> TargetInFull:
    return target if step is None else target.model_copy(update=step.model_dump(exclude_unset=True))
