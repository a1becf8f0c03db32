"""An answer that says no becomes the same error that the frontend raised: class by code, else by status.

No answer, because https:// or http:// met the other one or a certificate that nobody vouches for, is told by its cause.
The probe for that sends neither a key nor a request.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

from pydantic import ValidationError

from corral.domain.errors import (
    Conflict,
    CorralError,
    InvalidRequest,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    TooLarge,
    Unavailable,
    Unprocessable,
)
from corral.wire.errors import ErrorBody, ErrorOut

PROBE_LIMIT_S = 3.0
# What OpenSSL calls an answer that is no TLS at all.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})

_BY_STATUS: dict[int, type[CorralError]] = {
    400: InvalidRequest,
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Unprocessable,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_from_answer(status: int, body: bytes, *, origin: str) -> CorralError:
    """The error that an answer carries. An answer that is not ours (a proxy's page) gets a sentence about that."""
    kind = _BY_STATUS.get(status, CorralError)
    try:
        error = ErrorOut.model_validate_json(body).error
    except ValidationError:
        return _error_of_a_stranger(kind, status, origin)
    kind = _class_by_code().get(error.code, kind)
    return kind(error.message, hint=error.hint, code=error.code, details=_details(error))


def unexpected_answer(origin: str, what: str) -> CorralError:
    return CorralError(
        f"{origin} answered with something that is not Corral's: {what}.",
        hint="Is this the address of a frontend, and of a version near this one? `corral version` shows ours.",
        code="unexpected_answer",
    )


def _error_of_a_stranger(kind: type[CorralError], status: int, origin: str) -> CorralError:
    if kind is NotAuthenticated:
        return kind(f"{origin} wants a valid key.", hint="`corral login` stores one.")
    return kind(
        f"{origin} answered with status {status} and no explanation.",
        hint="Is this the address of a frontend? Something between here and there may have answered instead.",
        code="unexpected_answer",
    )


def _details(error: ErrorBody) -> dict[str, object]:
    details: dict[str, object] = dict(error.details)
    if error.request_id:
        details["request_id"] = error.request_id
    return details


def _class_by_code() -> dict[str, type[CorralError]]:
    return {kind.code: kind for kind in _descendants(CorralError)}


def _descendants(kind: type[CorralError]) -> Iterator[type[CorralError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _descendants(child)


def parse_json(body: bytes, *, origin: str) -> object:
    try:
        return json.loads(body)
    except ValueError as error:
        raise unexpected_answer(origin, "no JSON") from error


def explain_tls_error(url: str, error: Exception) -> CorralError | None:
    """Return the error to show for a failed handshake with an https:// address; None if it was no such failure."""
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Unavailable(
            f"The certificate of {url} is not trusted ({cause.verify_message or cause.reason}).",
            hint="If it is signed by an authority of your own, set SSL_CERT_FILE to the file with its certificate.",
            code="certificate_not_trusted",
        )
    if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
        plain = f"http:{url.removeprefix('https:')}"
        return Unavailable(
            f"{url} speaks http, not https.",
            hint=f"Use {plain} instead, or the port that speaks https.",
            code="wrong_scheme",
        )
    return None


async def explain_lost_answer(url: str) -> CorralError | None:
    """Return the error to show if the http:// address, which sent no HTTP, speaks TLS; None if it does not."""
    if not url.startswith("http:") or not await _speaks_tls(url):
        return None
    secure = f"https:{url.removeprefix('http:')}"
    return Unavailable(f"{url} speaks https, not http.", hint=f"Use {secure} instead.", code="wrong_scheme")


async def _speaks_tls(url: str) -> bool:
    # Whoever it is: nothing is said to it.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        address = urlsplit(url)
        async with asyncio.timeout(PROBE_LIMIT_S):
            _, writer = await asyncio.open_connection(address.hostname, address.port or 80, ssl=context)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    except (OSError, ValueError):
        return False
    return True
