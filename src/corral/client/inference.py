"""Chat requests for the command line, over the OpenAI-compatible API, as a stream of pieces."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp

from corral.client.events import FrameTooLarge, SseFrame, SseParser
from corral.client.transport import ApiRequest, ApiTransport, make_error_from_response, make_unexpected_response_error
from corral.domain.errors import CorralError, NotFound, Unavailable
from corral.wire.inference import OpenAiModelListOut, OpenAiModelOut

CONNECT_LIMIT_S = 10.0
_END = "[DONE]"
# Maximum number of model names in a hint.
_NAMES_MAX = 10
_STREAM = "text/event-stream"
Models = list[OpenAiModelOut]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPiece:
    """One piece of a streamed chat response as the client yields it.

    The last pieces carry the finish reason and the usage.
    """

    text: str = ""
    finish_reason: str = ""
    usage: Mapping[str, Any] | None = None
    # The node whose replica responds.
    node: str = ""


class InferenceCalls:
    """Client-side calls that send chat requests to models through the OpenAI-compatible API."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list_models(self) -> Models:
        """List the models that can be called."""
        return (await self._transport.fetch(ApiRequest(method="GET", path="/v1/models"), OpenAiModelListOut)).data

    async def get_model(self, name: str) -> OpenAiModelOut:
        try:
            return await self._transport.fetch(
                ApiRequest(method="GET", path=f"/v1/models/{quote(name)}"), OpenAiModelOut
            )
        except NotFound as error:
            raise await self._with_model_names(error) from error

    async def _with_model_names(self, error: CorralError) -> CorralError:
        """Return the error with its hint given once, and with the names of the models instead of the request that lists
        them."""
        error = _strip_hint(error)
        if error.hint and error.hint.startswith("GET /v1/models"):
            names = [model.id for model in await self.list_models()]
            error.hint = f"There are: {', '.join(names[:_NAMES_MAX])}." if names else "There are no models yet."
        return error

    async def chat(
        self,
        model: str,
        messages: Sequence[Mapping[str, str]],
        *,
        wait_s: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[ChatPiece, None]:
        """Yield the response as it arrives. `wait_s`: how long to wait for a model that is not loaded. After that
        `Unavailable` is raised with the code `model_loading`, and its details hold the progress of the load."""
        body = {"model": model, "messages": list(messages), "stream": True, "stream_options": {"include_usage": True}}
        headers = self._transport.make_headers() | {"Accept": f"{_STREAM}, application/json"}
        if wait_s is not None:
            headers["Prefer"] = f"wait={wait_s}"
        try:
            async with self._transport.session.post(
                f"{self._transport.url}/v1/chat/completions",
                json=body | dict(options or {}),
                headers=headers,
                # No limit: a response may take any time, and a caller that no longer needs it closes the stream.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT_S),
                allow_redirects=False,
            ) as response:
                if response.status != 200:
                    raise await self._with_model_names(
                        make_error_from_response(response.status, await response.read(), origin=self._transport.url)
                    )
                if response.content_type != _STREAM:
                    raise make_unexpected_response_error(self._transport.url, "no stream")
                node = response.headers.get("X-Corral-Node", "")
                parser = SseParser()
                async for chunk in response.content.iter_any():
                    for frame in parser.feed(chunk):
                        piece = _parse_piece(frame, node, self._transport.url)
                        if piece is None:
                            return
                        yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._transport.make_unreachable_error(error) from error
        except FrameTooLarge as error:
            raise make_unexpected_response_error(self._transport.url, "an endless line") from error


def _parse_piece(frame: SseFrame, node: str, origin: str) -> ChatPiece | None:
    """Return the piece in a frame, or None at the end of the stream."""
    if frame.data == _END:
        return None
    try:
        value = json.loads(frame.data)
        if "error" in value:
            raise _make_interrupted_error(value["error"])
        choice = (value.get("choices") or [{}])[0]
        text = (choice.get("delta") or {}).get("content") or ""
        return ChatPiece(
            text=text, finish_reason=choice.get("finish_reason") or "", usage=value.get("usage"), node=node
        )
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        raise make_unexpected_response_error(origin, "a piece that cannot be read") from error


def _make_interrupted_error(error_body: Mapping[str, Any]) -> CorralError:
    return Unavailable(
        str(error_body.get("message") or "The response broke off."), code=str(error_body.get("code") or "engine_lost")
    )


def _strip_hint(error: CorralError) -> CorralError:
    """Remove the hint from the message. Inference routes put it there for programs that show nothing but the
    message."""
    if error.hint and error.message.endswith(error.hint):
        error.message = error.message.removesuffix(error.hint).rstrip()
        error.args = (error.message,)
    return error
