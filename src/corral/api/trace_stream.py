"""Streams the trace of a run as server-sent events: `/api/runs/{id}/events` and the progress of jobs.

Guarantees: the id of an event is the number of its entry, so that a stream resumes behind `Last-Event-ID` at any
frontend. A stream ends when its caller may not read the run any more: the key was revoked, the session has ended, or
the rights of an admin are gone. That is noticed with the next entry, and within 2 s without one.
"""

from __future__ import annotations

from fastapi import Request

from corral.api.deps import ApiDeps, authenticate_caller, find_visible_owner
from corral.api.stream import FrameStream
from corral.domain.run import RunEvent
from corral.wire.runs import RunEventOut

# Every number of so many digits fits into the column of the numbers.
SEQ_DIGITS_MAX = 18


class TraceStream:
    """Streams one run's trace (text, tool calls) to one caller.

    `owner` is the one whose runs the caller sees; None: those of all users.
    """

    def __init__(self, request: Request, deps: ApiDeps, owner: str | None) -> None:
        self._request = request
        self._deps = deps
        self._owner = owner

    async def iter_frames(self, run_id: str, after: int, *, still: bytes, until_ended: bool = False) -> FrameStream:
        """Yield the entries behind a number, and `still` when nothing has happened for a moment. Raises `CorralError`
        when the caller may not read the run any more."""
        async for events in self._deps.runs.reader.follow(run_id, after, until_ended=until_ended):
            caller = await authenticate_caller(self._request, self._deps)
            await find_visible_owner(caller, all_users=self._owner is None)
            yield b"".join(map(_render_entry, events)) if events else still


def parse_last_entry(last_event_id: str | None, default: int = 0) -> int:
    """Return the number of the entry behind which a stream goes on."""
    text = last_event_id or ""
    is_number = text.isascii() and text.isdecimal() and len(text) <= SEQ_DIGITS_MAX
    return int(text) if is_number else default


def event_to_wire(event: RunEvent) -> RunEventOut:
    return RunEventOut(seq=event.seq, at=event.at, type=event.type, tool=event.tool, data=dict(event.data))


def _render_entry(event: RunEvent) -> bytes:
    return f"id: {event.seq}\n".encode() + render_frame(event.type, event_to_wire(event).model_dump_json())


def render_frame(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()
