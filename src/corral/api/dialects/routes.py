"""The routes as plain ASGI: read the request, relay or translate it, and reply.

Guarantee: a client that disconnects is noticed at once, while it waits as well as while it reads, and its engine call
ends with it. A stream goes out as it comes in, event by event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from corral.api.deps import ApiDeps
from corral.api.dialects import anthropic, responses
from corral.api.dialects.chat_completion import Translation
from corral.api.dialects.dialect_call import PATHS, DialectCall
from corral.api.dialects.error_envelopes import ANTHROPIC, OPENAI, ErrorEnvelope
from corral.api.dialects.request_values import Json
from corral.api.dialects.response_relay import relay_response, relay_translated
from corral.api.errors import TOO_LARGE_HINT
from corral.api.openai.asgi import ClientDisconnected, run_until_disconnect
from corral.domain.errors import CorralError, TooLarge
from corral.gateway.errors import ModelNotFound
from corral.store.replica_use import ServedModel

# The statuses with which an engine says that it does not have a path, as older versions do.
_UNSUPPORTED_STATUSES = frozenset({404, 405, 501})


class CallRoute(ABC):
    """Answers one path of a dialect as a plain ASGI application: authorised, and every error in the
    caller's envelope."""

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
    """Relays a call to an engine that speaks it, and refuses it otherwise."""

    fallback = "400 `engine_lacks_call`"

    async def answer(self, call: DialectCall) -> None:
        sent = await call.read_body()
        model = await call.resolve_model(sent.model)
        call.require_engine_support(model, self.call)
        request = call.build_native_request(model, sent)

        async def work() -> None:
            await relay_response(call, request)

        await run_until_disconnect(call.request.receive, work)


class MemoryRoute(CallRoute):
    """Answers a call from memory, without an engine."""

    fallback = "answered from memory"

    def __init__(self, path: str, call: str, envelope: ErrorEnvelope, render: Callable[[DialectCall], Json]) -> None:
        super().__init__(path, call, envelope)
        self._render = render

    async def answer(self, call: DialectCall) -> None:
        await call.send_json(self._render(call))


# Reads the body of a request; the result can be sent to another process.
TranslationReader = Callable[[DialectCall, ServedModel], Callable[[Json], Translation]]


class TranslationRoute(CallRoute):
    """Relays a call to an engine that speaks it, and translates it to a chat completion otherwise."""

    fallback = "translated to a chat; what no chat can say is 400 `not_expressible`"

    def __init__(self, path: str, call: str, envelope: ErrorEnvelope, read: TranslationReader) -> None:
        super().__init__(path, call, envelope)
        self._read = read

    async def answer(self, call: DialectCall) -> None:
        sent = await call.read_body()
        model = await call.resolve_model(sent.model)
        native = call.build_native_request(model, sent) if call.check_engine_support(model, self.call) else None

        async def work() -> None:
            if native is not None and await relay_response(call, native, fallback_statuses=_UNSUPPORTED_STATUSES):
                return
            await relay_translated(call, model, sent, self._read(call, model))

        await run_until_disconnect(call.request.receive, work)


def _make_message_reader(call: DialectCall, model: ServedModel) -> Callable[[Json], Translation]:
    return partial(anthropic.parse_request, model=model.name, answer_id=call.new_id())


def _make_response_reader(call: DialectCall, model: ServedModel) -> Callable[[Json], Translation]:
    created_at = int(call.deps.clock.wall().timestamp())
    return partial(responses.parse_request, model=model.name, answer_id=call.new_id(), created_at=created_at)


def _render_models(call: DialectCall) -> Json:
    return anthropic.render_model_list(
        [anthropic.render_model(model.name, model.created_at) for model in call.list_models()]
    )


def _render_model(call: DialectCall) -> Json:
    name = call.request.path_params["model"]
    found = call.deps.gateway.router.snapshot.find(name)
    if found is not None and found in call.list_models():
        return anthropic.render_model(found.name, found.created_at)
    raise ModelNotFound(f"There is no model named {name[:255]!r}.", hint="GET /v1/models lists them.")


class AnthropicOnlyRoute(Route):
    """Matches only requests of Anthropic's clients, which ask for models at the same path as OpenAI's."""

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
    AnthropicOnlyRoute("/v1/models", MemoryRoute("/v1/models", "models", ANTHROPIC, _render_models), methods=["GET"]),
    AnthropicOnlyRoute(
        "/v1/models/{model:path}",
        MemoryRoute("/v1/models/{model}", "models", ANTHROPIC, _render_model),
        methods=["GET"],
    ),
]
