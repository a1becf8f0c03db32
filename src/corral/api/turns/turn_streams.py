"""Writes the chunks of a run's answer as a stream of events, in OpenAI's chat form or in another dialect.

A quiet stream carries comments that name the state of the run, so that proxies keep the connection and people see that
their call waits for a place. Clients ignore comments.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Protocol

from corral.api.dialects.chat_completion import EventStreamTranslation, render_comment
from corral.api.dialects.request_values import Json
from corral.api.turns.turn_calls import TurnAnswer
from corral.api.turns.turn_recorder import TurnRecorder
from corral.api.turns.turn_renderer import RUN, TOOL_RESULT
from corral.domain.errors import CorralError
from corral.gateway.errors import render_error_event
from corral.ports.requests import HeadLines

_DONE = b"data: [DONE]\n\n"
# Proxies must not collect the events of a stream.
STREAM_HEADERS: HeadLines = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
RUN_HEADER = b"x-corral-run"


class AnswerWriter(Protocol):
    """Interface that writes the stream in which a run answers one chat request."""

    def write(self, chunk: Json) -> bytes: ...

    def write_quiet(self, state: str) -> bytes:
        """Write a sign of life that clients ignore, while nothing has come for a moment."""
        ...

    def write_end(self, answer: TurnAnswer) -> bytes: ...

    def write_error(self, error: CorralError) -> bytes: ...


class ChatWriter:
    """Writes a run's answer as events of a chat completion. A tool's result is an extra field of an event."""

    def __init__(self, *, includes_usage: bool) -> None:
        self._includes_usage = includes_usage

    def write(self, chunk: Json) -> bytes:
        return b"data: " + json.dumps(chunk, ensure_ascii=False).encode(errors="replace") + b"\n\n"

    def write_quiet(self, state: str) -> bytes:
        return render_comment(state)

    def write_end(self, answer: TurnAnswer) -> bytes:
        return (self.write(answer.renderer.render_usage()) if self._includes_usage else b"") + _DONE

    def write_error(self, error: CorralError) -> bytes:
        return render_error_event(error)


class DialectWriter:
    """Writes a run's answer as events of another API, such as Anthropic's.

    Results of tools and the end of the run are events of their own, which clients that do not know them skip.
    """

    def __init__(self, stream: EventStreamTranslation) -> None:
        self._stream = stream

    def write(self, chunk: Json) -> bytes:
        written = self._stream.translate_event(chunk)
        for name in (TOOL_RESULT, RUN):
            if name in chunk:
                written += self._stream.render_extra(name, chunk[name])
        return written

    def write_quiet(self, state: str) -> bytes:
        return self._stream.render_quiet(state)

    def write_end(self, answer: TurnAnswer) -> bytes:
        return self._stream.translate_event(answer.renderer.render_usage()) + self._stream.render_end()

    def write_error(self, error: CorralError) -> bytes:
        return self._stream.render_error(error)


async def write_stream(answer: TurnAnswer, writer: AnswerWriter, recorder: TurnRecorder) -> AsyncIterator[bytes]:
    """Yield the stream of an answer. An error before the first piece is raised, so that it gets its status; a later one
    is the last event."""
    has_begun, recorder.is_stream = False, True
    try:
        async for chunks in answer.iter_chunks():
            piece = b"".join(map(writer.write, chunks)) or writer.write_quiet(answer.state)
            has_begun = True
            recorder.note_piece(piece)
            yield piece
        last = writer.write_end(answer)
    except CorralError as error:
        if not has_begun:
            raise
        recorder.error, last = error, writer.write_error(error)
    recorder.note_piece(last)
    yield last
