"""Relays responses: as the engine sends them, or translated to the caller's dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from corral.api.dialects.chat_completion import ChatEventParser, StreamTranslation, Translation
from corral.api.dialects.dialect_call import DialectCall
from corral.api.dialects.error_envelopes import Headers
from corral.api.dialects.request_values import Json
from corral.api.dialects.translation_work import RequestTarget, write_answer
from corral.domain.errors import CorralError
from corral.gateway.errors import STREAM
from corral.gateway.exchange.exchange_response import ExchangeResponse, open_exchange
from corral.gateway.exchange.gateway import InferenceRequest, ResponseReadOptions
from corral.gateway.request.request_body import RequestBody
from corral.gateway.request.request_builder import refuse_tools
from corral.ports.requests import EngineLost, HeadLines
from corral.runtime.slice_runner import SLICE_COST
from corral.store.replica_use import ServedModel

T = TypeVar("T", bound=Translation)

# How much of a stream is translated in one turn of the loop.
PIECE_BYTES = 16 * 1024
# An engine's error is relayed up to this size.
ERROR_BYTES_MAX = 8 * 1024 * 1024
# Headers about the bytes of a response.
_BODY_HEADERS = frozenset({b"content-type", b"content-encoding", b"content-length"})


async def relay_response(
    call: DialectCall,
    request: InferenceRequest,
    body: AsyncIterator[bytes] | None = None,
    *,
    fallback_statuses: frozenset[int] = frozenset(),
) -> bool:
    """Relay the engine's own response. Return False if its status is in `fallback_statuses`; then nothing was sent.
    `body` yields the bytes that follow the request's own."""
    call.is_counted = True
    if fallback_statuses:
        request = replace(request, read_options=ResponseReadOptions(fallback_statuses=fallback_statuses))
    async with open_exchange(call.deps.gateway, request, body) as answer:
        if answer.status in fallback_statuses:
            # The caller that answers instead counts the request.
            call.is_counted, call.is_fallback = False, True
            return False
        if answer.status >= 400:
            await _relay_engine_error(call, answer)
            return True
        size = [] if answer.size_bytes is None else [(b"content-length", b"%d" % answer.size_bytes)]
        await call.send_start(answer.status, [*answer.headers, *size])
        try:
            async for piece in answer.iter_pieces():
                await call.send({"type": "http.response.body", "body": piece, "more_body": True})
        except CorralError as error:
            if answer.content_type.startswith(STREAM):
                await call.send({"type": "http.response.body", "body": call.envelope.render_event(error)})
            # Otherwise the missing end of the response tells the client.
            return True
    await call.send({"type": "http.response.body", "body": b""})
    return True


async def relay_translated(
    call: DialectCall,
    model: ServedModel,
    sent: RequestBody,
    read: Callable[[Json], T],
    refresh: Callable[[T], T] | None = None,
) -> None:
    """Send a request to the engine in OpenAI's form, and relay the response in the caller's.

    `read` may be sent to another process; `refresh` restores in its result what cannot be sent, as clocks."""
    target = RequestTarget(model=model.name, defaults=dict(model.defaults))
    request, body = await call.translate_request(sent, read, target)
    translation = request.translation if refresh is None else refresh(request.translation)
    call.require_engine_support(model, translation.call)
    refuse_tools(model, request.tools)
    call.note_ignored(translation.ignored)
    inference_request = call.build_request(model, translation.call, body, received_bytes=len(sent.raw))
    if not translation.is_stream:
        found = await _translate_whole(call, inference_request, translation)
        if found is not None:
            await call.reply_written(found)
        return
    call.is_counted = True
    read_options = ResponseReadOptions(read=_raise_no_stream, expects_events=True, is_admitted=call.is_fallback)
    async with open_exchange(call.deps.gateway, replace(inference_request, read_options=read_options)) as answer:
        if answer.status >= 400:
            await _relay_engine_error(call, answer)
        else:
            await _translate_stream(call, answer, translation)


async def _translate_whole(
    call: DialectCall, inference_request: InferenceRequest, translation: Translation
) -> bytes | None:
    """Return the engine's whole response, translated; None if it was an error, which was relayed to the caller then.

    The response is translated before the request is counted, so that garbage is counted as the 502 that the client
    gets."""
    call.is_counted = True
    found: list[bytes] = []

    def read(raw: bytes) -> None:
        found.append(write_answer(translation.translate_response, raw)[1])

    async def read_large(raw: bytes) -> None:
        work = partial(write_answer, translation.without_chat().translate_response)
        found.append((await call.deps.compute.run(work, raw))[1])

    read_options = ResponseReadOptions(read=read, read_large=read_large, is_admitted=call.is_fallback)
    async with open_exchange(call.deps.gateway, replace(inference_request, read_options=read_options)) as answer:
        if answer.status >= 400:
            await _relay_engine_error(call, answer)
            return None
        call.extra_headers += keep_headers(answer.headers)
        return found[0]


def _make_no_stream_error() -> EngineLost:
    return EngineLost("The engine did not send a stream although the request asks for one.", code="engine_garbage")


def _raise_no_stream(_: bytes) -> None:
    raise _make_no_stream_error()


async def _translate_stream(call: DialectCall, answer: ExchangeResponse, translation: Translation) -> None:
    if not answer.content_type.startswith(STREAM):
        error = _make_no_stream_error()
        answer.reject_response(error, error.status)
        raise error
    await call.send_start(200, [(b"content-type", translation.stream_type), *keep_headers(answer.headers)])
    events, stream = ChatEventParser(), translation.begin_stream()
    try:
        async for piece in answer.iter_pieces():
            if len(piece) <= PIECE_BYTES:
                translated = b"".join([stream.translate_event(event) for event in events.feed(piece)])
            else:
                # Thousands of events may have come at once.
                translated = await call.deps.slice_runner.run(_translate_events(stream, events, piece))
            if translated:
                await call.send({"type": "http.response.body", "body": translated, "more_body": True})
        last = stream.render_end()
    except CorralError as error:
        answer.reject_response(error)
        last = stream.render_error(error)
    await call.send({"type": "http.response.body", "body": last})


def _translate_events(stream: StreamTranslation, events: ChatEventParser, piece: bytes) -> Generator[int, None, bytes]:
    """Translate the events in a large piece. Yields costs."""
    translated = []
    for start in range(0, len(piece), PIECE_BYTES):
        translated += [stream.translate_event(event) for event in events.feed(piece[start : start + PIECE_BYTES])]
        yield SLICE_COST
    return b"".join(translated)


async def _relay_engine_error(call: DialectCall, answer: ExchangeResponse) -> None:
    """Relay an engine's own error in the caller's envelope."""
    body, render_engine_error = await answer.read(ERROR_BYTES_MAX), call.envelope.render_engine_error
    if render_engine_error is not None:
        await call.send_whole(
            answer.status, render_engine_error(answer.status, body, call.request_id), keep_headers(answer.headers)
        )
    else:
        await call.send_start(answer.status, [*answer.headers, (b"content-length", b"%d" % len(body))])
        await call.send({"type": "http.response.body", "body": body})


def keep_headers(headers: HeadLines) -> Headers:
    """Return the headers that are also true of a translated response."""
    return [(name, value) for name, value in headers if name not in _BODY_HEADERS]
