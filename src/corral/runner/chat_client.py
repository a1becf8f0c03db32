"""Calls a model over `/v1/chat/completions` of the frontends, streaming, in the name of a run's owner.

A connection that fails before a response begins goes to the next address; after all have failed, the round is repeated
a few times. A refusal that names a time to wait (429 or 503 with Retry-After) is waited for, unless the run has no time
left for it. Every other refusal is a `ModelCallError` with the code and the sentence of the frontend. An answer is
bounded. Redirects are not followed: the key belongs to the frontends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import structlog
from pydantic_core import from_json

from corral.domain.errors import CorralError
from corral.ports.runtime import Clock
from corral.runner.line_splitter import LineSplitter

log = structlog.get_logger(__name__)

# One event of a stream, and all text and arguments of one answer.
EVENT_BYTES_MAX = 1024 * 1024
ANSWER_CHARACTERS_MAX = 4 * 1024 * 1024
ERROR_BODY_BYTES_MAX = 64 * 1024
ERROR_CHARACTERS_MAX = 2000
_RETRIED_STATUSES = frozenset({429, 503})
_TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)


class ModelCallError(CorralError):
    """A model call of the run has failed.

    The code is the frontend's own where it gave one.
    """

    code = "model_call_failed"

    def __init__(self, message: str, *, code: str, status: int | None = None) -> None:
        super().__init__(message, code=code)
        # The status of the response; None if there was none.
        self.response_status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Tunables of the runner's chat client: how long a model call tries to reach a frontend."""

    connect_s: float = 10.0
    # Rounds over all addresses, and the pause after the first one; each further pause is twice as long.
    rounds: int = 3
    round_pause_s: float = 0.5
    # The shortest pause before a refused request is sent again, whatever Retry-After says.
    retry_pause_min_s: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEndpoint:
    """Address at which a run reaches its model, and the key for it."""

    base_urls: Sequence[str]
    model: str
    ticket: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """One streamed piece of a tool call that a model makes in its native form."""

    index: int
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDelta:
    """Content of one event of the stream in which a model answers a run's chat request."""

    content: str = ""
    reasoning: str = ""
    calls: Sequence[CallDelta] = ()
    # (prompt tokens, completion tokens), in the last event.
    usage: tuple[int, int] | None = None
    # The model has finished; only usage may follow.
    is_last: bool = False
    # The answer ended at the limit of its tokens.
    is_cut: bool = False


class ChatClient:
    """Sends the chat requests of one run from the runner process to its model.

    `find_time_left` returns the seconds that the run has left.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: ChatEndpoint,
        clock: Clock,
        find_time_left: Callable[[], float],
        options: ChatOptions | None = None,
    ) -> None:
        self._session = session
        self._endpoint = endpoint
        self._clock = clock
        self._find_time_left = find_time_left
        self._options = options or ChatOptions()
        # The address that answered last comes first.
        self._preferred = 0

    async def stream(self, body: Mapping[str, Any]) -> AsyncGenerator[ChatDelta, None]:
        """Yield the answer to a request, piece by piece. Raises `ModelCallError`."""
        request = {**body, "model": self._endpoint.model, "stream": True, "stream_options": {"include_usage": True}}
        response = await self._send(request)
        try:
            async for delta in _read_response(response):
                yield delta
        except _TRANSPORT_ERRORS as error:
            sentence = f"The answer of model {self._endpoint.model} broke off: {type(error).__name__}."
            raise ModelCallError(sentence, code="model_stream_broken") from None
        finally:
            # Not given back to the pool: what is left of a response that was not read to its end stays unread.
            response.close()

    async def _send(self, request: Mapping[str, Any]) -> aiohttp.ClientResponse:
        pause_s = self._options.retry_pause_min_s
        while True:
            response = await self._connect(request)
            if response.status == 200:
                return response
            try:
                error = await _read_error(response)
            finally:
                response.close()
            wait_s = self._find_retry_after(response)
            if wait_s is None or wait_s >= self._find_time_left():
                raise error
            await self._clock.sleep(max(wait_s, pause_s))
            # Only matters for "Retry-After: 0", which must not become a busy loop.
            pause_s = min(pause_s * 2, 5.0)

    async def _connect(self, request: Mapping[str, Any]) -> aiohttp.ClientResponse:
        """Return the first response that any address gives."""
        urls, failure = self._endpoint.base_urls, "there is no address"
        for number in range(self._options.rounds):
            if number:
                await self._clock.sleep(self._options.round_pause_s * 2 ** (number - 1))
            for offset in range(len(urls)):
                index = (self._preferred + offset) % len(urls)
                try:
                    response = await self._post(urls[index], request)
                except _TRANSPORT_ERRORS as error:
                    failure = type(error).__name__
                    log.warning("frontend not reached", address=urls[index], error=failure)
                    continue
                self._preferred = index
                return response
        raise ModelCallError(f"No frontend could be reached: {failure}.", code="frontend_unreachable")

    async def _post(self, base_url: str, request: Mapping[str, Any]) -> aiohttp.ClientResponse:
        return await self._session.post(
            f"{base_url.rstrip('/')}/chat/completions",
            json=request,
            headers={"Authorization": f"Bearer {self._endpoint.ticket}"},
            allow_redirects=False,
            # No limit on reading: a model may think for long, and the run's own time bounds it.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._options.connect_s),
        )

    def _find_retry_after(self, response: aiohttp.ClientResponse) -> float | None:
        """Return the seconds to wait that a refusal names; None if it is final."""
        if response.status not in _RETRIED_STATUSES:
            return None
        return parse_retry_after(response.headers.get("Retry-After", ""), self._clock.wall())


def parse_retry_after(text: str, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header names; None if it names no time."""
    value = text.strip()
    if value.isdigit():
        return float(value[:9])
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds()) if value else None
    except (ValueError, TypeError):
        return None


async def _read_error(response: aiohttp.ClientResponse) -> ModelCallError:
    """Return the error in a refusal's body, in the form of OpenAI or of Corral."""
    try:
        body = await _read_body(response, ERROR_BODY_BYTES_MAX)
    except _TRANSPORT_ERRORS:
        body = b""
    try:
        fields = from_json(body)
    except ValueError:
        fields = None
    return make_error(fields, response.status)


async def _read_body(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """Return the beginning of a body, at most so many bytes and one chunk."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) >= limit_bytes:
            break
    return bytes(body)


def make_error(fields: object, status: int | None) -> ModelCallError:
    """Return the error that a body or an event of a stream describes."""
    error = fields.get("error") if isinstance(fields, Mapping) else None
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, Mapping):
        error = {}
    code = next(
        (str(error[key]) for key in ("code", "type") if error.get(key)), f"http_{status}" if status else "failed"
    )
    sentence = str(error.get("message") or f"The model call was refused with status {status}.")
    return ModelCallError(sentence[:ERROR_CHARACTERS_MAX], code=code[:100], status=status)


async def _read_response(response: aiohttp.ClientResponse) -> AsyncIterator[ChatDelta]:
    size, is_complete = 0, False
    async for fields in _read_events(response):
        if fields.get("error"):
            raise make_error(fields, None)
        delta = _read_delta(fields)
        size += len(delta.content) + len(delta.reasoning) + sum(len(call.arguments) for call in delta.calls)
        if size > ANSWER_CHARACTERS_MAX:
            raise ModelCallError(
                f"The model's answer has more than {ANSWER_CHARACTERS_MAX} characters.", code="answer_too_large"
            )
        is_complete = is_complete or delta.is_last
        yield delta
    if not is_complete:
        raise ModelCallError("The model's answer ended before it was complete.", code="model_stream_broken")


async def _read_events(response: aiohttp.ClientResponse) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the JSON objects of a stream of events; a response that is plain JSON is one."""
    if response.content_type == "application/json":
        yield _decode(await _read_body(response, ANSWER_CHARACTERS_MAX))
        return
    splitter = LineSplitter(EVENT_BYTES_MAX)
    async for chunk in response.content.iter_any():
        for line in splitter.feed(chunk):
            data = line.strip().removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
            if data == b"[DONE]":
                return
            if data:
                yield _decode(data)
        if splitter.too_long:
            sentence = f"The model sent an event of more than {EVENT_BYTES_MAX} bytes."
            raise ModelCallError(sentence, code="answer_too_large")


def _decode(data: bytes) -> Mapping[str, Any]:
    try:
        fields = from_json(data)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ModelCallError("The model's answer is not JSON.", code="answer_malformed")
    return fields


def _read_delta(fields: Mapping[str, Any]) -> ChatDelta:
    choices = fields.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    delta = choice.get("delta") or choice.get("message") or {}
    if not isinstance(delta, Mapping):
        delta = {}
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")
    content = delta.get("content")
    return ChatDelta(
        content=content if isinstance(content, str) else "",
        reasoning=reasoning if isinstance(reasoning, str) else "",
        calls=[_read_call(call, index) for index, call in enumerate(_list_calls(delta))],
        usage=_read_usage(fields.get("usage")),
        is_last=bool(choice.get("finish_reason")),
        is_cut=choice.get("finish_reason") == "length",
    )


def _list_calls(delta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = delta.get("tool_calls")
    return [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []


def _read_call(call: Mapping[str, Any], position: int) -> CallDelta:
    function = call.get("function")
    if not isinstance(function, Mapping):
        function = {}
    index, name, arguments = call.get("index"), function.get("name"), function.get("arguments")
    return CallDelta(
        index=index if isinstance(index, int) else position,
        name=name if isinstance(name, str) else "",
        arguments=arguments if isinstance(arguments, str) else "",
    )


def _read_usage(usage: object) -> tuple[int, int] | None:
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(completion, int):
        return None
    return max(0, prompt), max(0, completion)
