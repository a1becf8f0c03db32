"""A call and its answer, passed on byte for byte.

An answer that is a stream is passed on as it comes, in whole events: if its engine dies, what the client has got so far
is readable, and one more event tells what happened. Any other answer is gathered first, so that a call whose engine
dies in the middle is made again elsewhere and nobody notices; one that grows too large is passed on as it comes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from corral.domain.errors import CorralError
from corral.ports.engines import EngineAnswer, EngineCall, EngineLost, EngineRefused, Engines
from corral.serving.router import Router, Visit
from corral.serving.use import Held
from corral.store.use import Served

STREAM = "text/event-stream"
SHORTEST_WAIT_S = 0.05
# An answer up to this size is gathered before it is passed on.
GATHERED_BYTES_MAX = 8 * 1024 * 1024
# A single event that is larger is passed on in pieces.
EVENT_BYTES_MAX = 1024 * 1024
# The engine at that address is not the one that our key is for.
_NOT_OURS = 401
# It takes no calls now.
_NOT_NOW = 503


class Sink(Protocol):
    """Where an answer goes."""

    async def begin(self, status: int, content_type: str, held: Held, size_bytes: int | None) -> None: ...

    async def piece(self, body: bytes, *, is_last: bool = False) -> None: ...


class AnswerCut(Exception):
    """An answer broke off that cannot be mended or explained to the client any more: its connection has to end."""


class _TryAnother(Exception):
    """This replica answered, and another one may answer better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A call to be answered. `wait_s`: the caller wants to wait for its model no longer than this."""

    model: Served
    path: str
    body: bytes = field(repr=False)
    wait_s: float | None = None


class Relay:
    """`wait_s` is how long a request may wait for its model; 0: as long as the load takes."""

    def __init__(self, router: Router, engines: Engines, wait_s: float) -> None:
        self.router = router
        self._engines = engines
        self._wait_s = wait_s

    async def pass_on(self, wish: Wish, sink: Sink) -> None:
        """Have the call answered. `CorralError`: nothing has been passed on yet, and this is what to say instead."""
        visit = self.router.visit(wish.model, self._allowed_s(wish))
        while True:
            held = await visit.replica()
            with held:
                replica = held.replica
                call = EngineCall(address=replica.address, path=wish.path, body=wish.body, key=replica.engine_key)
                try:
                    async with self._engines.call(call) as answer:
                        await self._answer(visit, held, answer, sink)
                except EngineRefused as error:
                    await visit.refused(held, error)
                except (EngineLost, _TryAnother) as error:
                    visit.lost(held, _as_lost(error, held))
                else:
                    return

    def _allowed_s(self, wish: Wish) -> float:
        """Less than what is set, never more. 0 means no limit, so the shortest wait that can be asked for is short."""
        asked_s = self._wait_s if wish.wait_s is None else max(SHORTEST_WAIT_S, wish.wait_s)
        return min(asked_s, self._wait_s or asked_s)

    async def _answer(self, visit: Visit, held: Held, answer: EngineAnswer, sink: Sink) -> None:
        if answer.status == _NOT_OURS:
            # As good as nobody: the port belongs to another process by now.
            raise EngineRefused(f"The engine at {held.replica.address} does not know our key.", code="engine_mismatch")
        if answer.status == _NOT_NOW and visit.has_others(held.replica.id):
            raise _TryAnother
        if answer.content_type.startswith(STREAM) and answer.status < 300:
            await _stream(answer, held, sink)
        else:
            await _whole(answer, held, sink)


async def _whole(answer: EngineAnswer, held: Held, sink: Sink) -> None:
    pieces, size_bytes = [], 0
    source = answer.pieces()
    async for piece in source:
        pieces.append(piece)
        size_bytes += len(piece)
        if size_bytes > GATHERED_BYTES_MAX:
            await sink.begin(answer.status, answer.content_type, held, None)
            await sink.piece(b"".join(pieces))
            return await _rest(source, sink)
    await sink.begin(answer.status, answer.content_type, held, size_bytes)
    return await sink.piece(b"".join(pieces), is_last=True)


async def _rest(source: AsyncIterator[bytes], sink: Sink) -> None:
    try:
        async for piece in source:
            await sink.piece(piece)
    except EngineLost as error:
        raise AnswerCut from error
    await sink.piece(b"", is_last=True)


async def _stream(answer: EngineAnswer, held: Held, sink: Sink) -> None:
    """Until the first event is there nothing has been passed on, and another replica can still answer instead."""
    held_back, has_begun = b"", False
    try:
        async for piece in answer.pieces():
            ready, held_back = _whole_events(held_back + piece)
            if ready and not has_begun:
                has_begun = True
                await sink.begin(answer.status, answer.content_type, held, None)
            if ready:
                await sink.piece(ready)
    except EngineLost as error:
        if not has_begun:
            raise
        await sink.piece(_error_event(error), is_last=True)
        return
    if not has_begun:
        await sink.begin(answer.status, answer.content_type, held, None)
    await sink.piece(held_back, is_last=True)


def _whole_events(got: bytes) -> tuple[bytes, bytes]:
    """What can be passed on, and the beginning of an event that is not complete."""
    end = max(got.rfind(b"\n\n") + 2 if b"\n\n" in got else 0, got.rfind(b"\r\n\r\n") + 4 if b"\r\n\r\n" in got else 0)
    if len(got) - end > EVENT_BYTES_MAX:
        end = len(got)
    return got[:end], got[end:]


def _error_event(error: CorralError) -> bytes:
    said = {
        "message": f"The engine went away in the middle of the answer: {error.message} Ask again.",
        "type": "server_error",
        "code": "engine_lost",
        "param": None,
    }
    return b"data: " + json.dumps({"error": said}).encode() + b"\n\n"


def _as_lost(error: Exception, held: Held) -> CorralError:
    if isinstance(error, CorralError):
        return error
    return EngineLost(f"The engine at {held.replica.address} takes no calls now.", code="engine_busy")
