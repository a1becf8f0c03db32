"""The logprobs of `/v1/completions` in OpenAI's form: tokens, token_logprobs, top_logprobs and text_offset.

llama.cpp tells them in the form of chats (`content`). Answers in OpenAI's form already are left as they are, byte for
byte. `text_offset` counts characters of the answer's own text. Limit: an answer of more than 8 MiB that is no stream is
passed on in pieces and keeps its form.
"""

from __future__ import annotations

import json
from typing import Any

from corral.domain.errors import CorralError, InvalidRequest
from corral.ports.engines import HeadLines
from corral.serving.gateway import Client, Wish
from corral.store.use import Served

_MARK = b'"logprobs"'
_DATA = b"data:"
_DONE = b"[DONE]"
_OK = 200


class LogprobsWriter:
    """Rewrites the answer to one request. Offsets go on from event to event."""

    def __init__(self) -> None:
        # By the index of the choice: characters that were told so far.
        self._told: dict[int, int] = {}

    def rewrite(self, body: bytes) -> bytes:
        """Return a whole answer, or the data of one event, with logprobs in OpenAI's form."""
        if body.find(_MARK) < 0:
            return body
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            return body
        choices = answer.get("choices") if isinstance(answer, dict) else None
        changed = [self._rewrite_choice(one) for one in choices] if isinstance(choices, list) else []
        return json.dumps(answer, ensure_ascii=False).encode() if any(changed) else body

    def rewrite_events(self, events: bytes) -> bytes:
        """Return whole server-sent events, each rewritten."""
        return b"\n".join([self._rewrite_line(line) for line in events.split(b"\n")])

    def _rewrite_line(self, line: bytes) -> bytes:
        data = line[len(_DATA) :].strip() if line.startswith(_DATA) else b""
        return b"data: " + self.rewrite(data) if data and data != _DONE else line

    def _rewrite_choice(self, choice: Any) -> bool:
        logprobs = choice.get("logprobs") if isinstance(choice, dict) else None
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        if not isinstance(content, list):
            return False
        index = choice.get("index")
        place = index if isinstance(index, int) else 0
        entries = [one for one in content if isinstance(one, dict)]
        offsets = []
        for one in entries:
            offsets.append(self._told.get(place, 0))
            self._told[place] = offsets[-1] + len(str(one.get("token", "")))
        choice["logprobs"] = {
            "tokens": [_token(one) for one in entries],
            "token_logprobs": [one.get("logprob") for one in entries],
            "top_logprobs": [_top(one) for one in entries],
            "text_offset": offsets,
        }
        return True


def _token(entry: dict[str, Any]) -> str:
    """A token's text; of a token that is only a part of a character, its bytes, as OpenAI writes them."""
    raw = entry.get("bytes")
    if isinstance(raw, list) and all(isinstance(one, int) and 0 <= one <= 255 for one in raw):
        try:
            bytes(raw).decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
    return str(entry.get("token", ""))


def _top(entry: dict[str, Any]) -> dict[str, Any]:
    several = entry.get("top_logprobs")
    found = [one for one in several if isinstance(one, dict)] if isinstance(several, list) else []
    return {_token(one): one.get("logprob") for one in found}


class LogprobsClient:
    """A `serving.gateway.Client` before another one, which gets what passes with logprobs in OpenAI's form."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._writer = LogprobsWriter()
        self._is_stream = False

    def begin(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        kind = next((value for name, value in head if name == b"content-type"), b"")
        self._is_stream = status == _OK and kind.startswith(b"text/event-stream")
        self._client.begin(status, head, None if self._is_stream else size_bytes)

    def piece(self, data: bytes) -> None:
        self._client.piece(self._writer.rewrite_events(data) if self._is_stream else data)

    def end(self) -> None:
        self._client.end()

    def whole(self, status: int, head: HeadLines, body: bytes) -> None:
        self._client.whole(status, head, self._writer.rewrite(body) if status == _OK else body)

    def fail(self, error: CorralError) -> None:
        self._client.fail(error)

    def cut(self, error: CorralError) -> None:
        self._client.cut(error)

    def wants_more(self, *, is_wanted: bool) -> None:
        self._client.wants_more(is_wanted=is_wanted)


def asks_logprobs(wish: Wish) -> bool:
    return wish.call == "completions" and wish.body.find(_MARK) >= 0


def refuse_echo(model: Served) -> InvalidRequest:
    """Return the error for `echo` at an engine that would leave it out without a word."""
    return InvalidRequest(
        f"echo: the engine {model.backend} of model {model.name} does not repeat prompts, nor tell their logprobs.",
        hint="Leave echo out, or use a model on an engine that has it, such as vLLM.",
        code="echo_not_supported",
    )
