"""The routes as plain ASGI: read the request, relay or translate it, and reply.

Guarantee: a client that disconnects is noticed at once, while it waits as well as while it reads, and its engine call
ends with it. A stream goes out as it comes in, event by event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from corral.api.deps import ApiDeps
from corral.api.dialects import anthropic, responses
from corral.api.dialects.chat_completion import EventTranslation
from corral.api.dialects.dialect_call import PATHS, DialectCall
from corral.api.dialects.error_envelopes import ANTHROPIC, OPENAI, ErrorEnvelope
from corral.api.dialects.request_values import Json
from corral.api.dialects.response_relay import relay_response, relay_translated
from corral.api.errors import TOO_LARGE_HINT
from corral.api.openai.asgi import ClientDisconnected, run_until_disconnect
from corral.api.turns.dialect_turns import answer_by_agent, answer_with_servers
from corral.domain.agent import AGENT_PREFIX
from corral.domain.errors import CorralError, TooLarge
from corral.gateway.errors import ModelNotFound
from corral.gateway.request import request_body as bodies
from corral.policy.serving.mcp_choice import (
    ALL_SERVERS,
    NO_SERVERS,
    McpChoice,
    drop_mcp_keys,
    has_mcp_keys,
    read_mcp_choice,
)
from corral.store.replica_use import ServedModel

# The statuses with which an engine says that it does not have a path, as older versions do.
_UNSUPPORTED_STATUSES = frozenset({404, 405, 501})


class CallRoute(ABC):
    """Base class of a route of another inference API (Anthropic, Ollama, Responses), a plain ASGI application.

    Each call is authorised, and each error is in the caller's envelope.
    """

    # What happens if the engine does not support the call; for the reference page about calls.
    fallback: ClassVar[str]
    needs_key: ClassVar[bool] = True

    def __init__(self, path: str, call: str, envelope: ErrorEnvelope) -> None:
        # The name of the call in the metrics.
        self.path = path
        self.call = call
        self.envelope = envelope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request, deps = Request(scope, receive), scope["app"].state.deps
        assert isinstance(deps, ApiDeps)
        call = DialectCall(
            request=request,
            deps=deps,
            send=send,
            envelope=self.envelope,
            name=self.call,
            request_id=scope["state"]["request_id"],
        )
        try:
            if self.needs_key:
                await call.authenticate()
            await self.answer(call)
        except ClientDisconnected:
            return
        except CorralError as error:
            await call.send_error(error)
        except HTTPException as error:
            if error.status_code != TooLarge.status:
                raise
            # The body had no declared length.
            await call.send_error(TooLarge(error.detail, hint=TOO_LARGE_HINT))

    @abstractmethod
    async def answer(self, call: DialectCall) -> None: ...


class RelayRoute(CallRoute):
    """Route that relays a call to an engine which speaks the caller's API, and refuses it for other engines."""

    fallback = "400 `engine_lacks_call`"

    async def answer(self, call: DialectCall) -> None:
        sent = await call.read_body()
        model = await call.resolve_engine_model(sent.model)
        call.require_engine_support(model, self.call)
        request = call.build_native_request(model, sent)

        async def work() -> None:
            await relay_response(call, request)

        await run_until_disconnect(call.request.receive, work)


class MemoryRoute(CallRoute):
    """Route that answers a call of another inference API from the frontend's memory, without an engine."""

    fallback = "answered from memory"

    def __init__(self, path: str, call: str, envelope: ErrorEnvelope, render: Callable[[DialectCall], Json]) -> None:
        super().__init__(path, call, envelope)
        self._render = render

    async def answer(self, call: DialectCall) -> None:
        await call.send_json(self._render(call))


class ModelListRoute(CallRoute):
    """Route that lists models in the form of another API: from memory, and with the caller's LLM agents."""

    fallback = "answered from memory"

    def __init__(
        self, path: str, call: str, envelope: ErrorEnvelope, render: Callable[[DialectCall], Awaitable[Json]]
    ) -> None:
        super().__init__(path, call, envelope)
        self._render = render

    async def answer(self, call: DialectCall) -> None:
        await call.send_json(await self._render(call))


# Makes a reader of a request's body for a name of a model; the reader can be sent to another process.
TranslationReader = Callable[[DialectCall, str], Callable[[Json], EventTranslation]]


class TranslationRoute(CallRoute):
    """Route that relays a call to an engine which speaks the caller's API, or else translates it to a chat call."""

    fallback = "translated to a chat; what no chat can say is 400 `not_expressible`"

    def __init__(self, path: str, call: str, envelope: ErrorEnvelope, read: TranslationReader) -> None:
        super().__init__(path, call, envelope)
        self._read = read

    async def answer(self, call: DialectCall) -> None:
        sent = await call.read_body()
        try:
            model = await call.resolve_model(sent.model)
        except ModelNotFound as error:
            await answer_by_agent(call, sent, error, partial(self._read, call))
            return
        metadata = sent.read_metadata()
        choice = read_mcp_choice(metadata, default=self._choose_default(call, model, sent))
        if not choice.is_empty:
            await answer_with_servers(call, model, sent, choice, self._read(call, model.name))
            return
        if has_mcp_keys(metadata):
            # The keys never reach an engine.
            rest = sent.replace_member("metadata", drop_mcp_keys(metadata))
            sent = await bodies.parse_body_in_slices(rest, call.deps.slice_runner)
        native = call.build_native_request(model, sent) if call.check_engine_support(model, self.call) else None

        async def work() -> None:
            if native is not None and await relay_response(call, native, fallback_statuses=_UNSUPPORTED_STATUSES):
                return
            await relay_translated(call, model, sent, self._read(call, model.name))

        await run_until_disconnect(call.request.receive, work)

    def _choose_default(self, call: DialectCall, model: ServedModel, sent: bodies.RequestBody) -> McpChoice:
        """Return the MCP servers of a request that names none: all for a response without tools of its own."""
        is_person = not call.principal.is_run and call.principal.node_id is None
        uses_all = self.call == "responses" and model.has_mcp and is_person and not sent.peek(("tools",)).get("tools")
        return ALL_SERVERS if uses_all else NO_SERVERS


def _make_message_reader(call: DialectCall, model: str) -> Callable[[Json], EventTranslation]:
    return partial(anthropic.parse_request, model=model, answer_id=call.new_id())


def _make_response_reader(call: DialectCall, model: str) -> Callable[[Json], EventTranslation]:
    created_at = int(call.deps.clock.wall().timestamp())
    return partial(responses.parse_request, model=model, answer_id=call.new_id(), created_at=created_at)


async def _list_agents(call: DialectCall) -> dict[str, Json]:
    agents = await call.deps.turn_calls.list_agents(call.principal)
    return {name: anthropic.render_model(name, datetime.fromtimestamp(created_s, UTC)) for name, created_s in agents}


async def _render_models(call: DialectCall) -> Json:
    models = [anthropic.render_model(model.name, model.created_at) for model in call.list_models()]
    return anthropic.render_model_list([*models, *(await _list_agents(call)).values()])


async def _render_model(call: DialectCall) -> Json:
    name = call.request.path_params["model"]
    if name.startswith(AGENT_PREFIX) and (agent := (await _list_agents(call)).get(name)):
        return agent
    found = call.deps.gateway.router.snapshot.find(name)
    if found is not None and found in call.list_models():
        return anthropic.render_model(found.name, found.created_at)
    raise ModelNotFound(f"There is no model named {name[:255]!r}.", hint="GET /v1/models lists them.")


class AnthropicOnlyRoute(Route):
    """Route that matches only Anthropic's clients, which ask for models at the same path as OpenAI's."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        has_anthropic_header = scope["type"] == "http" and any(
            name == b"anthropic-version" for name, _ in scope["headers"]
        )
        return super().matches(scope) if has_anthropic_header else (Match.NONE, {})


def make_post_route(route: CallRoute) -> Route:
    return Route(route.path, route, methods=["POST"])


V1_ROUTES = [
    make_post_route(TranslationRoute(PATHS["responses"], "responses", OPENAI, _make_response_reader)),
    *(make_post_route(RelayRoute(PATHS[call], call, OPENAI)) for call in ("rerank", "speech", "images")),
    make_post_route(TranslationRoute(PATHS["messages"], "messages", ANTHROPIC, _make_message_reader)),
    make_post_route(RelayRoute(PATHS["count_tokens"], "count_tokens", ANTHROPIC)),
    AnthropicOnlyRoute(
        "/v1/models", ModelListRoute("/v1/models", "models", ANTHROPIC, _render_models), methods=["GET"]
    ),
    AnthropicOnlyRoute(
        "/v1/models/{model:path}",
        ModelListRoute("/v1/models/{model}", "models", ANTHROPIC, _render_model),
        methods=["GET"],
    ),
]
