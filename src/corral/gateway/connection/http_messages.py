"""Parses the heads of inference requests with llhttp, in the one plain form that the hot path accepts, and renders
responses.

Plain means: HTTP/1.0 or 1.1, a complete head, one Content-Length or none, no chunked body, no Expect and no Upgrade. A
head that is not plain, or not HTTP, is not judged here: the result is `None`, and uvicorn gets the same bytes and
decides. Guarantee: the end of a body is where llhttp's strict mode says, so no two readers on this port can disagree
about it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus

import httptools

from corral.domain.errors import CorralError
from corral.gateway.errors import render_error, render_error_headers
from corral.gateway.request.request_builder import CALLS, RequestHead, parse_preferred_wait_s
from corral.ports.requests import HeadLines, sanitise_traceparent

# The first bytes of the requests that the hot path answers.
REQUEST_LINE_PREFIXES = tuple(f"POST {path} ".encode() for path in CALLS)
HEAD_BYTES_MAX = 32 * 1024
HEADERS_MAX = 100
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LENGTH = re.compile(rb"[0-9]{1,15}")
# A request with one of these headers is not plain.
_NOT_PLAIN_HEADERS = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
_READ_HEADERS = frozenset(
    {b"authorization", b"x-api-key", b"cookie", b"content-length", b"x-request-id", b"prefer", b"traceparent"}
)
# Forbids browsers to guess another content type than the one of the response.
NO_SNIFF = (b"x-content-type-options", b"nosniff")
# The length in hexadecimal, then the bytes of the chunk.
CHUNK_FORMAT = b"%x\r\n%b\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES = {
    status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode("ascii") for status in range(200, 600)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpHead:
    """Parsed head of one plain HTTP request on the gateway's fast path.

    Holds its path, the length of its body, and whether its connection is kept open.
    """

    request_head: RequestHead
    size_bytes: int
    # Empty if the client sent no request id.
    request_id: str
    is_kept_alive: bool
    is_http_1_0: bool


class _HeaderCollector:
    """Collects the URL and the headers of one request head from the callbacks of llhttp."""

    __slots__ = ("found", "has_body", "header_count", "host_count", "is_plain", "is_whole", "url")

    def __init__(self) -> None:
        self.url = b""
        self.found: dict[bytes, bytes] = {}
        self.header_count = 0
        self.host_count = 0
        self.is_plain = True
        self.is_whole = False
        self.has_body = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self.header_count += 1
        if name in _NOT_PLAIN_HEADERS:
            self.is_plain = False
        elif name == b"host":
            self.host_count += 1
        elif name in _READ_HEADERS:
            # The first of several equal headers counts, as in the rest of the API.
            self.found.setdefault(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        self.is_plain = self.is_plain and not self.is_whole
        self.is_whole = True

    def on_body(self, body: bytes) -> None:
        del body
        self.has_body = True


def match_hot_path(data: bytes) -> bool | None:
    """Return whether a request that begins with `data` belongs to the hot path; None if `data` is too short to
    decide."""
    if data.startswith(REQUEST_LINE_PREFIXES):
        return True
    return None if any(beginning.startswith(data) for beginning in REQUEST_LINE_PREFIXES) else False


def has_bare_line_feed(unfinished: bytes) -> bool:
    """Return whether an incomplete head has lines that end with a line feed alone. The hot path would wait for the end
    of such a head for ever, while llhttp rejects it at once."""
    return unfinished.count(b"\n") != unfinished.count(b"\r\n")


def find_head_fault(version: str, url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> tuple[int, str] | None:
    """Return status and message for a head that llhttp accepts although RFC 9112 forbids it; None if the head is
    valid."""
    if len(url) + sum(len(name) + len(value) + 4 for name, value in headers) > HEAD_BYTES_MAX:
        return 431, f"The head of a request may have {HEAD_BYTES_MAX // 1024} KiB."
    if version not in ("1.0", "1.1"):
        return 505, "Requests must use HTTP/1.1."
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (not hosts and version != "1.0"):
        return 400, "A request must have exactly one Host header."
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and version == "1.0":
        return 400, "HTTP/1.0 does not support Transfer-Encoding."
    if codings and codings != [b"chunked"]:
        return 400, "The only supported Transfer-Encoding is chunked."
    return None


def has_origin(raw: bytes) -> bool:
    """Return whether a head has an `Origin` header, which browsers send with cross-origin calls."""
    return b"\norigin:" in raw.lower()


def parse_http_head(raw: bytes) -> HttpHead | None:
    """Parse the head `raw`, which ends with the first empty line. Return None if the head is not plain, or not HTTP."""
    reader = _HeaderCollector()
    parser = httptools.HttpRequestParser(reader)
    try:
        parser.feed_data(raw)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    if not reader.is_plain or not reader.is_whole or reader.has_body or reader.header_count > HEADERS_MAX:
        return None
    version, found = parser.get_http_version(), reader.found
    if reader.host_count != 1 and (reader.host_count or version != "1.0"):
        return None
    secret = _parse_secret(found)
    if secret is None and b"cookie" in found:
        return None  # A cookie means a browser session, and uvicorn's routes look sessions up in the registry.
    length = found.get(b"content-length", b"0")
    path = reader.url.decode("ascii", "replace")
    if version not in ("1.0", "1.1") or path not in CALLS or _LENGTH.fullmatch(length) is None:
        return None
    given = found.get(b"x-request-id", b"")
    return HttpHead(
        request_head=RequestHead(
            path=path,
            call=CALLS[path],
            secret=secret,
            wait_s=parse_preferred_wait_s(found.get(b"prefer", b"").decode("latin-1")),
            traceparent=sanitise_traceparent(found.get(b"traceparent", b"").decode("latin-1")),
        ),
        size_bytes=int(length),
        request_id=given.decode() if _REQUEST_ID.fullmatch(given) else "",
        is_kept_alive=version == "1.1" and parser.should_keep_alive(),
        is_http_1_0=version == "1.0",
    )


def _parse_secret(found: dict[bytes, bytes]) -> str | None:
    """Return the secret of an API key from its header, by the same rules as `api.deps.get_bearer_secret`."""
    scheme, _, secret = found.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and secret.strip():
        return secret.strip().decode("latin-1")
    given = found.get(b"x-api-key")
    return None if given is None else given.decode("latin-1")


def render_head(status: int, headers: HeadLines, common: bytes, framing: bytes) -> bytes:
    """Render a response head. `common` and `framing` are complete header lines. Names and values come from our own
    parsers, without line breaks."""
    status_line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
    return b"".join([status_line, common, *[b"%b: %b\r\n" % line for line in headers], framing, b"\r\n"])


def render_whole(status: int, headers: HeadLines, common: bytes, request_id: bytes, body: bytes) -> bytes:
    """Render a complete response on a connection that is kept open."""
    own = b"x-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (request_id, len(body))
    return b"".join((_render_common_head(status, headers), common, own, body))


@lru_cache(maxsize=256)
def _render_common_head(status: int, lines: HeadLines) -> bytes:
    """Render the status line and the headers that most responses of a replica share, so that the result can be
    cached."""
    return render_head(status, lines, b"", b"").removesuffix(b"\r\n")


def render_failure(path: str, error: CorralError, request_id: str) -> tuple[HeadLines, bytes]:
    """Return the headers and the body of an error response."""
    body = render_error(path, error, request_id)
    return ((b"content-type", b"application/json"), *render_error_headers(error)), body
