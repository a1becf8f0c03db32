"""The head of a request for a model, read by llhttp, in the one plain form that the hot path takes.

Plain: HTTP/1.0 or 1.1, whole, with one length or none, not in chunks, nothing to expect and nothing to upgrade to. What
is not plain, or not HTTP, is not judged here: `None`, and uvicorn gets the same bytes and decides. Guarantee: where a
body ends is what llhttp says in its strict form, so no two readers on this port can differ about it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import httptools

from corral.api.openai.asked import CALLS, Asked, preferred_wait_s, trace_context

# How the requests begin that are ours.
BEGINNINGS = tuple(f"POST {path} ".encode() for path in CALLS)
HEAD_BYTES_MAX = 32 * 1024
HEADERS_MAX = 100
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LENGTH = re.compile(rb"[0-9]{1,15}")
# With one of these a request is not plain.
_NOT_PLAIN = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
_READ = frozenset(
    {b"authorization", b"x-api-key", b"cookie", b"content-length", b"x-request-id", b"prefer", b"traceparent"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    asked: Asked
    size_bytes: int
    # Empty: the client gave none.
    request_id: str
    is_kept_alive: bool
    is_http_1_0: bool


class _Reader:
    """What llhttp calls."""

    __slots__ = ("count", "found", "has_body", "hosts", "is_plain", "is_whole", "url")

    def __init__(self) -> None:
        self.url = b""
        self.found: dict[bytes, bytes] = {}
        self.count = 0
        self.hosts = 0
        self.is_plain = True
        self.is_whole = False
        self.has_body = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self.count += 1
        if name in _NOT_PLAIN:
            self.is_plain = False
        elif name == b"host":
            self.hosts += 1
        elif name in _READ:
            # Of several, the first counts, as in the rest of the API.
            self.found.setdefault(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        self.is_plain = self.is_plain and not self.is_whole
        self.is_whole = True

    def on_body(self, body: bytes) -> None:
        del body
        self.has_body = True


def begins_ours(data: bytes) -> bool | None:
    """Whether a request that begins like this is ours; None: too short to tell."""
    if data.startswith(BEGINNINGS):
        return True
    return None if any(beginning.startswith(data) for beginning in BEGINNINGS) else False


def has_bare_feed(unfinished: bytes) -> bool:
    """Whether a head that is not at its end has lines that end with a line feed alone. It would never be at its end for
    us; llhttp says at once that it is no HTTP."""
    return unfinished.count(b"\n") != unfinished.count(b"\r\n")


def find_head_fault(version: str, url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> tuple[int, str] | None:
    """Status and sentence for a head that llhttp takes and nobody should (RFC 9112); None: it is fine."""
    if len(url) + sum(len(name) + len(value) + 4 for name, value in headers) > HEAD_BYTES_MAX:
        return 431, f"The head of a request may have {HEAD_BYTES_MAX // 1024} KiB."
    if version not in ("1.0", "1.1"):
        return 505, "Requests have to be in HTTP/1.1."
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (not hosts and version != "1.0"):
        return 400, "A request has one Host line."
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and version == "1.0":
        return 400, "HTTP/1.0 has no Transfer-Encoding."
    if codings and codings != [b"chunked"]:
        return 400, "The only Transfer-Encoding that is understood is chunked."
    return None


def has_origin(raw: bytes) -> bool:
    """Whether a head has a line `Origin`, which browsers send with calls across origins."""
    return b"\norigin:" in raw.lower()


def read_head(raw: bytes) -> Head | None:
    """`raw` ends with the first empty line. None: not plain, or not HTTP."""
    reader = _Reader()
    parser = httptools.HttpRequestParser(reader)
    try:
        parser.feed_data(raw)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    if not reader.is_plain or not reader.is_whole or reader.has_body or reader.count > HEADERS_MAX:
        return None
    version, found = parser.get_http_version(), reader.found
    if reader.hosts != 1 and (reader.hosts or version != "1.0"):
        return None
    secret = _secret(found)
    if secret is None and b"cookie" in found:
        return None  # A browser: whose session it has is found out where there is time for it.
    length = found.get(b"content-length", b"0")
    path = reader.url.decode("ascii", "replace")
    if version not in ("1.0", "1.1") or path not in CALLS or _LENGTH.fullmatch(length) is None:
        return None
    given = found.get(b"x-request-id", b"")
    return Head(
        asked=Asked(
            path=path,
            call=CALLS[path],
            secret=secret,
            wait_s=preferred_wait_s(found.get(b"prefer", b"").decode("latin-1")),
            traceparent=trace_context(found.get(b"traceparent", b"").decode("latin-1")),
        ),
        size_bytes=int(length),
        request_id=given.decode() if _REQUEST_ID.fullmatch(given) else "",
        is_kept_alive=version == "1.1" and parser.should_keep_alive(),
        is_http_1_0=version == "1.0",
    )


def _secret(found: dict[bytes, bytes]) -> str | None:
    """As `api.parts.bearer`."""
    scheme, _, secret = found.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and secret.strip():
        return secret.strip().decode("latin-1")
    given = found.get(b"x-api-key")
    return None if given is None else given.decode("latin-1")
