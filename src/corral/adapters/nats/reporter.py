"""Says each thing once. An outage repeats one sentence at every attempt; an operator needs it one time."""

from __future__ import annotations

from urllib.parse import urlsplit

import structlog

from corral.domain.errors import InvalidRequest

log = structlog.get_logger(__name__)

_SCHEMES = ("nats", "tls", "ws", "wss")

# Sentences name subjects, so their number is not bounded by itself.
MAX_REMEMBERED = 256


class Reporter:
    """Logs a sentence when it is new, until `forget`."""

    def __init__(self, client_name: str) -> None:
        self._client_name = client_name
        self._said: set[str] = set()

    def warn(self, sentence: str) -> None:
        if sentence in self._said:
            return
        if len(self._said) >= MAX_REMEMBERED:
            self._said.clear()
        self._said.add(sentence)
        log.warning("bus", client=self._client_name, problem=sentence)

    def forget(self) -> None:
        """After a success the same trouble is news again."""
        self._said.clear()


def check_url(url: str) -> None:
    """`InvalidRequest` for what is no address of a NATS server; the password in it is not repeated."""
    text = url.strip()
    parts = urlsplit(text if "//" in text else f"nats://{text}")
    try:
        is_right = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_right = False
    if not is_right:
        raise InvalidRequest(
            "This is not an address of a NATS server.", hint="It looks like nats://host:4222 or tls://host:4222."
        )


def printable_url(url: str) -> str:
    """The address without user, password, path and query: what may be logged."""
    text = url.strip()
    parts = urlsplit(text if "//" in text else f"nats://{text}")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
