"""Asking a model, as the command line does it: OpenAI's API, piece by piece."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp

from corral.client.errors import error_from_answer, unexpected_answer
from corral.client.http import Call, Transport
from corral.client.sse import Frame, FrameTooLarge, SseParser
from corral.domain.errors import CorralError, NotFound, Unavailable
from corral.wire.inference import ModelObject, ModelsOut

CONNECT_LIMIT_S = 10.0
_END = "[DONE]"
# More than a hint has room for is cut.
_NAMES_MAX = 10
_STREAM = "text/event-stream"
Models = list[ModelObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A bit of an answer. The last ones tell why it ended and what it took."""

    text: str = ""
    finish_reason: str = ""
    usage: Mapping[str, Any] | None = None
    # The node that answers.
    node: str = ""


class InferenceCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def models(self) -> Models:
        """What can be asked for."""
        return (await self._transport.fetch(Call(method="GET", path="/v1/models"), ModelsOut)).data

    async def model(self, name: str) -> ModelObject:
        try:
            return await self._transport.fetch(Call(method="GET", path=f"/v1/models/{quote(name)}"), ModelObject)
        except NotFound as error:
            raise await self._in_words(error) from error

    async def _in_words(self, error: CorralError) -> CorralError:
        """Say the hint once, and the models themselves instead of the request that lists them."""
        error = _without_hint(error)
        if error.hint and error.hint.startswith("GET /v1/models"):
            names = [model.id for model in await self.models()]
            error.hint = f"There are: {', '.join(names[:_NAMES_MAX])}." if names else "There is none to ask yet."
        return error

    async def chat(
        self,
        model: str,
        messages: Sequence[Mapping[str, str]],
        *,
        wait_s: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Piece, None]:
        """The answer as it comes. `wait_s`: how long to wait for a model that is not loaded; after that it is
        `Unavailable` with the code `model_loading`, and its details tell how far the load is."""
        body = {"model": model, "messages": list(messages), "stream": True, "stream_options": {"include_usage": True}}
        headers = self._transport.headers() | {"Accept": f"{_STREAM}, application/json"}
        if wait_s is not None:
            headers["Prefer"] = f"wait={wait_s}"
        try:
            async with self._transport.session.post(
                f"{self._transport.url}/v1/chat/completions",
                json=body | dict(options or {}),
                headers=headers,
                # An answer takes as long as it takes; whoever has had enough leaves.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT_S),
                allow_redirects=False,
            ) as response:
                if response.status != 200:
                    raise await self._in_words(
                        error_from_answer(response.status, await response.read(), origin=self._transport.url)
                    )
                if response.content_type != _STREAM:
                    raise unexpected_answer(self._transport.url, "no stream")
                node = response.headers.get("X-Corral-Node", "")
                parser = SseParser()
                async for chunk in response.content.iter_any():
                    for frame in parser.feed(chunk):
                        piece = _piece(frame, node, self._transport.url)
                        if piece is None:
                            return
                        yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._transport.unreachable(error) from error
        except FrameTooLarge as error:
            raise unexpected_answer(self._transport.url, "an endless line") from error


def _piece(frame: Frame, node: str, origin: str) -> Piece | None:
    """What a frame says; None at the end."""
    if frame.data == _END:
        return None
    try:
        value = json.loads(frame.data)
        if "error" in value:
            raise _broken(value["error"])
        choice = (value.get("choices") or [{}])[0]
        text = (choice.get("delta") or {}).get("content") or ""
        return Piece(text=text, finish_reason=choice.get("finish_reason") or "", usage=value.get("usage"), node=node)
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        raise unexpected_answer(origin, "a piece that cannot be read") from error


def _broken(said: Mapping[str, Any]) -> CorralError:
    return Unavailable(str(said.get("message") or "The answer broke off."), code=str(said.get("code") or "engine_lost"))


def _without_hint(error: CorralError) -> CorralError:
    """On these routes the hint is a part of the message, for programs that show nothing else."""
    if error.hint and error.message.endswith(error.hint):
        error.message = error.message.removesuffix(error.hint).rstrip()
        error.args = (error.message,)
    return error
