"""The routes as plain ASGI: read, passed on or translated, answered.

Guarantee: a client that goes away is noticed at once, while it waits as well as while it reads, and its call to the
engine ends with it. A stream goes out as it comes in, event by event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from corral.api.dialects import anthropic, responses
from corral.api.dialects.answering import pass_on, translate
from corral.api.dialects.calls import PATHS, Call
from corral.api.dialects.chats import Translation
from corral.api.dialects.envelopes import ANTHROPIC, OPENAI, Envelope
from corral.api.dialects.reading import Json
from corral.api.errors import TOO_LARGE_HINT
from corral.api.openai.leaving import while_there
from corral.api.openai.receive import ClientLeft
from corral.api.parts import Parts
from corral.domain.errors import CorralError, TooLarge
from corral.serving.errors import ModelNotFound
from corral.store.use import Served

# An engine says so where it does not have a path, or only an older version of it runs.
_NOT_THERE = frozenset({404, 405, 501})


class CallRoute(ABC):
    """One path: authorised, answered, and every error in the caller's envelope."""

    # What happens where the engine does not speak it; for the page about calls.
    otherwise: ClassVar[str]
    needs_key: ClassVar[bool] = True

    def __init__(self, path: str, call: str, envelope: Envelope) -> None:
        # What the metrics call it.
        self.path = path
        self.call = call
        self.envelope = envelope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request, parts = Request(scope, receive), scope["app"].state.parts
        assert isinstance(parts, Parts)
        call = Call(
            request=request,
            parts=parts,
            send=send,
            envelope=self.envelope,
            name=self.call,
            request_id=scope["state"]["request_id"],
        )
        try:
            if self.needs_key:
                await call.enter()
            await self.answer(call)
        except ClientLeft:
            return
        except CorralError as error:
            await call.fail(error)
        except HTTPException as error:
            if error.status_code != TooLarge.status:
                raise
            # A body that did not say how long it is.
            await call.fail(TooLarge(error.detail, hint=TOO_LARGE_HINT))

    @abstractmethod
    async def answer(self, call: Call) -> None: ...


class Passed(CallRoute):
    """A call that is passed on to an engine that speaks it, or refused."""

    otherwise = "400 `engine_lacks_call`"

    async def answer(self, call: Call) -> None:
        sent = await call.read_body()
        model = await call.model(sent.model)
        call.require(model, self.call)
        wish = call.native_wish(model, sent)

        async def work() -> None:
            await pass_on(call, wish)

        await while_there(call.request.receive, work)


class Told(CallRoute):
    """What is answered from memory."""

    otherwise = "answered from memory"

    def __init__(self, path: str, call: str, envelope: Envelope, tell: Callable[[Call], Json]) -> None:
        super().__init__(path, call, envelope)
        self._tell = tell

    async def answer(self, call: Call) -> None:
        await call.reply(self._tell(call))


Reader = Callable[[Call, Json, Served], Translation]


class Translated(CallRoute):
    """A call that is passed on if the engine speaks it, and said in other words otherwise."""

    otherwise = "translated to a chat; what no chat can say is 400 `not_expressible`"

    def __init__(self, path: str, call: str, envelope: Envelope, read: Reader) -> None:
        super().__init__(path, call, envelope)
        self._read = read

    async def answer(self, call: Call) -> None:
        sent = await call.read_body()
        model = await call.model(sent.model)
        native = call.native_wish(model, sent) if call.speaks(model, self.call) else None

        async def work() -> None:
            if native is not None and await pass_on(call, native, gives_up_on=_NOT_THERE):
                return
            asked = self._read(call, await call.decode(sent), model)
            await translate(call, model, asked, received_bytes=len(sent.raw))

        await while_there(call.request.receive, work)


def _read_message(call: Call, body: Json, model: Served) -> Translation:
    return anthropic.read(body, model=model.name, answer_id=call.new_id())


def _read_response(call: Call, body: Json, model: Served) -> Translation:
    created_at = int(call.parts.clock.wall().timestamp())
    return responses.read(body, model=model.name, answer_id=call.new_id(), created_at=created_at)


def _models(call: Call) -> Json:
    return anthropic.model_list([anthropic.model_object(model.name, model.created_at) for model in call.listed()])


def _model(call: Call) -> Json:
    name = call.request.path_params["model"]
    found = call.parts.gateway.router.snapshot.find(name)
    if found is not None and found in call.listed():
        return anthropic.model_object(found.name, found.created_at)
    raise ModelNotFound(f"There is no model named {name[:255]!r}.", hint="GET /v1/models lists them.")


class ForAnthropic(Route):
    """Anthropic's clients ask for models at the same path as OpenAI's, but say who they are."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        says_so = scope["type"] == "http" and any(name == b"anthropic-version" for name, _ in scope["headers"])
        return super().matches(scope) if says_so else (Match.NONE, {})


def post(made: CallRoute) -> Route:
    return Route(made.path, made, methods=["POST"])


V1_ROUTES = [
    post(Translated(PATHS["responses"], "responses", OPENAI, _read_response)),
    *(post(Passed(PATHS[call], call, OPENAI)) for call in ("rerank", "speech", "images")),
    post(Translated(PATHS["messages"], "messages", ANTHROPIC, _read_message)),
    post(Passed(PATHS["count_tokens"], "count_tokens", ANTHROPIC)),
    ForAnthropic("/v1/models", Told("/v1/models", "models", ANTHROPIC, _models), methods=["GET"]),
    ForAnthropic("/v1/models/{model:path}", Told("/v1/models/{model}", "models", ANTHROPIC, _model), methods=["GET"]),
]
