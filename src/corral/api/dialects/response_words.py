"""The items of a response, made of what a chat says: one shape for whole answers and for the ends of streams."""

from __future__ import annotations

from collections.abc import Sequence

from corral.api.dialects import chats
from corral.api.dialects.chats import Said, Tokens, ToolCall
from corral.api.dialects.reading import Json

# How a chat that was cut short is told; any other end is a completed response.
CUT_SHORT = {"length": "max_output_tokens", "content_filter": "content_filter"}


def items_of(chat: Json, response_id: str) -> tuple[Said, list[Json]]:
    """What a whole answer says, and the items that it becomes."""
    said = chats.said_in(chat)
    items = []
    if said.reasoning:
        items.append(reasoning(f"rs_{response_id}", said.reasoning))
    if said.refusal:
        items.append(message(f"msg_{response_id}", [refusal(said.refusal)]))
    elif said.text or not said.calls:
        items.append(message(f"msg_{response_id}", [output_text(said.text, said.logprobs)]))
    items += [function_call(f"fc_{response_id}_{call.index}", call) for call in said.calls]
    return said, items


def finished(said: Said, items: Sequence[Json]) -> Json:
    """What an answer has when it is whole."""
    reason = CUT_SHORT.get(said.finish)
    return {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": list(items),
        "usage": usage(said.tokens or Tokens()),
    }


def usage(tokens: Tokens) -> Json:
    return {
        "input_tokens": tokens.prompt,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
        "output_tokens": tokens.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.prompt + tokens.completion,
    }


def reasoning(item_id: str, said: str, status: str = "completed") -> Json:
    content = [{"type": "reasoning_text", "text": said}] if said else []
    return {"id": item_id, "type": "reasoning", "status": status, "summary": [], "content": content}


def message(item_id: str, content: list[Json], status: str = "completed") -> Json:
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": content}


def output_text(said: str, logprobs: Sequence[Json] = ()) -> Json:
    return {"type": "output_text", "text": said, "annotations": [], "logprobs": list(logprobs)}


def refusal(said: str) -> Json:
    return {"type": "refusal", "refusal": said}


def function_call(item_id: str, call: ToolCall, status: str = "completed") -> Json:
    return {
        "id": item_id,
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }
