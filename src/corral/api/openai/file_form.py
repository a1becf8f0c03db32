"""Reads an uploaded form with one file in it, as it arrives: short fields, and the bytes of the part `file`.

The rules are those of `api/dialects/uploads.py`: the form begins with its boundary, every part has a head with one
name, and parts are divided by CRLF, two dashes and the boundary. Guarantee: the same form is accepted or refused
however it is cut into pieces. Limit: fields other than the file are short and few.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator

from corral.domain.errors import InvalidRequest

HEAD_BYTES_MAX = 8 * 1024
FIELDS_MAX = 16
FIELD_BYTES_MAX = 4096
_FORM = re.compile(
    r'multipart/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s";,]{1,70}))\s*(?:;|$)', re.IGNORECASE
)
_DISPOSITION = re.compile(rb"(?i)^content-disposition:\s*form-data\s*;")
_NAME = re.compile(rb'(?i);\s*name=(?:"([^"]*)"|([^\s";]+))')
_FILE_NAME = re.compile(rb'(?i);\s*filename=(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))')
_TYPE = re.compile(rb"(?i)^content-type:\s*([\x21-\x7e][\x20-\x7e]{0,99})\s*$")
_ENCODED = re.compile(rb"(?i)^content-transfer-encoding:\s*(?!binary|8bit|7bit)")


def make_malformed_error(why: str) -> InvalidRequest:
    return InvalidRequest(f"The body is not a form: {why}.", hint="Send multipart/form-data.", code="malformed_form")


def parse_boundary(content_type: str) -> bytes:
    found = _FORM.match(content_type)
    if found is None:
        raise make_malformed_error("its Content-Type is not multipart/form-data with a boundary")
    try:
        return (found[1] or found[2]).encode("ascii")
    except UnicodeEncodeError as error:
        raise make_malformed_error("its boundary is not ASCII") from error


class FileFormReader:
    """Reads the form of one file upload (`POST /v1/files`).

    `fields`, `file_name` and `media_type` are complete after `iter_file` has ended.
    """

    def __init__(self, boundary: bytes, pieces: AsyncIterator[bytes]) -> None:
        # As if a line break came before the first boundary, so that all of them look alike.
        self._divider = b"\r\n--" + boundary
        self._buffer = bytearray(b"\r\n")
        self._pieces = pieces
        self.fields: dict[str, str] = {}
        self.file_name = ""
        self.media_type = ""
        self._has_file = False

    async def iter_file(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the part `file`, and read the whole form meanwhile. Raises `InvalidRequest`."""
        await self._expect(self._divider, "it does not begin with its boundary")
        while not await self._is_last_boundary():
            name = await self._read_head()
            if name == b"file":
                async for piece in self._iter_part():
                    yield piece
            else:
                await self._read_field(name)
        async for _ in self._pieces:
            # What follows the last boundary means nothing, and the client waits until it is read.
            continue
        if not self._has_file:
            raise InvalidRequest("The form has no part named file.", code="file_missing")

    async def _fill(self) -> None:
        async for piece in self._pieces:
            self._buffer += piece
            return
        raise make_malformed_error("it ends before its last boundary")

    async def _expect(self, text: bytes, problem: str) -> None:
        while len(self._buffer) < len(text):
            await self._fill()
        if not self._buffer.startswith(text):
            raise make_malformed_error(problem)
        del self._buffer[: len(text)]

    async def _is_last_boundary(self) -> bool:
        while len(self._buffer) < 2:
            await self._fill()
        if self._buffer.startswith(b"--"):
            self._buffer.clear()
            return True
        await self._expect(b"\r\n", "a boundary is followed by other characters")
        return False

    async def _read_head(self) -> bytes:
        """Read the head of a part and return its name."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise make_malformed_error("the head of a part is too long")
            await self._fill()
        if end > HEAD_BYTES_MAX:
            raise make_malformed_error("the head of a part is too long")
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        heads = [line for line in lines if _DISPOSITION.match(line)]
        named = _NAME.search(heads[0]) if len(heads) == 1 else None
        if named is None:
            raise make_malformed_error("a part has no name, or two")
        if any(_ENCODED.match(line) for line in lines):
            raise make_malformed_error("a part is encoded")
        name = named[1] if named[1] is not None else named[2]
        if name == b"file":
            self._read_file_head(heads[0], lines)
        return name

    def _read_file_head(self, head: bytes, lines: list[bytes]) -> None:
        if self._has_file:
            raise make_malformed_error("it has two parts named file")
        self._has_file = True
        found = _FILE_NAME.search(head)
        raw = b"" if found is None else (found[1] if found[1] is not None else found[2])
        text = re.sub(rb"\\(.)", rb"\1", raw).decode("utf-8", "replace")
        # Some clients send the whole path.
        self.file_name = "".join(c for c in text.replace("\\", "/").rpartition("/")[2] if c.isprintable())
        types = [match for line in lines if (match := _TYPE.match(line))]
        self.media_type = types[0][1].decode("ascii") if types else ""

    async def _iter_part(self) -> AsyncIterator[bytes]:
        """Yield the bytes of a part up to the next boundary, which is consumed."""
        while (end := self._buffer.find(self._divider)) < 0:
            # The end of the data may be the beginning of a boundary.
            safe = len(self._buffer) - len(self._divider) + 1
            if safe > 0:
                piece = bytes(self._buffer[:safe])
                del self._buffer[:safe]
                yield piece
            await self._fill()
        piece = bytes(self._buffer[:end])
        del self._buffer[: end + len(self._divider)]
        if piece:
            yield piece

    async def _read_field(self, name: bytes) -> None:
        value = bytearray()
        async for piece in self._iter_part():
            value += piece
            if len(value) > FIELD_BYTES_MAX:
                raise make_malformed_error("a field is too long")
        if len(self.fields) >= FIELDS_MAX:
            raise make_malformed_error("it has too many fields")
        try:
            self.fields[name.decode()] = value.decode()
        except UnicodeDecodeError as error:
            raise make_malformed_error("a field is not UTF-8") from error
