"""Answers Anthropic's messages and OpenAI's responses by runs, with the translators that engines' answers pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from corral.agents.turns import TurnRequest
from corral.api.dialects.chat_completion import EventTranslation
from corral.api.dialects.dialect_call import DialectCall
from corral.api.dialects.request_values import Json
from corral.api.dialects.translation_work import IN_PLACE_BYTES_MAX, RequestTarget
from corral.api.openai.asgi import run_until_disconnect
from corral.api.turns.conversation import check_size, read_written_conversation, refuse_mcp_keys
from corral.api.turns.turn_calls import TurnAnswer, TurnTarget
from corral.api.turns.turn_recorder import RecordedCall, TurnRecorder
from corral.api.turns.turn_streams import RUN_HEADER, STREAM_HEADERS, DialectWriter, write_stream
from corral.domain.errors import CorralError
from corral.gateway.request.request_body import RequestBody
from corral.policy.serving.mcp_choice import McpChoice
from corral.ports.requests import sanitise_traceparent
from corral.store.replica_use import ServedModel

# Reads the body of a request; can be sent to another process.
_Reader = Callable[[Json], EventTranslation]


def _keep(translation: EventTranslation) -> EventTranslation:
    return translation


async def answer_by_agent(
    call: DialectCall,
    sent: RequestBody,
    refusal: CorralError,
    make_reader: Callable[[str], _Reader],
    refresh: Callable[[EventTranslation], EventTranslation] = _keep,
) -> None:
    """Answer a call whose name means no model by the agent of that name. Raises `refusal` if there is none.

    `refresh` restores what cannot be sent to another process and back, as clocks."""
    target = await call.deps.turn_calls.find_agent(call.principal, sent.model, refusal)
    refuse_mcp_keys(sent.read_metadata())
    request = await _read_request(call, target, sent, make_reader(target.model))
    request = replace(request, translation=refresh(request.translation))
    await run_until_disconnect(call.request.receive, lambda: _answer(call, target, request))


async def answer_with_servers(
    call: DialectCall, model: ServedModel, sent: RequestBody, choice: McpChoice, read: _Reader
) -> None:
    """Answer a call of a model by a run that uses its MCP servers."""
    turn_calls = call.deps.turn_calls
    target = turn_calls.find_chat(call.principal, model, choice)
    request = await _read_request(call, target, sent, read)

    async def work() -> None:
        turn = await turn_calls.add_context(call.principal, model, choice, request.turn)
        await _answer(call, target, replace(request, turn=turn))

    await run_until_disconnect(call.request.receive, work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DialectRequest:
    """Holds the work of a run, and the translation of its answer."""

    turn: TurnRequest
    translation: EventTranslation
    received_bytes: int


async def _read_request(call: DialectCall, target: TurnTarget, sent: RequestBody, read: _Reader) -> _DialectRequest:
    """Translate a request to a chat, and read that as the work of a run."""
    check_size(len(sent.raw), sent.count)
    translated, chat = await call.translate_request(sent, read, RequestTarget(model=target.model, defaults={}))
    call.note_ignored(translated.translation.ignored)
    is_large = len(chat) > IN_PLACE_BYTES_MAX
    work = read_written_conversation
    conversation, _ = await call.deps.compute.run(work, chat) if is_large else work(chat)
    return _DialectRequest(turn=conversation.request, translation=translated.translation, received_bytes=len(sent.raw))


async def _answer(call: DialectCall, target: TurnTarget, request: _DialectRequest) -> None:
    translation, turn_calls = request.translation, call.deps.turn_calls
    recorded = RecordedCall(
        name=call.name,
        request_id=call.request_id,
        traceparent=sanitise_traceparent(call.request.headers.get("traceparent", "")),
        received_bytes=request.received_bytes,
    )
    call.is_counted = True
    with TurnRecorder(call.deps.gateway, recorded, call.principal) as recorder:
        async with turn_calls.open(target, request.turn, recorder, keeps_text=not translation.is_stream) as answer:
            call.extra_headers.append((RUN_HEADER, answer.run_id.encode()))
            if translation.is_stream:
                await _stream(call, answer, translation, recorder)
            else:
                completion = await answer.read_all()
                found = translation.translate_response(completion) | answer.renderer.render_run()
                body = json.dumps(found, ensure_ascii=False).encode(errors="replace")
                recorder.note_piece(body)
                await call.reply_written(body)


async def _stream(call: DialectCall, answer: TurnAnswer, translation: EventTranslation, recorder: TurnRecorder) -> None:
    has_begun = False
    async for piece in write_stream(answer, DialectWriter(translation.begin_stream()), recorder):
        if not has_begun:
            has_begun = True
            await call.send_start(200, [(b"content-type", translation.stream_type), *STREAM_HEADERS])
        await call.send({"type": "http.response.body", "body": piece, "more_body": True})
    await call.send({"type": "http.response.body", "body": b""})
