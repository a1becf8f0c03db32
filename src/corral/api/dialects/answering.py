"""Answers on their way: passed on as the engine gives them, or said again in the caller's words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from corral.api.dialects.calls import Call
from corral.api.dialects.chats import Events, Translation
from corral.api.dialects.envelopes import Headers
from corral.api.dialects.reading import Json
from corral.api.openai.errors import STREAM
from corral.api.openai.tools import refuse_tools
from corral.domain.errors import CorralError
from corral.ports.engines import EngineLost, HeadLines
from corral.serving.asking import Answer, asking
from corral.serving.gateway import Reading, Wish
from corral.store.use import Served

# Lines about the bytes of an answer.
_OF_BODY = frozenset({b"content-type", b"content-encoding", b"content-length"})


async def pass_on(
    call: Call, wish: Wish, body: AsyncIterator[bytes] | None = None, *, gives_up_on: frozenset[int] = frozenset()
) -> bool:
    """The engine's own answer. False if it has one of these states, which nobody has been told then. `body`: what
    follows the wish's own."""
    call.is_counted = True
    if gives_up_on:
        wish = replace(wish, reading=Reading(gives_up_on=gives_up_on))
    async with asking(call.parts.gateway, wish, body) as answer:
        if answer.status in gives_up_on:
            # Whoever answers instead counts it.
            call.is_counted, call.is_again = False, True
            return False
        if answer.status >= 400:
            await _engine_error(call, answer)
            return True
        size = [] if answer.size_bytes is None else [(b"content-length", b"%d" % answer.size_bytes)]
        await call.send_start(answer.status, [*answer.headers, *size])
        try:
            async for piece in answer.pieces():
                await call.send({"type": "http.response.body", "body": piece, "more_body": True})
        except CorralError as error:
            if answer.content_type.startswith(STREAM):
                await call.send({"type": "http.response.body", "body": call.envelope.event(error)})
            # Else: ending without an end is how the client hears of it.
            return True
    await call.send({"type": "http.response.body", "body": b""})
    return True


async def translate(call: Call, model: Served, asked: Translation, *, received_bytes: int, to: str = "chat") -> None:
    """Ask in OpenAI's words, and answer in the caller's."""
    call.require(model, to)
    refuse_tools(model, asked.chat)
    call.note_ignored(asked.ignored)
    wish = call.wish(model, to, call.chat_body(model, asked.chat, to), received_bytes=received_bytes)
    if not asked.is_stream:
        found = await answered(call, wish, asked.answer)
        if found is not None:
            await call.reply(found)
        return
    call.is_counted = True
    reading = Reading(read=_refuse_whole, expects_events=True, is_again=call.is_again)
    async with asking(call.parts.gateway, replace(wish, reading=reading)) as answer:
        if answer.status >= 400:
            await _engine_error(call, answer)
        else:
            await _translate_stream(call, answer, asked)


async def answered(call: Call, wish: Wish, said: Callable[[Json], Json]) -> Json | None:
    """What the engine's whole answer says in other words; None if it was an error, which the caller has been told then.

    It is said before the request is counted, so that garbage is counted as the 502 that the client gets. Limit: what is
    too large to be gathered has been counted when it comes here.
    """
    call.is_counted = True
    found: list[Json] = []
    reading = Reading(read=lambda raw: found.append(said(read_json(raw))), is_again=call.is_again)
    async with asking(call.parts.gateway, replace(wish, reading=reading)) as answer:
        if answer.status >= 400:
            await _engine_error(call, answer)
            return None
        call.notes += kept(answer.headers)
        return found[0] if found else said(read_json(await answer.read()))


def _no_stream() -> EngineLost:
    return EngineLost("The engine was asked for a stream and sent none.", code="engine_garbage")


def _refuse_whole(_: bytes) -> None:
    raise _no_stream()


async def _translate_stream(call: Call, answer: Answer, asked: Translation) -> None:
    if not answer.content_type.startswith(STREAM):
        error = _no_stream()
        answer.disown(error, error.status)
        raise error
    await call.send_start(200, [(b"content-type", asked.stream_type), *kept(answer.headers)])
    events, stream = Events(), asked.stream()
    try:
        async for piece in answer.pieces():
            said = b"".join([stream.event(event) for event in events.feed(piece)])
            if said:
                await call.send({"type": "http.response.body", "body": said, "more_body": True})
        last = stream.end()
    except CorralError as error:
        answer.disown(error)
        last = stream.error(error)
    await call.send({"type": "http.response.body", "body": last})


async def _engine_error(call: Call, answer: Answer) -> None:
    """An engine's own words, in the caller's envelope."""
    body, said = await answer.read(), call.envelope.engine_said
    if said is not None:
        await call.send_whole(answer.status, said(answer.status, body, call.request_id), kept(answer.headers))
    else:
        await call.send_start(answer.status, [*answer.headers, (b"content-length", b"%d" % len(body))])
        await call.send({"type": "http.response.body", "body": body})


def read_json(raw: bytes) -> Json:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise EngineLost("The engine's answer is no JSON.", code="engine_garbage") from error
    if not isinstance(found, dict):
        raise EngineLost("The engine's answer is no object.", code="engine_garbage")
    return found


def kept(headers: HeadLines) -> Headers:
    """The lines that are true of an answer in other words, too."""
    return [(name, value) for name, value in headers if name not in _OF_BODY]
