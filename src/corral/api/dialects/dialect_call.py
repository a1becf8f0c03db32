"""Prepares one request in any dialect: authenticates it, finds its model, checks what the engine supports, and builds
the inference request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Send

from corral.api.deps import ApiDeps, authenticate_caller
from corral.api.dialects.chat_completion import Translation
from corral.api.dialects.error_envelopes import ErrorEnvelope, Headers
from corral.api.dialects.request_values import Json
from corral.api.dialects.translation_work import (
    IN_PLACE_BYTES_MAX,
    RequestTarget,
    TranslatedRequest,
    write_decoded,
    write_request,
)
from corral.api.models.request_bodies import list_served_calls
from corral.api.openai.asgi import receive_body
from corral.domain.access import Principal, can_use_model
from corral.domain.errors import CorralError, InvalidRequest
from corral.gateway.errors import ModelNotFound, render_error_headers
from corral.gateway.exchange.gateway import InferenceRequest
from corral.gateway.request import request_body as bodies
from corral.gateway.request.request_builder import (
    ADAPTER_CALLS,
    TOOL_NAMES,
    choose_adapter,
    make_model_filter,
    parse_preferred_wait_s,
    refuse_tools,
)
from corral.policy.serving.long_strings import LongStrings
from corral.ports.requests import sanitise_traceparent
from corral.store.replica_use import ServedModel

PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "embeddings": "/v1/embeddings",
    "messages": "/v1/messages",
    "count_tokens": "/v1/messages/count_tokens",
    "responses": "/v1/responses",
    "rerank": "/v1/rerank",
    "speech": "/v1/audio/speech",
    "transcriptions": "/v1/audio/transcriptions",
    "translations": "/v1/audio/translations",
    "images": "/v1/images/generations",
}
# Calls that are translated to each other: a model that serves one of them serves the other.
EQUIVALENT_CALLS = {"messages": "chat", "count_tokens": "chat", "responses": "chat", "translations": "transcriptions"}
T = TypeVar("T", bound=Translation)

_IGNORED = b"x-corral-ignored"
# Headers that change the meaning of a call.
_FORWARDED = ("anthropic-version", "anthropic-beta")
# The defaults of a model that apply to a call, and their names there. Other calls take all but `system`.
_DEFAULT_NAMES: Mapping[str, Mapping[str, str]] = {
    "messages": {
        "system": "system", "max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p",
        "top_k": "top_k", "stop": "stop_sequences",
    },
    "count_tokens": {"system": "system"},
    "responses": {
        "system": "instructions", "max_tokens": "max_output_tokens", "temperature": "temperature", "top_p": "top_p",
    },
    "rerank": {"top_n": "top_n"},
}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class DialectCall:
    """Handles one HTTP request of another API than OpenAI's chat (Anthropic, Ollama, Responses).

    Authenticates it, finds its model, builds the inference request and sends the response.
    """

    request: Request
    deps: ApiDeps
    send: Send
    envelope: ErrorEnvelope
    # The kind of call: messages, responses, …
    name: str
    request_id: str
    # Set as soon as an exchange counts this request; until then a refusal must count it.
    is_counted: bool = False
    # Set when the engine is called a second time with a translated request; the limits count it once.
    is_fallback: bool = False
    # More response headers.
    extra_headers: Headers = field(default_factory=list)
    _principal: Principal | None = None

    async def authenticate(self) -> None:
        """Identify the caller, before anything else."""
        self._principal = await authenticate_caller(self.request, self.deps)

    @property
    def principal(self) -> Principal:
        assert self._principal is not None, "authenticate() was not called"
        return self._principal

    def new_id(self) -> str:
        """Return an id for an object in a response."""
        return self.deps.ids.new_id().replace("-", "")

    async def read_body(self) -> bodies.RequestBody:
        """Return the members of the body. Raises `InvalidRequest` if it is not a JSON object or exceeds the limits."""
        request, deps, principal = self.request, self.deps, self.principal
        raw = await receive_body(request.scope, request.receive, deps.gateway.body_budget, principal.key_id)
        if len(raw) > bodies.IN_PLACE_BYTES_MAX:
            # A key without requests left is refused before any more work is done.
            deps.gateway.limiter.check_requests(principal)
        return await bodies.parse_body_in_slices(raw, deps.slice_runner)

    async def translate_request(
        self, sent: bodies.RequestBody, read: Callable[[Json], T], target: RequestTarget
    ) -> tuple[TranslatedRequest[T], bytes]:
        """Return what `read` makes of the request, and the chat that it becomes, with the model's defaults in it.

        A large body is decoded without its long strings, and if the rest is still large, in another process."""
        if sent.decoded is not None:
            return write_decoded(read, target, dict(sent.decoded))
        slices, strings = self.deps.slice_runner, LongStrings(self.new_id())
        shortened = await sent.shorten_in_slices(slices, strings)
        work = partial(write_request, read, target)
        is_large = len(shortened) > IN_PLACE_BYTES_MAX
        request, written = await self.deps.compute.run(work, shortened) if is_large else work(shortened)
        return request, await slices.run(strings.put_back(written))

    async def resolve_model(self, name: object) -> ServedModel:
        """Return the named model, if it serves this call."""
        model = await self.resolve_any_model(name)
        if model.serves and not {self.name, EQUIVALENT_CALLS.get(self.name, self.name)} & set(model.serves):
            raise InvalidRequest(
                f"Model {model.name} does not support {self.name}; it is for {', '.join(model.serves)}.",
                code="model_serves_other",
            )
        return model

    async def resolve_engine_model(self, name: object) -> ServedModel:
        """Return the named model, for a call that agents do not answer. Raises `InvalidRequest` if an agent has the
        name."""
        try:
            return await self.resolve_model(name)
        except ModelNotFound as error:
            raise await self.deps.turn_calls.make_refusal(self.principal, str(name), self.name, error) from error

    async def resolve_any_model(self, name: object) -> ServedModel:
        """Return the named model, if this caller may use it at all."""
        if not isinstance(name, str) or not name:
            raise InvalidRequest(
                "model: the name of a model is required.", hint="GET /v1/models lists them.", code="model_missing"
            )
        return await self.deps.gateway.router.resolve(name, make_model_filter(self.principal))

    def list_models(self) -> list[ServedModel]:
        """Return the models that this caller may use."""
        models = self.deps.gateway.router.snapshot.list_models()
        return [one for one in models if one.is_enabled and can_use_model(self.principal, one.name, one.names)]

    async def load_model(self, model: ServedModel) -> None:
        """Wait until the model has a replica, as a request for it would. Counted against the caller's limits."""
        gateway = self.deps.gateway
        gateway.limiter.admit(self.principal, model.name)
        if gateway.router.snapshot.list_open_replicas(model):
            return
        wait_s = gateway.compute_wait_s(self.build_request(model, "chat", b""))
        until = gateway.clock.monotonic() + wait_s if wait_s else None
        await gateway.router.load_waiter.wait_for_load(model, until=until, budget_s=wait_s)

    def check_engine_support(self, model: ServedModel, call: str) -> bool | None:
        """Return whether the model's engine supports this call itself; None if the engine is unknown."""
        if model.engine_members and call == "messages":
            # llama.cpp forgets the number of the adapter when it translates this call.
            return False
        serves = list_served_calls(self.deps, model.backend)
        return call in serves if serves else None

    def require_engine_support(self, model: ServedModel, call: str) -> None:
        """Refuse a call that the engine is known not to support."""
        if self.check_engine_support(model, call) is False:
            raise InvalidRequest(
                f"The engine {model.backend} of model {model.name} does not support {call}.",
                hint="`corral backends list` shows which calls each engine supports.",
                code="engine_lacks_call",
            )

    def build_request(self, model: ServedModel, call: str, body: bytes, **more: Any) -> InferenceRequest:
        headers = self.request.headers
        if model.engine_members and call in ADAPTER_CALLS and body:
            body = choose_adapter(self.deps, model, body)
        return InferenceRequest(
            model=model,
            call=self.name,
            path=PATHS[call],
            body=body,
            principal=self.principal,
            request_id=self.request_id,
            wait_s=parse_preferred_wait_s(headers.get("prefer", "")),
            traceparent=sanitise_traceparent(headers.get("traceparent", "")),
            **more,
        )

    def build_native_request(self, model: ServedModel, sent: bodies.RequestBody) -> InferenceRequest:
        """Build the request unchanged, for an engine that supports the call: only the model's name and defaults are
        inserted."""
        refuse_tools(model, sent.peek(TOOL_NAMES))
        headers = self.request.headers
        forwarded = tuple((name.encode(), headers[name].encode("latin-1")) for name in _FORWARDED if name in headers)
        body = render_native_body(sent, model, self.name)
        return self.build_request(model, self.name, body, received_bytes=len(sent.raw), headers=forwarded)

    def note_ignored(self, ignored: tuple[str, ...]) -> None:
        """Name the ignored fields of the request in a response header."""
        if ignored:
            # The names come from the caller, so characters that could end a header are replaced.
            written = re.sub(r"[^!-~]", "?", ",".join(ignored)).replace(",", ", ")
            self.extra_headers.append((_IGNORED, written.encode("ascii")))

    async def send_json(self, value: object) -> None:
        await self.reply_written(json.dumps(value, ensure_ascii=False).encode())

    async def reply_written(self, body: bytes) -> None:
        """Reply as `reply` does, with a body that is JSON already."""
        await self.send_whole(200, body, [])

    async def send_error(self, error: CorralError) -> None:
        if not self.is_counted:
            error = self.deps.gateway.charge_refused(error, self._principal)
            self.deps.gateway.record_rejection(
                error, call=self.name, request_id=self.request_id, principal=self._principal
            )
        body = self.envelope.render_error(self.request.scope["path"], error, self.request_id)
        await self.send_whole(error.status, body, render_error_headers(error))

    async def send_whole(self, status: int, body: bytes, headers: Headers) -> None:
        """Send a JSON response in one piece."""
        plain = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.send_start(status, [*plain, *headers])
        await self.send({"type": "http.response.body", "body": body})

    async def send_start(self, status: int, headers: Headers) -> None:
        lines = [*headers, *self.envelope.render_headers(self.request_id), *self.extra_headers]
        await self.send({"type": "http.response.start", "status": status, "headers": lines})


def render_native_body(sent: bodies.RequestBody, model: ServedModel, call: str) -> bytes:
    """Render a request as its engine gets it: the model's name and defaults inserted, and otherwise unchanged."""
    names = _DEFAULT_NAMES.get(call)
    defaults = {
        names.get(name, name) if names else name: value
        for name, value in model.defaults.items()
        if (name in names if names is not None else name != "system")
    }
    return sent.render_for_engine(model.name, defaults, call)
