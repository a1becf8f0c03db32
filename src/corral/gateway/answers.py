"""Answers as bytes: heads, chunks, and errors in the caller's envelope."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus

from corral.api.openai import errors
from corral.domain.errors import CorralError
from corral.ports.engines import HeadLines

# Of its length and its bytes.
CHUNK = b"%x\r\n%b\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_KNOWN = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES = {
    status: f"HTTP/1.1 {status} {_KNOWN.get(status, '')}\r\n".encode("ascii") for status in range(200, 600)
}


def head(status: int, lines: HeadLines, common: bytes, framing: bytes) -> bytes:
    """`common` and `framing` are whole lines. Names and values come from our own parsers, without line breaks."""
    status_line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
    return b"".join([status_line, common, *[b"%b: %b\r\n" % line for line in lines], framing, b"\r\n"])


def whole(status: int, lines: HeadLines, common: bytes, request_id: bytes, body: bytes) -> bytes:
    """An answer that is there to its last byte, on a connection that stays."""
    own = b"x-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (request_id, len(body))
    return b"".join((_opening(status, lines), common, own, body))


@lru_cache(maxsize=256)
def _opening(status: int, lines: HeadLines) -> bytes:
    """What is the same in most answers of a replica."""
    return head(status, lines, b"", b"").removesuffix(b"\r\n")


def failure(path: str, error: CorralError, request_id: str) -> tuple[HeadLines, bytes]:
    """The lines and the body of an answer that is an error."""
    body = errors.rendered(path, error, request_id)
    return ((b"content-type", b"application/json"), *errors.headers(error)), body
