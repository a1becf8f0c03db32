"""A model that answers by a script: a chat server on the loopback that streams what the test has put into it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """Describes one answer of the model, in the pieces in which it is streamed."""

    content: Sequence[str] = ()
    reasoning: Sequence[str] = ()
    # Name and arguments; text instead of a mapping is sent as it is.
    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    usage: tuple[int, int] | None = (10, 5)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    # Waits for it after the first piece.
    gate: asyncio.Event | None = None
    finish: str = "stop"
    # Ends without [DONE], as if the connection had broken.
    breaks_off: bool = False


Script = ModelReply | Callable[[dict[str, Any]], ModelReply]


def call(tool: str, /, **arguments: Any) -> ModelReply:
    return ModelReply(calls=[(tool, arguments)])


def say(*pieces: str, **fields: Any) -> ModelReply:
    return ModelReply(content=pieces, **fields)


def refuse(status: int, code: str, message: str = "refused", **headers: str) -> ModelReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ModelReply(status=status, error={"code": code, "message": message}, headers=named)


class ScriptedModel:
    """Answers requests in the order of `replies`, and then with `rest`."""

    def __init__(self) -> None:
        self.replies: list[Script] = []
        self.rest: Script = say("done")
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.url = ""
        # Set when a request has been sent its first piece.
        self.begun = asyncio.Event()

    def script(self, *replies: Script) -> None:
        self.replies.extend(replies)

    def messages(self, number: int) -> list[dict[str, Any]]:
        """Return the messages of a request, counted from 0."""
        messages: list[dict[str, Any]] = self.requests[number]["messages"]
        return messages

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.keys.append(request.headers.get("Authorization", ""))
        script = self.replies.pop(0) if self.replies else self.rest
        reply = script if isinstance(script, ModelReply) else script(body)
        if reply.status != 200:
            return web.json_response({"error": reply.error}, status=reply.status, headers=reply.headers)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for delta in _list_deltas(reply):
            await _write(response, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            self.begun.set()
            if reply.gate is not None:
                await reply.gate.wait()
        if reply.error is not None:
            await _write(response, {"error": reply.error})
        if not reply.breaks_off:
            await _write(response, {"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]})
            if reply.usage is not None:
                counts = {"prompt_tokens": reply.usage[0], "completion_tokens": reply.usage[1]}
                await _write(response, {"choices": [], "usage": counts})
            await response.write(b"data: [DONE]\n\n")
        return response


def _list_deltas(reply: ModelReply) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"reasoning_content": piece} for piece in reply.reasoning]
    deltas += [{"content": piece} for piece in reply.content]
    for index, (name, arguments) in enumerate(reply.calls):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        # The same id in every step, as some engines do.
        begin = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [begin]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": text[start : start + 7]}}]}
            for start in range(0, len(text), 7)
        ]
    return deltas


async def _write(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


@asynccontextmanager
async def run_scripted_model() -> AsyncIterator[ScriptedModel]:
    model = ScriptedModel()
    application = web.Application(client_max_size=64 << 20)
    application.router.add_post("/v1/chat/completions", model.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    model.url = f"http://127.0.0.1:{port}/v1"
    try:
        yield model
    finally:
        await runner.cleanup()
