"""The routes of `/v1` as plain ASGI: who asks, for which model, and the answer passed on as it comes.

Most calls never get here: `gateway/protocol.py` answers them on the connection itself. What comes here is what it
leaves to the server: bodies in chunks, `Expect`, requests behind others on one connection.

Guarantee: an answer's status, type and bytes are the engine's own. A client that goes away is noticed at once, while it
waits as well as while it reads, and its call to the engine ends with it. Everything that goes wrong before the first
byte is told in OpenAI's shape.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from corral.access.allowed import may_ask
from corral.api.openai import errors
from corral.api.openai.asked import CALLS, Asked, preferred_wait_s, shown_to, trace_context, wish_later, wish_now
from corral.api.openai.leaving import while_there
from corral.api.openai.logprobs import LogprobsWriter, asks_logprobs
from corral.api.openai.receive import ClientLeft, receive_body
from corral.api.parts import Parts, who
from corral.domain.access import Principal
from corral.domain.errors import CorralError, TooLarge
from corral.serving.asking import Answer, AnswerCut, asking
from corral.serving.gateway import Wish
from corral.store.use import Served

OWNER = "corral"


class Calls:
    """A call that a model answers."""

    def __init__(self, path: str, call: str) -> None:
        # What the metrics call it.
        self.path = path
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        parts, request_id = scope["app"].state.parts, scope["state"]["request_id"]
        assert isinstance(parts, Parts)
        try:
            asked = Asked(
                path=self.path,
                call=self._call,
                # Before the body is read: nobody may fill our memory whom we do not know.
                principal=await who(request, parts),
                wait_s=preferred_wait_s(request.headers.get("prefer", "")),
                traceparent=trace_context(request.headers.get("traceparent", "")),
            )
            body = await _body(scope, receive, parts, asked)
            wish = wish_now(parts, asked, body, request_id) or await wish_later(parts, asked, body, request_id)
        except ClientLeft:
            return
        except CorralError as error:
            parts.gateway.turned_away(error, call=self._call, request_id=request_id)
            await errors.answer(send, scope["path"], error, request_id)
            return
        try:
            await while_there(request.receive, lambda: _pass_on(parts, wish, send))
        except CorralError as error:
            await errors.answer(send, scope["path"], error, request_id)


async def _body(scope: Scope, receive: Receive, parts: Parts, asked: Asked) -> bytes:
    principal = asked.principal
    assert principal is not None
    try:
        return await receive_body(scope, receive, parts.gateway.body_budget, principal.key_id)
    except TooLarge as error:
        raise parts.gateway.charge_refused(error, principal) from error


async def _pass_on(parts: Parts, wish: Wish, send: Send) -> None:
    writer = LogprobsWriter() if asks_logprobs(wish) else None
    async with asking(parts.gateway, wish) as answer:
        if writer is not None and answer.size_bytes is not None:
            await _send_bytes(send, answer, writer.rewrite(await answer.read()))
            return
        await send({"type": "http.response.start", "status": answer.status, "headers": _head(answer)})
        try:
            async for piece in answer.pieces():
                if writer is not None:
                    piece = writer.rewrite_events(piece)  # noqa: PLW2901 - the same piece in another form
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except AnswerCut as error:
            if answer.content_type.startswith(errors.STREAM):
                await send({"type": "http.response.body", "body": errors.event(error)})
            # Else: ending without an end is how the client hears of it.
            return
    await send({"type": "http.response.body", "body": b""})


async def _send_bytes(send: Send, answer: Answer, body: bytes) -> None:
    """Send an answer that was read to its end, with another body."""
    headers = [*answer.headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _head(answer: Answer) -> list[tuple[bytes, bytes]]:
    if answer.size_bytes is None:
        return [*answer.headers]
    return [*answer.headers, (b"content-length", b"%d" % answer.size_bytes)]


class _Route(ABC):
    """A path of `/v1` that is answered from memory: authorised, and every error in OpenAI's shape."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        parts = scope["app"].state.parts
        assert isinstance(parts, Parts)
        try:
            principal = await who(request, parts)
            await _send_json(send, self.answer(request, parts, principal))
        except CorralError as error:
            await errors.answer(send, scope["path"], error, scope["state"].get("request_id"))

    @abstractmethod
    def answer(self, request: Request, parts: Parts, principal: Principal) -> dict[str, object]: ...


class ListModels(_Route):
    def answer(self, request: Request, parts: Parts, principal: Principal) -> dict[str, object]:
        del request
        models = parts.gateway.router.snapshot.list_models()
        return {"object": "list", "data": [model_object(model) for model in models if _is_shown(model, principal)]}


class ShowModel(_Route):
    def answer(self, request: Request, parts: Parts, principal: Principal) -> dict[str, object]:
        name, router = request.path_params["model"], parts.gateway.router
        model = router.snapshot.find(name)
        if model is None or not _is_shown(model, principal):
            raise router.not_found(name, shown_to(principal))
        return model_object(model)


def model_object(model: Served) -> dict[str, object]:
    return {"id": model.name, "object": "model", "created": int(model.created_at.timestamp()), "owned_by": OWNER}


def _is_shown(model: Served, principal: Principal) -> bool:
    return model.is_enabled and may_ask(principal, model.name, model.names)


async def _send_json(send: Send, value: object) -> None:
    body = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


ROUTES = [
    *(Route(path, Calls(path, call), methods=["POST"]) for path, call in CALLS.items()),
    Route("/v1/models", ListModels("/v1/models"), methods=["GET"]),
    Route("/v1/models/{model:path}", ShowModel("/v1/models/{model}"), methods=["GET"]),
]
