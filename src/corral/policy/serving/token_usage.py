"""Reads how many tokens a response took from the engine's own report, without decoding the rest of the response.

OpenAI's `usage`, Anthropic's and Responses' names for the same, llama.cpp's `timings` and Ollama's counts. Inside a
JSON string every quote is escaped, so the bytes `"usage"` can only be a name or a whole value, and the value of such a
name is an object. Limit: an engine without such a report is not counted here.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_DECODER = json.JSONDecoder()
USAGE = b'"usage"'
TIMINGS = b'"timings"'
_OLLAMA = b'"eval_count"'
# The form that most engines use, with no other members. Other forms are decoded, which takes three times as long.
_PLAIN = re.compile(
    rb'"usage":\{(?:"prompt_tokens":([0-9]{1,15}),(?:"total_tokens":[0-9]+,)?"completion_tokens":([0-9]{1,15})|'
    rb'"completion_tokens":([0-9]{1,15}),"prompt_tokens":([0-9]{1,15}))'
    rb'(?:,"total_tokens":[0-9]+)?(?:,"prompt_tokens_details":null)?\}'
)
# An object of numbers is never longer than this.
_OBJECT_BYTES_MAX = 4096


class TokenUsage(NamedTuple):
    """Tokens that one response took, as its engine counts them. None: the engine did not say."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None

    def merge_over(self, earlier: TokenUsage) -> TokenUsage:
        """Return these numbers, completed by earlier ones where they are absent."""
        return TokenUsage(
            prompt=earlier.prompt if self.prompt is None else self.prompt,
            cached=earlier.cached if self.cached is None else self.cached,
            completion=earlier.completion if self.completion is None else self.completion,
        )


UNKNOWN_USAGE = TokenUsage()
_new = tuple.__new__


def may_contain_usage(data: bytes) -> bool:
    """Return whether the data may hold numbers. Called for every piece of every stream, so it only searches; and with
    `find`, because `in` takes twice as long on bytes."""
    find = data.find
    return find(USAGE) >= 0 or find(TIMINGS) >= 0 or find(_OLLAMA) >= 0


def parse_usage(data: bytes) -> TokenUsage:
    """Return the last numbers in a response, or in a part of one that ends with a whole event."""
    plain = _PLAIN.match(data, data.rfind(USAGE))
    if plain is not None:
        prompt, completion, completion_first, prompt_second = plain.groups()
        # As `TokenUsage(…)` does, without the cost of its constructor: one is made for every response.
        return _new(TokenUsage, (int(prompt or prompt_second), None, int(completion or completion_first)))
    if (found := _find_last_object(data, USAGE)) is not None:
        return _from_usage(found)
    if (found := _find_last_object(data, TIMINGS)) is not None:
        return _from_timings(found)
    if _OLLAMA in data:
        return TokenUsage(
            prompt=_parse_number_after(data, b'"prompt_eval_count"'), completion=_parse_number_after(data, _OLLAMA)
        )
    return UNKNOWN_USAGE


def _from_usage(found: dict[str, Any]) -> TokenUsage:
    get = found.get
    prompt, completion = get("prompt_tokens"), get("completion_tokens")
    if prompt is None and completion is None:
        prompt, completion = get("input_tokens"), get("output_tokens")
    prompt, completion, cached = _count(prompt), _count(completion), None
    details = get("prompt_tokens_details") or get("input_tokens_details")
    if details and isinstance(details, dict):
        cached = _count(details.get("cached_tokens"))
    if cached is None and (read := _count(get("cache_read_input_tokens"))) is not None:
        # Anthropic counts cached tokens separately.
        cached, prompt = read, None if prompt is None else prompt + read
    return TokenUsage(prompt, cached, completion)


def _from_timings(found: dict[str, Any]) -> TokenUsage:
    read, cached = _count(found.get("prompt_n")), _count(found.get("cache_n"))
    prompt = None if read is None else read + (cached or 0)
    return TokenUsage(prompt=prompt, cached=cached, completion=_count(found.get("predicted_n")))


def _find_last_object(data: bytes, name: bytes) -> dict[str, Any] | None:
    at = len(data)
    while (at := data.rfind(name, 0, at)) >= 0:
        start = at + len(name) + 1
        # Almost all engines write it without blanks. With blanks, the value is searched for.
        if data[start - 1 : start + 1] != b":{":
            start = _find_value(data, start - 1)
        if data[start : start + 1] == b"{":
            found = _decode_object(data, start)
            if found:
                return found
    return None


def _find_value(data: bytes, at: int) -> int:
    """Return where the value of a name that ends at `at` begins; the end of the data if there is none."""
    rest = data[at : at + 64].lstrip(b" \t\r\n")
    if rest[:1] != b":":
        return len(data)
    value = rest[1:].lstrip(b" \t\r\n")
    return min(len(data), at + 64) - len(value)


def _decode_object(data: bytes, start: int) -> dict[str, Any] | None:
    try:
        found, _ = _DECODER.raw_decode(data[start : start + _OBJECT_BYTES_MAX].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _parse_number_after(data: bytes, name: bytes) -> int | None:
    at = data.rfind(name)
    if at < 0:
        return None
    start = _find_value(data, at + len(name))
    digits = data[start : start + 20]
    length = len(digits) - len(digits.lstrip(b"0123456789"))
    return int(digits[:length]) if length else None


def _count(value: object) -> int | None:
    # True and False are ints in Python, but no counts.
    return value if type(value) is int and value >= 0 else None
