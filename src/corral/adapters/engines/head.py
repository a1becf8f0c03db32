"""The head of a request to an engine, made of parts that are the same from call to call.

Guarantee: what is given in cannot begin a line of its own. `EngineCall.engine_headers` are taken as checked.
"""

from __future__ import annotations

import re

from corral.domain.errors import InvalidRequest
from corral.ports.engines import Engine, EngineCall

# One entry for each replica and path. Replicas come and go, so what is old is forgotten now and then.
OPENINGS_MAX = 4096

_JSON = "application/json"
_JSON_LINE = b"content-type: application/json\r\n"
# Visible characters and no others: enough for a path, an address and a key.
_WORD = re.compile(r"[\x21-\x7e]+")
# The same, with blanks between: a content type.
_WORDS = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


class Heads:
    """Makes heads, and remembers how those of an engine begin."""

    __slots__ = ("_openings",)

    def __init__(self) -> None:
        self._openings: dict[tuple[str, str, str], bytes] = {}

    def head(self, engine: Engine, call: EngineCall) -> bytes:
        """`InvalidRequest`: the content type, which comes from outside, is not fit for a head."""
        opening = self._openings.get((engine.address, call.path, engine.engine_key))
        if opening is None:
            opening = self._remembered(engine, call.path)
        size_bytes = len(call.body) if call.size_bytes is None else call.size_bytes
        headers = call.engine_headers()
        if call.content_type == _JSON and len(headers) == 1:
            # Nearly all of them: JSON, with the request's id.
            name, value = headers[0]
            return b"%bcontent-type: application/json\r\n%b: %b\r\ncontent-length: %d\r\n\r\n" % (
                opening,
                name,
                value,
                size_bytes,
            )
        lines = [opening, _content_type(call.content_type)]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        lines.append(b"content-length: %d\r\n\r\n" % size_bytes)
        return b"".join(lines)

    def _remembered(self, engine: Engine, path: str) -> bytes:
        if len(self._openings) >= OPENINGS_MAX:
            self._openings.clear()
        opening = self._openings[engine.address, path, engine.engine_key] = _opening(engine, path)
        return opening


def _opening(engine: Engine, path: str) -> bytes:
    key = f"authorization: Bearer {_checked(engine.engine_key)}\r\n" if engine.engine_key else ""
    host = _checked(engine.address)
    # Compressed events could not be passed on one by one.
    return f"POST {_checked(path)} HTTP/1.1\r\nhost: {host}\r\naccept-encoding: identity\r\n{key}".encode("ascii")


def _checked(word: str) -> str:
    if _WORD.fullmatch(word) is None:
        raise ValueError("A path, an address or a key of an engine has characters that do not belong there.")
    return word


def _content_type(text: str) -> bytes:
    if text == _JSON:
        return _JSON_LINE
    if _WORDS.fullmatch(text) is None:
        raise InvalidRequest("The content type of the request has characters that do not belong there.")
    return b"content-type: " + text.encode("ascii") + b"\r\n"
