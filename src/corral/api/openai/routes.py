"""The routes of `/v1` as plain ASGI: authenticate, find the model, and relay the response as it comes.

Most calls never reach these routes: `gateway/connection/protocol.py` answers them on the connection itself. The rest
are the requests that it leaves to uvicorn: bodies in chunks, `Expect`, requests behind others on one connection.

Guarantee: a response's status, type and bytes are the engine's own, but for logprobs, echo and the usage of several
choices (`policy/serving/response_rewriter.py`). A client that disconnects is noticed at once, while it waits as well as
while it reads, and its engine call ends with it. Every error before the first byte has OpenAI's shape.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from corral.api.deps import ApiDeps, authenticate_caller
from corral.api.openai.asgi import ClientDisconnected, receive_body, run_until_disconnect, send_error
from corral.domain.access import Principal, can_use_model
from corral.domain.agent import AGENT_PREFIX
from corral.domain.errors import CorralError, TooLarge
from corral.gateway.errors import STREAM, render_error_event
from corral.gateway.exchange.exchange_response import ExchangeResponse, ResponseInterrupted, open_exchange
from corral.gateway.exchange.gateway import InferenceRequest
from corral.gateway.request import request_body as bodies
from corral.gateway.request.request_builder import (
    CALLS,
    RequestHead,
    build_request_later,
    build_request_now,
    check_serves,
    make_model_filter,
    parse_preferred_wait_s,
)
from corral.gateway.request.turn_responder import TurnNeeded
from corral.ports.requests import sanitise_traceparent
from corral.store.replica_use import ServedModel

OWNER = "corral"
# LocalAI's paths of a chat that uses all MCP servers of its model.
MCP_CHAT_PATHS = ("/v1/mcp/chat/completions", "/mcp/v1/chat/completions", "/mcp/chat/completions")
# What `owned_by` says of an agent in the list of models.
AGENT_OWNER = "corral-agent"


class InferenceRoute:
    """Answers one path of OpenAI's API (`/v1`) with the response of a model, as a plain ASGI application."""

    def __init__(self, path: str, call: str) -> None:
        # The name of the call in the metrics.
        self.path = path
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        deps, request_id = scope["app"].state.deps, scope["state"]["request_id"]
        assert isinstance(deps, ApiDeps)
        try:
            head = RequestHead(
                path=self.path,
                call=self._call,
                # Authenticated before the body is read, so that no unknown caller can fill our memory.
                principal=await authenticate_caller(request, deps),
                wait_s=parse_preferred_wait_s(request.headers.get("prefer", "")),
                traceparent=sanitise_traceparent(request.headers.get("traceparent", "")),
            )
            body = await _receive_body(scope, receive, deps, head)
            inference_request = await self._build_request(deps, head, body, request_id)
        except ClientDisconnected:
            return
        except TurnNeeded as needed:
            turn = _Turn(deps=deps, head=head, body=body, needed=needed, request_id=request_id)
            await self._answer_by_run(request, send, turn)
            return
        except CorralError as error:
            deps.gateway.record_rejection(error, call=self._call, request_id=request_id)
            await send_error(send, scope["path"], error, request_id)
            return
        try:
            await run_until_disconnect(request.receive, lambda: _relay_response(deps, inference_request, send))
        except CorralError as error:
            await send_error(send, scope["path"], error, request_id)

    async def _build_request(self, deps: ApiDeps, head: RequestHead, body: bytes, request_id: str) -> InferenceRequest:
        """Return the request for an engine. Raises `TurnNeeded` if a run has to answer it."""
        return build_request_now(deps, head, body, request_id) or await build_request_later(
            deps, head, body, request_id
        )

    async def _answer_by_run(self, request: Request, send: Send, turn: _Turn) -> None:
        try:
            await run_until_disconnect(request.receive, lambda: _relay_turn(turn, send))
        except CorralError as error:
            await send_error(send, request.scope["path"], error, turn.request_id)


class McpChatRoute(InferenceRoute):
    """Answers LocalAI's chat routes that use MCP servers: all servers of the model, unless the request chooses."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "chat")

    async def _build_request(self, deps: ApiDeps, head: RequestHead, body: bytes, request_id: str) -> InferenceRequest:
        del request_id
        assert head.principal is not None, "the caller was authenticated before the body was read"
        sent = await bodies.parse_body_in_slices(body, deps.slice_runner)
        model = await deps.gateway.router.resolve(sent.model, make_model_filter(head.principal))
        check_serves(model, head)
        raise TurnNeeded(model=model, uses_all=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """Holds a request that a run answers."""

    deps: ApiDeps
    head: RequestHead
    body: bytes
    needed: TurnNeeded
    request_id: str


async def _relay_turn(turn: _Turn, send: Send) -> None:
    """Relay the response of a run. Raises `CorralError` if there is none, before anything was sent."""
    has_begun = False
    deps, request_id = turn.deps, turn.request_id
    async with deps.turns.open_chat(deps, turn.head, turn.body, turn.needed, request_id) as response:
        async for piece in response.iter_pieces():
            if not has_begun:
                has_begun, size = True, response.size_bytes
                length = [] if size is None else [(b"content-length", b"%d" % size)]
                await send({"type": "http.response.start", "status": 200, "headers": [*response.headers, *length]})
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _receive_body(scope: Scope, receive: Receive, deps: ApiDeps, head: RequestHead) -> bytes:
    principal = head.principal
    assert principal is not None
    try:
        return await receive_body(scope, receive, deps.gateway.body_budget, principal.key_id)
    except TooLarge as error:
        raise deps.gateway.charge_refused(error, principal) from error


async def _relay_response(deps: ApiDeps, request: InferenceRequest, send: Send) -> None:
    async with open_exchange(deps.gateway, request) as answer:
        await send({"type": "http.response.start", "status": answer.status, "headers": _list_headers(answer)})
        try:
            async for piece in answer.iter_pieces():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except ResponseInterrupted as error:
            if answer.content_type.startswith(STREAM):
                await send({"type": "http.response.body", "body": render_error_event(error)})
            # Otherwise the missing end of the response tells the client.
            return
    await send({"type": "http.response.body", "body": b""})


def _list_headers(answer: ExchangeResponse) -> list[tuple[bytes, bytes]]:
    if answer.size_bytes is None:
        return [*answer.headers]
    return [*answer.headers, (b"content-length", b"%d" % answer.size_bytes)]


class _OpenAiMemoryRoute(ABC):
    """Answers one path of `/v1` without an engine: authorised, and every error in OpenAI's shape."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        deps = scope["app"].state.deps
        assert isinstance(deps, ApiDeps)
        try:
            principal = await authenticate_caller(request, deps)
            await _send_json(send, await self.render_answer(request, deps, principal))
        except CorralError as error:
            await send_error(send, scope["path"], error, scope["state"].get("request_id"))

    @abstractmethod
    async def render_answer(self, request: Request, deps: ApiDeps, principal: Principal) -> dict[str, object]: ...


class ListModelsRoute(_OpenAiMemoryRoute):
    """Answers `GET /v1/models` from memory: the models, and behind them the caller's LLM agents."""

    async def render_answer(self, request: Request, deps: ApiDeps, principal: Principal) -> dict[str, object]:
        del request
        models = deps.gateway.router.snapshot.list_models()
        shown = [render_model(model) for model in models if _is_visible(model, principal)]
        shown += [_render_agent(*agent) for agent in await deps.turn_calls.list_agents(principal)]
        return {"object": "list", "data": shown}


class ShowModelRoute(_OpenAiMemoryRoute):
    """Answers `GET /v1/models/{model}` from memory, with one model or LLM agent."""

    async def render_answer(self, request: Request, deps: ApiDeps, principal: Principal) -> dict[str, object]:
        name, router = request.path_params["model"], deps.gateway.router
        if name.startswith(AGENT_PREFIX):
            for agent in await deps.turn_calls.list_agents(principal):
                if agent[0] == name:
                    return _render_agent(*agent)
        model = router.snapshot.find(name)
        if model is None or not _is_visible(model, principal):
            raise router.make_not_found_error(name, make_model_filter(principal))
        return render_model(model)


def render_model(model: ServedModel) -> dict[str, object]:
    return {"id": model.name, "object": "model", "created": int(model.created_at.timestamp()), "owned_by": OWNER}


def _render_agent(name: str, created_s: float) -> dict[str, object]:
    return {"id": name, "object": "model", "created": int(created_s), "owned_by": AGENT_OWNER}


def _is_visible(model: ServedModel, principal: Principal) -> bool:
    return model.is_enabled and can_use_model(principal, model.name, model.names)


async def _send_json(send: Send, value: object) -> None:
    body = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


OPENAI_ROUTES = [
    *(Route(path, InferenceRoute(path, call), methods=["POST"]) for path, call in CALLS.items()),
    *(Route(path, McpChatRoute(path), methods=["POST"]) for path in MCP_CHAT_PATHS),
    Route("/v1/models", ListModelsRoute("/v1/models"), methods=["GET"]),
    Route("/v1/models/{model:path}", ShowModelRoute("/v1/models/{model}"), methods=["GET"]),
    # A name with a line break, which `:path` does not match and no model has.
    Route("/v1/models/{model}", ShowModelRoute("/v1/models/{model}"), methods=["GET"]),
]
