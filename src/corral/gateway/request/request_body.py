"""Reads the body of a request once, changes it in exactly two ways, and otherwise leaves it as it came, byte for byte.

The model's name is replaced by the one that its engine knows, and the defaults of the model's configuration are
inserted where the request does not set them. Numbers, spaces, order and unknown fields are not touched.

Guarantee: no body keeps its reader busy: it has at most 1,000 members and 64 levels, and above 64 KiB it is scanned and
not decoded. Limit: whether the values of a large body are JSON is left to the engine, which gets the same bytes.

`find_model_name` finds the name of the model without decoding the body where that is exact. Inside a JSON string every
quote is escaped, so the bytes `"model"` after anything but a backslash are a whole string. If they occur once, and no
name can be spelt with escapes, their position decides: the first member, or one with nothing but simple members before
or after it, belongs to the outermost object. All other cases are left to the decoder. Guarantee: for a body that is
JSON, the name is the one that a decoder finds, and there is only one.
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
    count_values,
    is_small_shape,
    run_scan,
    scan_object,
)
from corral.policy.serving.long_strings import LongStrings
from corral.runtime.slice_runner import SliceRunner

# A body up to this size is decoded where it is read, which takes some milliseconds at most. A larger one is scanned.
IN_PLACE_BYTES_MAX = 64 * 1024
# Members of a translated call that may be as large as its body, because they are copied unread.
_GIVEN_TO_MODEL = frozenset({"messages", "input", "prompt", "images", "system"})
# The limit for any other member of such a call.
MEMBER_BYTES_MAX = 1024 * 1024
# The most values in a scanned body that has to be decoded after all: it is translated, or the route is not an inference
# route.
VALUES_MAX = 50_000

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_SYSTEM = "system"
_SYSTEM_ROLES = frozenset({"system", "developer"})
# Pairs of names for one parameter: if a request sets either, the default is not inserted.
_SYNONYMS = {
    "max_tokens": ("max_completion_tokens",),
    "max_completion_tokens": ("max_tokens",),
    "stop": ("stop_sequences",),
}
# Calls in which the system prompt is a member of its own and no message: Anthropic's.
_CALLS_WITH_SYSTEM = frozenset({"messages", "count_tokens"})
_SYSTEM_ROLE = re.compile(rb'"role"[ \t\n\r]*+:[ \t\n\r]*+"(?:system|developer)"')
_SOME_MESSAGE = re.compile(rb"\[[ \t\n\r]*+[^\] \t\n\r]")
_NAME_BYTES_MAX = 4096
# Of the defaults, which are mostly about sampling, only these apply to embeddings.
_EMBEDDING_DEFAULTS = frozenset({"dimensions", "encoding_format"})
# For `find_model_name`.
_NAME = b'"model"'
# The letters of a name can be spelt in another way only with these.
_ESCAPED = b"\\u00"
_BACKSLASH = b"\\"
# What may be repeated is always followed by something that it cannot be itself, so that there is one way to match: a
# body made to be slow costs no more than its length.
_S = rb"[ \t\n\r]*"
_TEXT = rb'"[^"\\\x00-\x1f]*"'
_PLAIN = rb"(?:%b|-?[0-9][0-9.eE+-]*|true|false|null)%b" % (_TEXT, _S)
_NAMED = rb"%b%b:%b%b" % (_TEXT, _S, _S, _PLAIN)


def _repeat_pattern(item: bytes) -> bytes:
    """Return a pattern for a few items in a row."""
    return rb"(?:%b(?:,%b%b){0,7})?" % (item, _S, item)


# As deep as what clients put beside the messages: `"stream_options": {"include_usage": true}`, `"stop": ["\n"]`.
_SHALLOW = rb"(?:%b|(?:\{%b%b\}|\[%b%b\])%b)" % (_PLAIN, _S, _repeat_pattern(_NAMED), _S, _repeat_pattern(_PLAIN), _S)
_MEMBER = rb'(?!"model")%b%b:%b%b' % (_TEXT, _S, _S, _SHALLOW)
_MODEL = rb'"model"%b:%b"([^"\\\x00-\x1f]+)"%b' % (_S, _S, _S)
_OPENS = re.compile(rb"%b\{" % _S)
_FIRST = re.compile(rb"%b\{%b(?:%b,%b){0,16}%b[,}]" % (_S, _S, _MEMBER, _S, _MODEL))
_LAST = re.compile(rb"%b(?:,%b%b){0,16}\}%b" % (_MODEL, _S, _MEMBER, _S))
# How far from the beginning or from the end the name may be.
_LOOKED_AT_BYTES = 4096
_SCANNED_NAME_BYTES_MAX = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBody:
    """JSON body of one inference request, which is rendered for the engine with the fewest changes.

    Knows at which bytes each member stands.
    """

    raw: bytes = field(repr=False)
    # The position of the first member.
    members_start: int
    members: Mapping[str, MemberSpan] = field(repr=False)
    # The values; None if they are not decoded yet, so that it is unchecked whether they are JSON.
    decoded: Mapping[str, Any] | None = field(repr=False)
    # About how many values the body has, at any depth; 0 means few.
    count: int = 0

    def get_value(self, name: str) -> Any:
        """Return the decoded value of a member; None if there is no such member."""
        if self.decoded is not None:
            return self.decoded.get(name)
        span = self.members.get(name)
        return None if span is None else _decode(self.raw, span)

    def peek(self, names: Iterable[str]) -> dict[str, Any]:
        """Return those of the members that exist. A large value of a large body is not decoded: True replaces it."""
        if self.decoded is not None:
            return {name: self.decoded[name] for name in names if name in self.decoded}
        spans = {name: self.members[name] for name in names if name in self.members}
        return {
            name: _decode(self.raw, span) if span.end - span.start <= IN_PLACE_BYTES_MAX else True
            for name, span in spans.items()
        }

    async def shorten_in_slices(self, slices: SliceRunner, strings: LongStrings) -> bytes:
        """Return the body as a translation decodes it: marks replace the long strings of the prompt. Raises
        `InvalidRequest` if members are too many or too large to be translated."""
        if self.count > VALUES_MAX:
            raise _make_values_error("Calls that are translated for their engine allow fewer.")
        written: list[bytes] = []
        for name, span in self.members.items():
            size_bytes = span.end - span.start
            written.append(b"%b%b:" % (b"," if written else b"{", json.dumps(name).encode()))
            if size_bytes > IN_PLACE_BYTES_MAX and name in _GIVEN_TO_MODEL:
                written.append(await slices.run(strings.take_out(self.raw, span)))
                continue
            if size_bytes > MEMBER_BYTES_MAX:
                raise InvalidRequest(
                    f"{name} is larger than {MEMBER_BYTES_MAX // 1024} KiB.",
                    hint="Put long content into the messages.",
                    code="too_large_member",
                )
            written.append(self.raw[span.start : span.end])
        return b"".join([*written, b"}"])

    @property
    def model(self) -> str:
        name = self.get_value("model") if self._may_be_name() else None
        if not isinstance(name, str) or not name:
            raise InvalidRequest(
                "model: the name of a model is required.", hint="GET /v1/models lists them.", code="model_missing"
            )
        return name

    def render_for_engine(self, name: str, defaults: Mapping[str, Any], call: str) -> bytes:
        """Return the body with the engine's name of the model, and with defaults for members that are not set."""
        changes = list(self._list_changes(name, defaults, call))
        raw, at, pieces = self.raw, 0, []
        for start, end, replacement in sorted(changes):
            pieces += [raw[at:start], replacement.encode()]
            at = end
        return b"".join([*pieces, raw[at:]]) if changes else raw

    def read_metadata(self) -> Any:
        """Return the member `metadata`; None without one. Raises `InvalidRequest` if it is too large to be decoded."""
        span = self.members.get("metadata")
        if span is not None and span.end - span.start > IN_PLACE_BYTES_MAX:
            raise InvalidRequest(
                f"metadata is larger than {IN_PLACE_BYTES_MAX // 1024} KiB.",
                hint="Put long content into the messages.",
                code="too_large_member",
            )
        return self.get_value("metadata")

    def replace_member(self, name: str, value: object) -> bytes:
        """Return the body with another value of a member that it has."""
        span = self.members[name]
        return b"".join([self.raw[: span.start], json.dumps(value).encode(), self.raw[span.end :]])

    def _list_changes(self, name: str, defaults: Mapping[str, Any], call: str) -> Iterator[tuple[int, int, str]]:
        model = self.members["model"]
        if self.model != name:
            yield model.start, model.end, json.dumps(name)
        missing = {key: value for key, value in defaults.items() if self._lacks_member(key, call)}
        if missing:
            written = json.dumps(missing, ensure_ascii=False)
            yield self.members_start, self.members_start, f"{written[1:-1]}, "
        if call == "chat" and defaults.get(_SYSTEM) and self._lacks_system():
            start = self.members["messages"].start + 1
            prompt = json.dumps({"role": _SYSTEM, "content": str(defaults[_SYSTEM])}, ensure_ascii=False)
            yield start, start, f"{prompt}, "

    def _lacks_member(self, key: str, call: str) -> bool:
        if (key == _SYSTEM and call not in _CALLS_WITH_SYSTEM) or (
            call == "embeddings" and key not in _EMBEDDING_DEFAULTS
        ):
            return False
        return not any(other in self.members for other in (key, *_SYNONYMS.get(key, ())))

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


def parse_body(raw: bytes) -> RequestBody:
    """Return the members of a JSON object with their positions. A large body is not decoded, and is scanned in one go;
    bodies of clients are read by `parse_body_in_slices`."""
    if len(raw) > IN_PLACE_BYTES_MAX:
        return _make_scanned_body(raw, run_scan(_scan(raw)))
    if not is_small_shape(raw):
        check_body(raw)
    try:
        return _parse_small_body(raw, raw.decode())
    except TooManyMembersError as error:
        raise _to_invalid_request(error, raw) from error
    except (ValueError, RecursionError) as error:
        where = f" (at character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise _make_malformed_error(where) from error


async def parse_body_in_slices(raw: bytes, slices: SliceRunner) -> RequestBody:
    """Parse as `parse_body` does, but let other tasks run while a large body is scanned."""
    if len(raw) <= IN_PLACE_BYTES_MAX:
        return parse_body(raw)
    return _make_scanned_body(raw, await slices.run(_scan(raw)))


async def check_decodable_in_slices(raw: bytes, slices: SliceRunner) -> None:
    """Raise `InvalidRequest` for JSON that would keep its decoder busy: it has too many members or levels, or it is
    large and has too many values, or cannot be scanned."""
    if len(raw) <= IN_PLACE_BYTES_MAX:
        await check_body_in_slices(raw, slices)
        return
    try:
        values = await slices.run(count_values(raw))
    except ValueError as error:
        raise _to_invalid_request(error, raw) from error
    if values > VALUES_MAX:
        raise _make_values_error("Send them in several requests.")


async def check_body_in_slices(raw: bytes, slices: SliceRunner) -> None:
    """Raise `InvalidRequest` for any JSON with too many members, or nested too deeply. Does not check whether the text
    is JSON."""
    if is_small_shape(raw):
        return
    try:
        await slices.run(check_shape(raw))
    except ValueError as error:
        raise _to_invalid_request(error, raw) from error


def decode_elsewhere(raw: bytes) -> tuple[Any, bytes]:
    """Decode any JSON in another process. Raises `InvalidRequest`."""
    try:
        return json.loads(raw), b""
    except (ValueError, RecursionError) as error:
        raise _make_malformed_error("") from error


def decode_shortened(raw: bytes) -> dict[str, Any]:
    """Return the members of the result of `RequestBody.shorten_in_slices`. Raises `InvalidRequest`."""
    try:
        found: dict[str, Any] = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _make_malformed_error("") from error
    return found


def _make_scanned_body(raw: bytes, found: ScannedObject) -> RequestBody:
    return RequestBody(
        raw=raw, members_start=found.members_start, members=found.members, decoded=None, count=found.values
    )


def _scan(raw: bytes) -> Generator[int, None, ScannedObject]:
    """Scan an object, and raise the errors that a client gets."""
    try:
        return (yield from scan_object(raw))
    except ValueError as error:
        raise _to_invalid_request(error, raw) from error


def check_body(raw: bytes) -> None:
    """Raise `InvalidRequest` if a body has too many members or is nested too deeply. Runs in one go, so for small
    bodies only."""
    try:
        for _ in check_shape(raw):
            continue
    except ValueError as error:
        raise _to_invalid_request(error, raw) from error


def _to_invalid_request(error: ValueError, raw: bytes) -> InvalidRequest:
    """Return the error for a client whose body could not be scanned."""
    if isinstance(error, TooManyMembersError):
        return InvalidRequest(
            f"The body has more than {MEMBERS_MAX} members.",
            hint="No call has so many fields. Put lists into one field.",
            code="too_many_members",
        )
    if isinstance(error, TooDeepError):
        return InvalidRequest(
            f"The body is nested deeper than {DEPTH_MAX} levels.",
            hint="Send a less deeply nested body.",
            code="too_deep",
        )
    at = error.at if isinstance(error, JsonScanError) else len(raw)
    return _make_malformed_error(f" (at byte {at})")


def _make_values_error(advice: str) -> InvalidRequest:
    return InvalidRequest(
        f"The body has more than {VALUES_MAX} values.",
        hint=f"{advice} Leave out or join some of them.",
        code="too_many_values",
    )


def _make_malformed_error(where: str) -> InvalidRequest:
    return InvalidRequest(
        f"The body is not a JSON object{where}.", hint="Send Content-Type: application/json.", code="malformed_json"
    )


def _decode(raw: bytes, span: MemberSpan) -> Any:
    try:
        return json.loads(raw[span.start : span.end])
    except (ValueError, RecursionError) as error:
        raise _make_malformed_error(f" (in what begins at byte {span.start})") from error


def _parse_small_body(raw: bytes, text: str) -> RequestBody:
    inside = _expect(text, _skip_space(text, 0), "{")
    members: dict[str, MemberSpan] = {}
    decoded: dict[str, Any] = {}
    # Positions are counted in bytes, so characters are converted as far as they are counted.
    is_ascii, offset, counted = len(text) == len(raw), 0, 0
    at = _skip_space(text, inside)
    while text[at : at + 1] != "}":
        if members:
            at = _skip_space(text, _expect(text, at, ","))
        if len(members) == MEMBERS_MAX:
            raise TooManyMembersError
        key, at = _decode_value(text, at)
        if not isinstance(key, str):
            raise json.JSONDecodeError("no name", text, at)
        if key in members:
            # Two parsers may use different ones of two equal names.
            raise json.JSONDecodeError("the same name twice", text, at)
        start = _skip_space(text, _expect(text, _skip_space(text, at), ":"))
        decoded[key], end = _decode_value(text, start)
        if is_ascii:
            members[key] = MemberSpan(start, end)
        else:
            offset += len(text[counted:start].encode())
            members[key] = MemberSpan(offset, offset := offset + len(text[start:end].encode()))
            counted = end
        at = _skip_space(text, end)
    if _skip_space(text, at + 1) != len(text):
        raise json.JSONDecodeError("something follows", text, at + 1)
    return RequestBody(raw=raw, members_start=inside, members=members, decoded=decoded)


def _decode_value(text: str, at: int) -> tuple[Any, int]:
    return _DECODER.raw_decode(text, at)


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "no space at all is a match, too"
    return found.end()


def _expect(text: str, at: int, expected: str) -> int:
    if text[at : at + 1] != expected:
        raise json.JSONDecodeError(f"{expected} expected", text, at)
    return at + 1


def find_model_name(body: bytes) -> str | None:
    """Return the name of the model in the body; None if the body must be decoded to find it."""
    # `find` is used because `in` and `count` take twice as long on bytes.
    find = body.find
    at = find(_NAME)
    if at < 0 or find(_NAME, at + 1) >= 0:
        return None
    # A single byte is found many times faster than four, and short prompts have no backslash at all.
    escape = find(_BACKSLASH)
    if escape >= 0 and find(_ESCAPED, escape) >= 0:
        return None
    found = _FIRST.match(body, 0, at + _SCANNED_NAME_BYTES_MAX) if at <= _LOOKED_AT_BYTES else None
    if found is None and len(body) - at <= _LOOKED_AT_BYTES and body[at - 1 : at] != b"\\":
        found = _LAST.fullmatch(body, at) if _OPENS.match(body, 0, _LOOKED_AT_BYTES) else None
    if found is None:
        return None
    try:
        return found[1].decode()
    except UnicodeDecodeError:
        return None
