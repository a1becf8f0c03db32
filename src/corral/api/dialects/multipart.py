"""The name of the model in a form, found while the form comes in. Strict, and it remembers places instead of bytes.

Only what a form has to look like is understood (RFC 7578): it begins with its boundary, every part has a head with a
name, and parts are divided by CRLF, two dashes and the boundary. Whatever comes behind the model's name is not looked
at: it goes to the engine as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from corral.domain.errors import InvalidRequest

HEAD_BYTES_MAX = 8 * 1024
NAME_BYTES_MAX = 1024
_FORM = re.compile(
    r'multipart/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s";,]{1,70}))\s*(?:;|$)', re.IGNORECASE
)
_DISPOSITION = re.compile(rb'(?i)^content-disposition:\s*form-data\s*;(?:.*;)?\s*name=(?:"([^"]*)"|([^\s";]+))')
_ENCODED = re.compile(rb"(?i)^content-transfer-encoding:\s*(?!binary|8bit|7bit)")


def malformed(why: str) -> InvalidRequest:
    return InvalidRequest(f"The body is not a form: {why}.", hint="Send multipart/form-data.", code="malformed_form")


def boundary_of(content_type: str) -> bytes:
    found = _FORM.match(content_type)
    if found is None:
        raise malformed("its Content-Type is not multipart/form-data with a boundary")
    try:
        return (found[1] or found[2]).encode("ascii")
    except UnicodeEncodeError as error:
        raise malformed("its boundary is not ASCII") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelName:
    """The value of the part `model`, and where it stands in the body."""

    value: str
    start: int
    end: int


class FormReader:
    """Fed with the body as it comes. What was looked at is forgotten, but for the end, where a boundary may begin."""

    def __init__(self, boundary: bytes) -> None:
        self._first = b"--" + boundary
        self._divider = b"\r\n--" + boundary
        self._rest = b""
        # Where in the body `_rest` begins.
        self._at = 0
        self._look = self._opening
        self._name = b""
        self.found: ModelName | None = None

    def feed(self, piece: bytes) -> ModelName | None:
        """The name, as soon as it is there. `InvalidRequest` if this is no form, or ends without the name."""
        self._rest += piece
        while self.found is None and self._look():
            pass
        return self.found

    def _take(self, count: int) -> None:
        self._rest = self._rest[count:]
        self._at += count

    def _opening(self) -> bool:
        if len(self._rest) < len(self._first):
            return False
        if not self._rest.startswith(self._first):
            raise malformed("it does not begin with its boundary")
        self._take(len(self._first))
        self._look = self._behind_boundary
        return True

    def _behind_boundary(self) -> bool:
        if len(self._rest) < 2:
            return False
        if self._rest.startswith(b"--"):
            raise InvalidRequest("The form has no part named model.", code="model_missing")
        if not self._rest.startswith(b"\r\n"):
            raise malformed("something stands behind a boundary")
        self._take(2)
        self._look = self._head
        return True

    def _head(self) -> bool:
        end = self._rest.find(b"\r\n\r\n")
        if end < 0 or end > HEAD_BYTES_MAX:
            if len(self._rest) > HEAD_BYTES_MAX:
                raise malformed("the head of a part is too long")
            return False
        lines = self._rest[:end].split(b"\r\n")
        named = [found for line in lines if (found := _DISPOSITION.match(line))]
        if len(named) != 1:
            raise malformed("a part has no name, or two")
        self._name = named[0][1] if named[0][1] is not None else named[0][2]
        if self._name == b"model" and any(_ENCODED.match(line) for line in lines):
            raise malformed("the model's name is encoded")
        self._take(end + 4)
        self._look = self._value if self._name == b"model" else self._other
        return True

    def _value(self) -> bool:
        end = self._rest.find(self._divider)
        if end < 0:
            if len(self._rest) > NAME_BYTES_MAX + len(self._divider):
                raise malformed("the model's name is too long")
            return False
        try:
            value = self._rest[:end].decode()
        except UnicodeDecodeError as error:
            raise malformed("the model's name is not UTF-8") from error
        self.found = ModelName(value=value, start=self._at, end=self._at + end)
        return True

    def _other(self) -> bool:
        end = self._rest.find(self._divider)
        if end < 0:
            # A boundary may have begun at the very end.
            self._take(max(0, len(self._rest) - len(self._divider) + 1))
            return False
        self._take(end + len(self._divider))
        self._look = self._behind_boundary
        return True
