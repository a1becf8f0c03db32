"""The body of a request: read once, changed in exactly two ways, and otherwise left as it came, byte for byte.

The model's name becomes the one that its engine knows, and what the model's configuration says by default is put in
where the request is silent. Numbers, spaces, order and fields that nobody here knows are not touched.

Guarantee: no body keeps its reader busy: it has at most 1,000 members and 64 levels, and above 64 KiB it is scanned
and not decoded. Limit: whether the values of a large body are JSON is left to the engine, which gets the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.domain.errors import InvalidRequest
from corral.policy.serving.json_scan import (
    DEPTH_MAX,
    MEMBERS_MAX,
    JsonScanError,
    MemberSpan,
    ScannedObject,
    TooDeepError,
    TooManyMembersError,
    check_shape,
    is_small_shape,
    run_scan,
    scan_object,
)
from corral.policy.serving.long_strings import LongStrings
from corral.runtime.slices import SliceRunner

# A body up to this size is decoded where it is read, which takes some milliseconds at most. A larger one is scanned.
IN_PLACE_BYTES_MAX = 64 * 1024
# Members of a translated call that may be as large as its body, and are written on without being looked into.
_GIVEN_TO_MODEL = frozenset({"messages", "input", "prompt", "images", "system"})
# Any other member of such a call.
MEMBER_BYTES_MAX = 1024 * 1024
# Of a body that is scanned and has to be decoded after all, because it is translated.
VALUES_MAX = 50_000

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
_SYSTEM_ROLE = re.compile(rb'"role"[ \t\n\r]*+:[ \t\n\r]*+"(?:system|developer)"')
_SOME_MESSAGE = re.compile(rb"\[[ \t\n\r]*+[^\] \t\n\r]")
_NAME_BYTES_MAX = 4096
# Of the defaults, which are mostly about sampling, only these mean anything to embeddings.
_OF_EMBEDDINGS = frozenset({"dimensions", "encoding_format"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    raw: bytes = field(repr=False)
    # Where the first member stands.
    inside: int
    members: Mapping[str, MemberSpan] = field(repr=False)
    # The values; None: they are not decoded yet, and nobody has checked that they are JSON.
    decoded: Mapping[str, Any] | None = field(repr=False)
    # About how many values there are in it, at any depth; 0: few.
    count: int = 0

    def value(self, name: str) -> Any:
        """The value of a member, decoded; None if there is no such member."""
        if self.decoded is not None:
            return self.decoded.get(name)
        span = self.members.get(name)
        return None if span is None else _decode(self.raw, span)

    def peek(self, names: Iterable[str]) -> dict[str, Any]:
        """Those of the members that are there. A large value of a large body is not decoded: True stands for it."""
        if self.decoded is not None:
            return {name: self.decoded[name] for name in names if name in self.decoded}
        spans = {name: self.members[name] for name in names if name in self.members}
        return {
            name: _decode(self.raw, span) if span.end - span.start <= IN_PLACE_BYTES_MAX else True
            for name, span in spans.items()
        }

    async def decode_in_slices(self, slices: SliceRunner, strings: LongStrings) -> dict[str, Any]:
        """All members, for a call that is translated. Long strings of what a model is given are taken out of a large
        body, and marks stand for them. `InvalidRequest` if members are too many or too large to be decoded here."""
        if self.decoded is not None:
            return dict(self.decoded)
        if self.count > VALUES_MAX:
            raise InvalidRequest(
                f"The body has more than {VALUES_MAX} values.",
                hint="Calls that are translated for their engine take fewer; leave out or join some of them.",
                code="too_many_values",
            )
        found = {}
        for name, span in self.members.items():
            size_bytes = span.end - span.start
            if size_bytes > IN_PLACE_BYTES_MAX and name in _GIVEN_TO_MODEL:
                marked = await slices.run(strings.take_out(self.raw, span))
                found[name] = _decode(marked, MemberSpan(0, len(marked)))
                continue
            if size_bytes > MEMBER_BYTES_MAX:
                raise InvalidRequest(
                    f"{name} has more than {MEMBER_BYTES_MAX // 1024} KiB.",
                    hint="What is long belongs into the messages.",
                    code="too_large_member",
                )
            found[name] = _decode(self.raw, span)
        return found

    @property
    def model(self) -> str:
        name = self.value("model") if self._may_be_name() else None
        if not isinstance(name, str) or not name:
            raise InvalidRequest(
                "model: the name of a model is needed.", hint="GET /v1/models lists them.", code="model_missing"
            )
        return name

    def for_engine(self, name: str, defaults: Mapping[str, Any], call: str) -> bytes:
        """The body with the engine's name of the model, and with defaults where it is silent."""
        changes = list(self._changes(name, defaults, call))
        raw, at, pieces = self.raw, 0, []
        for start, end, replacement in sorted(changes):
            pieces += [raw[at:start], replacement.encode()]
            at = end
        return b"".join([*pieces, raw[at:]]) if changes else raw

    def _changes(self, name: str, defaults: Mapping[str, Any], call: str) -> Iterator[tuple[int, int, str]]:
        model = self.members["model"]
        if self.model != name:
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
        if self.decoded is None:
            # Messages of a large body are not decoded to know this: a role of this kind anywhere in them is taken for
            # a message of the system.
            span = self.members.get("messages")
            text = b"" if span is None else self.raw[span.start : span.end]
            return _SOME_MESSAGE.match(text) is not None and _SYSTEM_ROLE.search(text) is None
        messages = self.decoded.get("messages")
        if not isinstance(messages, list) or not messages:
            return False
        return not any(isinstance(one, dict) and one.get("role") in _SYSTEM_ROLES for one in messages)

    def _may_be_name(self) -> bool:
        span = self.members.get("model")
        return span is not None and span.end - span.start <= _NAME_BYTES_MAX


def read(raw: bytes) -> Body:
    """The members of a JSON object with their places. A large body is not decoded, and is scanned without giving way;
    what clients send is read by `read_in_slices`."""
    if len(raw) > IN_PLACE_BYTES_MAX:
        return _from_scan(raw, run_scan(_scan(raw)))
    if not is_small_shape(raw):
        run_check(raw)
    try:
        return _read(raw, raw.decode())
    except TooManyMembersError as error:
        raise _as_refusal(error, raw) from error
    except (ValueError, RecursionError) as error:
        where = f" (at character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise _malformed(where) from error


async def read_in_slices(raw: bytes, slices: SliceRunner) -> Body:
    """As `read`, but everybody else has a turn while a large body is scanned."""
    if len(raw) <= IN_PLACE_BYTES_MAX:
        return read(raw)
    return _from_scan(raw, await slices.run(_scan(raw)))


async def check_in_slices(raw: bytes, slices: SliceRunner) -> None:
    """`InvalidRequest` for any JSON with too many members, or nested too deeply. Whether it is JSON is not said."""
    if is_small_shape(raw):
        return
    try:
        await slices.run(check_shape(raw))
    except ValueError as error:
        raise _as_refusal(error, raw) from error


def _from_scan(raw: bytes, found: ScannedObject) -> Body:
    return Body(raw=raw, inside=found.inside, members=found.members, decoded=None, count=found.values)


def _scan(raw: bytes) -> Generator[int, None, ScannedObject]:
    """A scan whose errors are those that a client is told."""
    try:
        return (yield from scan_object(raw))
    except ValueError as error:
        raise _as_refusal(error, raw) from error


def run_check(raw: bytes) -> None:
    """`InvalidRequest` if a body has too many members or is nested too deeply; at once, so for small bodies."""
    try:
        for _ in check_shape(raw):
            continue
    except ValueError as error:
        raise _as_refusal(error, raw) from error


def _as_refusal(error: ValueError, raw: bytes) -> InvalidRequest:
    """What a client is told of a body that a scan did not take."""
    if isinstance(error, TooManyMembersError):
        return InvalidRequest(
            f"The body has more than {MEMBERS_MAX} members.",
            hint="No call has so many fields; a list goes into one of them.",
            code="too_many_members",
        )
    if isinstance(error, TooDeepError):
        return InvalidRequest(
            f"The body is nested deeper than {DEPTH_MAX} levels.", hint="Send it flatter.", code="too_deep"
        )
    at = error.at if isinstance(error, JsonScanError) else len(raw)
    return _malformed(f" (at byte {at})")


def _malformed(where: str) -> InvalidRequest:
    return InvalidRequest(
        f"The body is not a JSON object{where}.", hint="Send Content-Type: application/json.", code="malformed_json"
    )


def _decode(raw: bytes, span: MemberSpan) -> Any:
    try:
        return json.loads(raw[span.start : span.end])
    except (ValueError, RecursionError) as error:
        raise _malformed(f" (in what begins at byte {span.start})") from error


def _read(raw: bytes, text: str) -> Body:
    inside = _after(text, _skip(text, 0), "{")
    members: dict[str, MemberSpan] = {}
    decoded: dict[str, Any] = {}
    # Places are counted in bytes; where that is not the same, as far as they are counted.
    is_ascii, place, counted = len(text) == len(raw), 0, 0
    at = _skip(text, inside)
    while text[at : at + 1] != "}":
        if members:
            at = _skip(text, _after(text, at, ","))
        if len(members) == MEMBERS_MAX:
            raise TooManyMembersError
        key, at = _value(text, at)
        if not isinstance(key, str):
            raise json.JSONDecodeError("no name", text, at)
        if key in members:
            # Two parsers may take different ones of them.
            raise json.JSONDecodeError("the same name twice", text, at)
        start = _skip(text, _after(text, _skip(text, at), ":"))
        decoded[key], end = _value(text, start)
        if is_ascii:
            members[key] = MemberSpan(start, end)
        else:
            place += len(text[counted:start].encode())
            members[key] = MemberSpan(place, place := place + len(text[start:end].encode()))
            counted = end
        at = _skip(text, end)
    if _skip(text, at + 1) != len(text):
        raise json.JSONDecodeError("something follows", text, at + 1)
    return Body(raw=raw, inside=inside, members=members, decoded=decoded)


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
