"""A response on its way: events of a chat go in, OpenAI's numbered events come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from corral.api.dialects import chats
from corral.api.dialects import response_words as words
from corral.api.dialects.chats import Said, ToolCall, server_sent
from corral.api.dialects.reading import Json
from corral.domain.errors import CorralError


class _Item:
    """An item that is being said. Kinds: reasoning, text, refusal, call."""

    def __init__(self, kind: str, item_id: str, index: int, call: ToolCall | None = None) -> None:
        self.kind = kind
        self.id = item_id
        self.index = index
        self.said: list[str] = []
        self.logprobs: list[Json] = []
        self._call = call

    def is_for(self, kind: str, call: ToolCall | None) -> bool:
        return self.kind == kind and (call is None or (self._call is not None and self._call.index == call.index))

    @property
    def place(self) -> Json:
        """Where its events belong. A call has no parts."""
        whole = {"item_id": self.id, "output_index": self.index}
        return whole if self.kind == "call" else whole | {"content_index": 0}

    @property
    def words(self) -> str:
        return "".join(self.said)

    def part(self) -> Json:
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": self.words}
        if self.kind == "refusal":
            return words.refusal(self.words)
        return words.output_text(self.words, self.logprobs)

    def whole(self, status: str) -> Json:
        if self._call is not None:
            return words.function_call(self.id, replace(self._call, arguments=self.words), status)
        if self.kind == "reasoning":
            return words.reasoning(self.id, self.words, status)
        return words.message(self.id, [self.part()] if status == "completed" else [], status)


# What the pieces of an item are called.
_DELTAS = {
    "reasoning": "response.reasoning_text",
    "text": "response.output_text",
    "refusal": "response.refusal",
    "call": "response.function_call_arguments",
}
_PREFIXES = {"reasoning": "rs", "text": "msg", "refusal": "msg", "call": "fc"}


class ResponseStream:
    """`head` is the response before anything was said."""

    def __init__(self, head: Json, response_id: str) -> None:
        self._head = head
        self._id = response_id
        self._number = -1
        self._open: _Item | None = None
        self._done: list[Json] = []
        self._last = Said()

    def event(self, chunk: Json) -> bytes:
        return b"".join(self._event(chats.added_by(chunk)))

    def end(self) -> bytes:
        return b"".join(self._end())

    def error(self, error: CorralError) -> bytes:
        said = {"code": error.slug, "message": error.message}
        failed = self._head | {"status": "failed", "error": {"code": "server_error", "message": error.message}}
        return self._tell("error", said | {"param": None}) + self._tell("response.failed", {"response": failed})

    def _event(self, said: Said) -> Iterator[bytes]:
        yield self._begin()
        self._last = replace(said, finish=said.finish or self._last.finish, tokens=said.tokens or self._last.tokens)
        if said.reasoning:
            yield self._add("reasoning", said.reasoning)
        if said.text:
            yield self._add("text", said.text, said.logprobs)
        if said.refusal:
            yield self._add("refusal", said.refusal)
        for call in said.calls:
            yield self._add("call", call.arguments, call=call)

    def _end(self) -> Iterator[bytes]:
        yield self._begin()
        if not self._last.finish:
            yield self.error(chats.unfinished())
            return
        if self._open is None and not self._done:
            # A response without a word is a message without a word.
            yield self._start(_Item("text", f"msg_{self._id}_0", 0))
        yield self._close()
        response = self._head | words.finished(self._last, self._done)
        yield self._tell(f"response.{response['status']}", {"response": response})

    def _begin(self) -> bytes:
        if self._number >= 0:
            return b""
        return b"".join(self._tell(f"response.{name}", {"response": self._head}) for name in ("created", "in_progress"))

    def _add(self, kind: str, piece: str, logprobs: tuple[Json, ...] = (), *, call: ToolCall | None = None) -> bytes:
        before = b""
        if self._open is None or not self._open.is_for(kind, call):
            before = self._close()
            index = len(self._done)
            before += self._start(_Item(kind, f"{_PREFIXES[kind]}_{self._id}_{index}", index, call))
        item = self._open
        assert item is not None, "it was opened just now"
        if not piece:
            return before
        item.said.append(piece)
        item.logprobs += logprobs
        delta = item.place | {"delta": piece} | ({"logprobs": list(logprobs)} if kind == "text" else {})
        return before + self._tell(f"{_DELTAS[kind]}.delta", delta)

    def _start(self, item: _Item) -> bytes:
        self._open = item
        added = {"output_index": item.index, "item": item.whole("in_progress")}
        told = self._tell("response.output_item.added", added)
        if item.kind != "call":
            told += self._tell("response.content_part.added", item.place | {"part": item.part()})
        return told

    def _close(self) -> bytes:
        item = self._open
        if item is None:
            return b""
        self._open = None
        whole = item.whole("completed")
        self._done.append(whole)
        return b"".join([
            self._tell(f"{_DELTAS[item.kind]}.done", item.place | _last_words(item, whole)),
            b"" if item.kind == "call" else self._tell(
                "response.content_part.done", item.place | {"part": item.part()}
            ),
            self._tell("response.output_item.done", {"output_index": item.index, "item": whole}),
        ])  # fmt: skip

    def _tell(self, kind: str, data: Json) -> bytes:
        self._number += 1
        return server_sent(kind, {"type": kind, "sequence_number": self._number} | data)


def _last_words(item: _Item, whole: Json) -> Json:
    if item.kind == "call":
        return {"arguments": item.words, "name": whole["name"]}
    if item.kind == "refusal":
        return {"refusal": item.words}
    return {"text": item.words} | ({"logprobs": item.logprobs} if item.kind == "text" else {})
