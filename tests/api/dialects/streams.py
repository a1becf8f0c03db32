"""What an engine says to a chat, made by hand: whole answers, and the same as the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from corral.api.dialects.chat_completion import ChatEventParser, StreamTranslation

USAGE = {"prompt_tokens": 12, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}


def whole(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": None} | message, "finish_reason": finish} | more
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": USAGE}


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish} | more],
    }


def call_delta(index: int, arguments: str, **first: str) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": arguments}
    call: dict[str, Any] = {"index": index, "function": function}
    if first:
        function["name"] = first["name"]
        call |= {"id": first["id"], "type": "function"}
    return {"tool_calls": [call]}


def words(*texts: str, finish: str = "stop") -> list[dict[str, Any]]:
    """A stream as engines send it: a role, words, the reason of the end, the numbers."""
    text_chunks = [chunk({"content": text}) for text in texts]
    return [
        chunk({"role": "assistant", "content": None}),
        *text_chunks,
        chunk({}, finish),
        {"choices": [], "usage": USAGE},
    ]


def on_the_wire(chunks: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks) + b"data: [DONE]\n\n"


def translate_in_pieces(stream: StreamTranslation, chunks: Iterable[dict[str, Any]], piece_bytes: int = 7) -> bytes:
    """What comes out when the stream comes in in small pieces."""
    sent, events, out = on_the_wire(chunks), ChatEventParser(), []
    for start in range(0, len(sent), piece_bytes):
        out += [stream.translate_event(event) for event in events.feed(sent[start : start + piece_bytes])]
    return b"".join([*out, stream.render_end()])


def server_sent(raw: bytes) -> list[dict[str, Any]]:
    """The events, each of which says its own name twice."""
    found = []
    for event in raw.decode().strip().split("\n\n"):
        name, data = event.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def lines(raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw.splitlines()]
