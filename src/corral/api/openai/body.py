"""The body of a request: read once, changed in exactly two ways, and otherwise left as it came, byte for byte.

The model's name becomes the one that its engine knows, and what the model's configuration says by default is put in
where the request is silent. Numbers, spaces, order and fields that nobody here knows are not touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.domain.errors import InvalidRequest

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_SYSTEM = "system"
_SYSTEM_ROLES = frozenset({"system", "developer"})
# Two names for one wish: whoever said one of them has said it.
_SAME = {
    "max_tokens": ("max_completion_tokens",),
    "max_completion_tokens": ("max_tokens",),
    "stop": ("stop_sequences",),
}
# Where the system's prompt is no message but has a place of its own: Anthropic's.
_WITH_SYSTEM = frozenset({"messages", "count_tokens"})
# Of the defaults, which are mostly about sampling, only these mean anything to embeddings.
_OF_EMBEDDINGS = frozenset({"dimensions", "encoding_format"})


@dataclass(frozen=True, slots=True)
class _Member:
    value: Any
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    text: str = field(repr=False)
    # Where the first member stands.
    inside: int
    members: Mapping[str, _Member] = field(repr=False)

    @property
    def model(self) -> str:
        member = self.members.get("model")
        if member is None or not isinstance(member.value, str) or not member.value:
            raise InvalidRequest(
                "model: the name of a model is needed.", hint="GET /v1/models lists them.", code="model_missing"
            )
        return member.value

    def for_engine(self, name: str, defaults: Mapping[str, Any], call: str) -> bytes:
        """The body with the engine's name of the model, and with defaults where it is silent."""
        changes = list(self._changes(name, defaults, call))
        text, at, pieces = self.text, 0, []
        for start, end, replacement in sorted(changes):
            pieces += [text[at:start], replacement]
            at = end
        return "".join([*pieces, text[at:]]).encode()

    def _changes(self, name: str, defaults: Mapping[str, Any], call: str) -> Iterator[tuple[int, int, str]]:
        model = self.members["model"]
        if model.value != name:
            yield model.start, model.end, json.dumps(name)
        missing = {key: value for key, value in defaults.items() if self._is_silent(key, call)}
        if missing:
            written = json.dumps(missing, ensure_ascii=False)
            yield self.inside, self.inside, f"{written[1:-1]}, "
        if call == "chat" and defaults.get(_SYSTEM) and self._lacks_system():
            start = self.members["messages"].start + 1
            prompt = json.dumps({"role": _SYSTEM, "content": str(defaults[_SYSTEM])}, ensure_ascii=False)
            yield start, start, f"{prompt}, "

    def _is_silent(self, key: str, call: str) -> bool:
        if (key == _SYSTEM and call not in _WITH_SYSTEM) or (call == "embeddings" and key not in _OF_EMBEDDINGS):
            return False
        return not any(other in self.members for other in (key, *_SAME.get(key, ())))

    def _lacks_system(self) -> bool:
        messages = self.members["messages"].value if "messages" in self.members else None
        if not isinstance(messages, list) or not messages:
            return False
        return not any(isinstance(one, dict) and one.get("role") in _SYSTEM_ROLES for one in messages)


def read(raw: bytes) -> Body:
    """The members of a JSON object with their places in the text."""
    try:
        text = raw.decode()
        return _read(text)
    except (ValueError, RecursionError) as error:
        where = f" (at character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidRequest(
            f"The body is not a JSON object{where}.", hint="Send Content-Type: application/json.", code="malformed_json"
        ) from error


def _read(text: str) -> Body:
    inside = _after(text, _skip(text, 0), "{")
    members: dict[str, _Member] = {}
    at = _skip(text, inside)
    while text[at : at + 1] != "}":
        if members:
            at = _skip(text, _after(text, at, ","))
        key, at = _value(text, at)
        if not isinstance(key, str):
            raise json.JSONDecodeError("no name", text, at)
        if key in members:
            # Two parsers may take different ones of them.
            raise json.JSONDecodeError("the same name twice", text, at)
        start = _skip(text, _after(text, _skip(text, at), ":"))
        value, end = _value(text, start)
        members[key] = _Member(value, start, end)
        at = _skip(text, end)
    if _skip(text, at + 1) != len(text):
        raise json.JSONDecodeError("something follows", text, at + 1)
    return Body(text=text, inside=inside, members=members)


def _value(text: str, at: int) -> tuple[Any, int]:
    return _DECODER.raw_decode(text, at)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "no space at all is a match, too"
    return found.end()


def _after(text: str, at: int, wanted: str) -> int:
    if text[at : at + 1] != wanted:
        raise json.JSONDecodeError(f"{wanted} expected", text, at)
    return at + 1
