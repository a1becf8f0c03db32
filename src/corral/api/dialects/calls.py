"""One request in any dialect: who asks, which model is meant, what its engine speaks, and the wish that comes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.types import Send

from corral.access.allowed import may_ask
from corral.api.dialects.envelopes import Envelope, Headers
from corral.api.dialects.reading import Json
from corral.api.models.bodies import serves_of
from corral.api.openai import body as bodies
from corral.api.openai import errors
from corral.api.openai.asked import preferred_wait_s, shown_to, trace_context
from corral.api.openai.receive import receive_body
from corral.api.openai.tools import TOOL_NAMES, refuse_tools
from corral.api.parts import Parts, who
from corral.domain.access import Principal
from corral.domain.errors import CorralError, InvalidRequest
from corral.policy.serving.long_strings import LongStrings
from corral.serving.gateway import Wish
from corral.store.use import Served

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
# Whoever may be asked for the one may be asked for the other: it is the same in other words.
SAME_AS = {"messages": "chat", "count_tokens": "chat", "responses": "chat", "translations": "transcriptions"}
_IGNORED = b"x-corral-ignored"
# Lines that change what a call means.
_FORWARDED = ("anthropic-version", "anthropic-beta")
# Which defaults of a model mean something to a call, and what they are called there. Other calls take all but `system`.
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
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
class Call:
    """A request on its way to an answer."""

    request: Request
    parts: Parts
    send: Send
    envelope: Envelope
    # What is asked: messages, responses, …
    name: str
    request_id: str
    # Set as soon as an exchange counts this request; until then whoever refuses it does.
    is_counted: bool = False
    # Set when the engine was asked, and is asked again in other words; the limits count it once.
    is_again: bool = False
    # More lines for the head of the answer.
    notes: Headers = field(default_factory=list)
    # What was taken out of the body when it was decoded; `chat_body` puts it back.
    _strings: LongStrings | None = None
    _principal: Principal | None = None

    async def enter(self) -> None:
        """Find out who asks; before anything else."""
        self._principal = await who(self.request, self.parts)

    @property
    def principal(self) -> Principal:
        assert self._principal is not None, "nobody has entered"
        return self._principal

    def new_id(self) -> str:
        """For what an answer names."""
        return self.parts.ids.new_id().replace("-", "")

    async def read_body(self) -> bodies.Body:
        """The members of the body. `InvalidRequest` if it is no JSON object or not within the limits."""
        request, parts, principal = self.request, self.parts, self.principal
        raw = await receive_body(request.scope, request.receive, parts.gateway.body_budget, principal.key_id)
        if len(raw) > bodies.IN_PLACE_BYTES_MAX:
            # Whoever has no requests left is told so before anything is done about it.
            parts.gateway.limiter.check_requests(principal)
        return await bodies.read_in_slices(raw, parts.slices)

    async def decode(self, sent: bodies.Body) -> Json:
        """All members of the body, for a translation. Marks stand for long strings until `chat_body`."""
        self._strings = LongStrings(self.new_id())
        return await sent.decode_in_slices(self.parts.slices, self._strings)

    def chat_body(self, model: Served, chat: Json, call: str) -> bytes:
        """What is sent to an engine in place of a request in another dialect, with the model's defaults in it."""
        written = json.dumps({"model": model.name} | chat, ensure_ascii=False).encode()
        if model.defaults:
            written = bodies.read(written).for_engine(model.name, model.defaults, call)
        return self._strings.put_back(written) if self._strings is not None else written

    async def model(self, name: object) -> Served:
        """The model that is meant, if it is for this."""
        model = await self.found(name)
        if model.serves and not {self.name, SAME_AS.get(self.name, self.name)} & set(model.serves):
            raise InvalidRequest(
                f"Model {model.name} does not answer {self.name}; it is for {', '.join(model.serves)}.",
                code="model_serves_other",
            )
        return model

    async def found(self, name: object) -> Served:
        """The model that is meant, if this caller may ask it at all."""
        if not isinstance(name, str) or not name:
            raise InvalidRequest(
                "model: the name of a model is needed.", hint="GET /v1/models lists them.", code="model_missing"
            )
        return await self.parts.gateway.router.resolve(name, shown_to(self.principal))

    def listed(self) -> list[Served]:
        """The models that this caller may ask for."""
        models = self.parts.gateway.router.snapshot.list_models()
        return [one for one in models if one.is_enabled and may_ask(self.principal, one.name, one.names)]

    async def load(self, model: Served) -> None:
        """Wait until the model has a replica, as a request for it would. Counted against the caller's limits."""
        gateway = self.parts.gateway
        gateway.limiter.admit(self.principal, model.name)
        if gateway.router.snapshot.open_replicas(model):
            return
        wait_s = gateway.allowed_wait_s(self.wish(model, "chat", b""))
        until = gateway.clock.monotonic() + wait_s if wait_s else None
        await gateway.router.waiters.wait(model, until=until, budget_s=wait_s)

    def speaks(self, model: Served, call: str) -> bool | None:
        """Whether the model's engine answers this call itself. None: nobody knows the engine."""
        serves = serves_of(self.parts, model.backend)
        return call in serves if serves else None

    def require(self, model: Served, call: str) -> None:
        """Refuse what the engine is known not to answer."""
        if self.speaks(model, call) is False:
            raise InvalidRequest(
                f"The engine {model.backend} of model {model.name} does not answer {call}.",
                hint="`corral backends list` shows which engine answers what.",
                code="engine_lacks_call",
            )

    def wish(self, model: Served, call: str, body: bytes, **more: Any) -> Wish:
        headers = self.request.headers
        return Wish(
            model=model,
            call=self.name,
            path=PATHS[call],
            body=body,
            principal=self.principal,
            request_id=self.request_id,
            wait_s=preferred_wait_s(headers.get("prefer", "")),
            traceparent=trace_context(headers.get("traceparent", "")),
            **more,
        )

    def native_wish(self, model: Served, sent: bodies.Body) -> Wish:
        """The request as it came, for an engine that speaks it: with the model's name and defaults in it."""
        refuse_tools(model, sent.peek(TOOL_NAMES))
        headers = self.request.headers
        told = tuple((name.encode(), headers[name].encode("latin-1")) for name in _FORWARDED if name in headers)
        body = native_body(sent, model, self.name)
        return self.wish(model, self.name, body, received_bytes=len(sent.raw), headers=told)

    def note_ignored(self, ignored: tuple[str, ...]) -> None:
        """Name in the head of the answer what of the request was left out."""
        if ignored:
            # Words of the caller: what could end a line of the head is replaced.
            written = re.sub(r"[^!-~]", "?", ",".join(ignored)).replace(",", ", ")
            self.notes.append((_IGNORED, written.encode("ascii")))

    async def reply(self, value: object, headers: Headers | None = None) -> None:
        await self.send_whole(200, json.dumps(value, ensure_ascii=False).encode(), headers or [])

    async def fail(self, error: CorralError) -> None:
        if not self.is_counted:
            error = self.parts.gateway.charge_refused(error, self._principal)
            self.parts.gateway.turned_away(error, call=self.name, request_id=self.request_id, principal=self._principal)
        body = self.envelope.rendered(self.request.scope["path"], error, self.request_id)
        await self.send_whole(error.status, body, errors.headers(error))

    async def send_whole(self, status: int, body: bytes, headers: Headers) -> None:
        """A JSON answer in one piece."""
        plain = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.send_start(status, [*plain, *headers])
        await self.send({"type": "http.response.body", "body": body})

    async def send_start(self, status: int, headers: Headers) -> None:
        lines = [*headers, *self.envelope.head(self.request_id), *self.notes]
        await self.send({"type": "http.response.start", "status": status, "headers": lines})


def native_body(sent: bodies.Body, model: Served, call: str) -> bytes:
    """A request as its engine gets it: the model's name and defaults in it, and otherwise as it came."""
    names = _DEFAULTS.get(call)
    defaults = {
        names.get(name, name) if names else name: value
        for name, value in model.defaults.items()
        if (name in names if names is not None else name != "system")
    }
    return sent.for_engine(model.name, defaults, call)
