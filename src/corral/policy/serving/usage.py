"""How many tokens an answer took, read from the engine's own words without decoding the rest of them.

OpenAI's `usage`, Anthropic's and Responses' names for the same, llama.cpp's `timings` and Ollama's counts. Inside a
JSON string every quote is escaped, so the bytes `"usage"` can only be a name or a whole value, and what stands behind
a name is an object. Limit: whoever says nothing of the kind is not counted here.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_DECODER = json.JSONDecoder()
USAGE = b'"usage"'
TIMINGS = b'"timings"'
_OLLAMA = b'"eval_count"'
# As most engines say it, with nothing else beside it. Everything else is decoded, which takes three times as long.
_PLAIN = re.compile(
    rb'"usage":\{(?:"prompt_tokens":([0-9]{1,15}),(?:"total_tokens":[0-9]+,)?"completion_tokens":([0-9]{1,15})|'
    rb'"completion_tokens":([0-9]{1,15}),"prompt_tokens":([0-9]{1,15}))'
    rb'(?:,"total_tokens":[0-9]+)?(?:,"prompt_tokens_details":null)?\}'
)
# An object of numbers is short; whatever is longer is none.
_OBJECT_BYTES_MAX = 4096


class Usage(NamedTuple):
    """None: nobody said."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None

    def over(self, earlier: Usage) -> Usage:
        """What was said last counts; what was only said earlier stays."""
        return Usage(
            prompt=earlier.prompt if self.prompt is None else self.prompt,
            cached=earlier.cached if self.cached is None else self.cached,
            completion=earlier.completion if self.completion is None else self.completion,
        )


UNKNOWN = Usage()
_new = tuple.__new__


def tells(said: bytes) -> bool:
    """Whether this may hold numbers. Asked for every piece of every stream, so it only looks; and with `find`, because
    `in` takes twice as long on bytes."""
    find = said.find
    return find(USAGE) >= 0 or find(TIMINGS) >= 0 or find(_OLLAMA) >= 0


def usage_of(said: bytes) -> Usage:
    """The last numbers in an answer, or in a part of one that ends with a whole event."""
    plain = _PLAIN.match(said, said.rfind(USAGE))
    if plain is not None:
        prompt, completion, completion_first, prompt_second = plain.groups()
        # As `Usage(…)` does, without its own call: one is made for every answer.
        return _new(Usage, (int(prompt or prompt_second), None, int(completion or completion_first)))
    if (found := _last_object(said, USAGE)) is not None:
        return _from_usage(found)
    if (found := _last_object(said, TIMINGS)) is not None:
        return _from_timings(found)
    if _OLLAMA in said:
        return Usage(prompt=_number_after(said, b'"prompt_eval_count"'), completion=_number_after(said, _OLLAMA))
    return UNKNOWN


def _from_usage(found: dict[str, Any]) -> Usage:
    get = found.get
    prompt, completion = get("prompt_tokens"), get("completion_tokens")
    if prompt is None and completion is None:
        prompt, completion = get("input_tokens"), get("output_tokens")
    prompt, completion, cached = _count(prompt), _count(completion), None
    details = get("prompt_tokens_details") or get("input_tokens_details")
    if details and isinstance(details, dict):
        cached = _count(details.get("cached_tokens"))
    if cached is None and (read := _count(get("cache_read_input_tokens"))) is not None:
        # Anthropic counts what came from the cache apart.
        cached, prompt = read, None if prompt is None else prompt + read
    return Usage(prompt, cached, completion)


def _from_timings(found: dict[str, Any]) -> Usage:
    read, cached = _count(found.get("prompt_n")), _count(found.get("cache_n"))
    prompt = None if read is None else read + (cached or 0)
    return Usage(prompt=prompt, cached=cached, completion=_count(found.get("predicted_n")))


def _last_object(said: bytes, name: bytes) -> dict[str, Any] | None:
    at = len(said)
    while (at := said.rfind(name, 0, at)) >= 0:
        start = at + len(name) + 1
        # As almost everybody writes it. With blanks between, it is looked for.
        if said[start - 1 : start + 1] != b":{":
            start = _value_at(said, start - 1)
        if said[start : start + 1] == b"{":
            found = _decoded(said, start)
            if found:
                return found
    return None


def _value_at(said: bytes, at: int) -> int:
    """Where the value of a name begins that ends here; the end if nothing of the kind follows."""
    rest = said[at : at + 64].lstrip(b" \t\r\n")
    if rest[:1] != b":":
        return len(said)
    value = rest[1:].lstrip(b" \t\r\n")
    return min(len(said), at + 64) - len(value)


def _decoded(said: bytes, start: int) -> dict[str, Any] | None:
    try:
        found, _ = _DECODER.raw_decode(said[start : start + _OBJECT_BYTES_MAX].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number_after(said: bytes, name: bytes) -> int | None:
    at = said.rfind(name)
    if at < 0:
        return None
    start = _value_at(said, at + len(name))
    digits = said[start : start + 20]
    length = len(digits) - len(digits.lstrip(b"0123456789"))
    return int(digits[:length]) if length else None


def _count(value: object) -> int | None:
    # True and False are numbers, too, and no counts.
    return value if type(value) is int and value >= 0 else None
