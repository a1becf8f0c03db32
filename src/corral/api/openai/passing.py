"""The routes of `/v1` as plain ASGI: who asks, for which model, and the answer passed on as it comes.

Guarantee: an answer's status, type and bytes are the engine's own. A client that goes away is noticed at once, while it
waits as well as while it reads, and its call to the engine ends with it. Everything that goes wrong before the first
byte is told in OpenAI's shape.
"""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from corral.api.openai import body as bodies
from corral.api.openai import errors
from corral.api.parts import Parts, bearer
from corral.domain.errors import CorralError, InvalidRequest
from corral.runtime.tasks import Tasks
from corral.serving.errors import ModelNotFound
from corral.serving.relay import STREAM, AnswerCut, Wish
from corral.serving.use import Held
from corral.store.use import Served

OWNER = "corral"
_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,6})\"?", re.ASCII | re.IGNORECASE)


class AsgiSink:
    """Where an answer goes: the client's connection."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def begin(self, status: int, content_type: str, held: Held, size_bytes: int | None) -> None:
        self.has_begun = True
        headers = [
            (b"content-type", content_type.encode("latin-1", "replace")),
            (b"x-corral-node", held.node_name.encode("ascii", "replace")),
        ]
        if size_bytes is not None:
            headers.append((b"content-length", str(size_bytes).encode()))
        if content_type.startswith(STREAM):
            # Nothing between here and the client may keep events back.
            headers += [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def piece(self, body: bytes, *, is_last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})


class _Route(ABC):
    """One path of `/v1`: authorised, answered, and every error in OpenAI's shape."""

    def __init__(self, path: str) -> None:
        # What the metrics call it.
        self.path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = Request(scope, receive)
        parts = scope["app"].state.parts
        assert isinstance(parts, Parts)
        try:
            await parts.directory.principal(bearer(request))
            await self.answer(request, parts, send)
        except CorralError as error:
            await errors.answer(send, scope["path"], error, scope["state"].get("request_id"))

    @abstractmethod
    async def answer(self, request: Request, parts: Parts, send: Send) -> None: ...


class Calls(_Route):
    """A call that a model answers."""

    def __init__(self, path: str, call: str) -> None:
        super().__init__(path)
        self._call = call

    async def answer(self, request: Request, parts: Parts, send: Send) -> None:
        sent = bodies.read(await request.body())
        model = await parts.relay.router.resolve(sent.model)
        if model.serves and self._call not in model.serves:
            raise InvalidRequest(
                f"Model {model.name} does not answer {self._call}; it is for {', '.join(model.serves)}.",
                code="model_serves_other",
            )
        wish = Wish(
            model=model,
            path=self.path,
            body=sent.for_engine(model.name, model.defaults, self._call),
            wait_s=_preferred_wait_s(request),
        )
        try:
            await _while_there(request.receive, lambda: parts.relay.pass_on(wish, AsgiSink(send)))
        except AnswerCut:
            return  # Ending without an end is how the client hears of it.


class ListModels(_Route):
    async def answer(self, request: Request, parts: Parts, send: Send) -> None:
        del request
        listed = [model_object(model) for model in parts.relay.router.snapshot.list_models() if model.is_enabled]
        await _send_json(send, {"object": "list", "data": listed})


class ShowModel(_Route):
    async def answer(self, request: Request, parts: Parts, send: Send) -> None:
        name = request.path_params["model"]
        model = parts.relay.router.snapshot.find(name)
        if model is None or not model.is_enabled:
            close = parts.relay.router.snapshot.close_names(name)
            hint = f"Was {' or '.join(close)} meant?" if close else "GET /v1/models lists them."
            raise ModelNotFound(f"There is no model named {name[:255]!r}.", hint=hint)
        await _send_json(send, model_object(model))


def model_object(model: Served) -> dict[str, object]:
    return {"id": model.name, "object": "model", "created": int(model.created_at.timestamp()), "owned_by": OWNER}


def _preferred_wait_s(request: Request) -> float | None:
    """`Prefer: wait=2` (RFC 7240): how long the client wants to wait for a model that has to be loaded."""
    found = _WAIT.search(request.headers.get("prefer", ""))
    return float(found[1]) if found else None


async def _send_json(send: Send, value: object) -> None:
    body = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _while_there(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Do it as long as the client is there."""
    has_left = False
    watching = Tasks("client")

    async def watch(scope: asyncio.Timeout) -> None:
        nonlocal has_left
        while (await receive())["type"] != "http.disconnect":
            continue
        has_left = True
        scope.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(None) as scope:
            watching.start(watch(scope), name="watch")
            await work()
    except TimeoutError:
        if not has_left:
            raise
    finally:
        await watching.close()


ROUTES = [
    Route("/v1/chat/completions", Calls("/v1/chat/completions", "chat"), methods=["POST"]),
    Route("/v1/completions", Calls("/v1/completions", "completions"), methods=["POST"]),
    Route("/v1/embeddings", Calls("/v1/embeddings", "embeddings"), methods=["POST"]),
    Route("/v1/models", ListModels("/v1/models"), methods=["GET"]),
    Route("/v1/models/{model:path}", ShowModel("/v1/models/{model}"), methods=["GET"]),
]
