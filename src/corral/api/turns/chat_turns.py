"""Answers `/v1/chat/completions` by runs, for the hot path as well as for the routes of uvicorn.

Implements `gateway.request.turn_responder.TurnResponder`: the gateway relays the response and knows nothing of agents.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from corral.api.turns.conversation import (
    Conversation,
    check_size,
    read_conversation,
    read_written_conversation,
    refuse_mcp_keys,
)
from corral.api.turns.turn_calls import TurnAnswer, TurnCallService
from corral.api.turns.turn_recorder import RecordedCall, TurnRecorder
from corral.api.turns.turn_streams import RUN_HEADER, STREAM_HEADERS, ChatWriter, write_stream
from corral.gateway.errors import STREAM
from corral.gateway.exchange.gateway import JSON
from corral.gateway.request import request_body as bodies
from corral.gateway.request.request_builder import RequestDeps, RequestHead
from corral.gateway.request.turn_responder import TurnNeeded
from corral.policy.serving.mcp_choice import ALL_SERVERS, NO_SERVERS, read_mcp_choice
from corral.ports.requests import HeadLines
from corral.runtime.compute_process import ComputeProcess


class ChatTurnResponse:
    """Response of one run (such as an LLM agent's turn) in the form of a chat completion.

    Implements `gateway.request.turn_responder.TurnResponse`.
    """

    def __init__(self, answer: TurnAnswer, conversation: Conversation, recorder: TurnRecorder) -> None:
        self._answer = answer
        self._recorder = recorder
        self._conversation = conversation
        self.size_bytes: int | None = None

    @property
    def headers(self) -> HeadLines:
        run = (RUN_HEADER, self._answer.run_id.encode())
        if self._conversation.is_stream:
            return ((b"content-type", STREAM.encode()), *STREAM_HEADERS, run)
        return ((b"content-type", JSON.encode()), run)

    async def iter_pieces(self) -> AsyncIterator[bytes]:
        if self._conversation.is_stream:
            writer = ChatWriter(includes_usage=self._conversation.includes_usage)
            async for piece in write_stream(self._answer, writer, self._recorder):
                yield piece
            return
        body = json.dumps(await self._answer.read_all(), ensure_ascii=False).encode(errors="replace")
        self.size_bytes = len(body)
        self._recorder.note_piece(body)
        yield body


class ChatTurnResponder:
    """Answers chat requests that name an LLM agent or use MCP servers, by starting runs."""

    def __init__(self, calls: TurnCallService, compute: ComputeProcess) -> None:
        self._calls = calls
        self._compute = compute

    @asynccontextmanager
    async def open_chat(
        self, deps: RequestDeps, head: RequestHead, body: bytes, needed: TurnNeeded, request_id: str
    ) -> AsyncIterator[ChatTurnResponse]:
        """Start the run that answers a chat request. Leaving the block early cancels the run. Emits the record of the
        request, however it ends."""
        call = RecordedCall(
            name=head.call, request_id=request_id, traceparent=head.traceparent, received_bytes=len(body)
        )
        with TurnRecorder(deps.gateway, call, head.principal) as recorder:
            async with self._open(deps, head, body, needed, recorder) as response:
                yield response

    @asynccontextmanager
    async def _open(
        self, deps: RequestDeps, head: RequestHead, body: bytes, needed: TurnNeeded, recorder: TurnRecorder
    ) -> AsyncIterator[ChatTurnResponse]:
        principal = head.principal or await deps.directory.authenticate_key(head.secret)
        recorder.principal = principal
        sent = await bodies.parse_body_in_slices(body, deps.slice_runner)
        if needed.model is None:
            assert needed.refusal is not None, "a name means a model, or not"
            # First: a name that means nothing is refused as before, whatever else the request says.
            target = await self._calls.find_agent(principal, sent.model, needed.refusal)
            refuse_mcp_keys(sent.read_metadata())
            conversation = await self._read_conversation(sent)
            request = conversation.request
        else:
            choice = read_mcp_choice(sent.read_metadata(), default=ALL_SERVERS if needed.uses_all else NO_SERVERS)
            target = self._calls.find_chat(principal, needed.model, choice)
            conversation = await self._read_conversation(sent)
            request = await self._calls.add_context(principal, needed.model, choice, conversation.request)
        async with self._calls.open(target, request, recorder, keeps_text=not conversation.is_stream) as answer:
            yield ChatTurnResponse(answer, conversation, recorder)

    async def _read_conversation(self, sent: bodies.RequestBody) -> Conversation:
        """Return what a request asks of a run; a large one is read in another process."""
        check_size(len(sent.raw), sent.count)
        if sent.decoded is not None:
            return read_conversation(dict(sent.decoded))
        return (await self._compute.run(read_written_conversation, sent.raw))[0]
