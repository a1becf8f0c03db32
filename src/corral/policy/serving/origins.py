"""Which web pages of other origins may call models from a browser (CORS). Off unless origins are set.

Only paths for models are open to other origins. Cookies are never allowed with such calls: a page brings a key. So a
page of another origin can do what a holder of its key can, and nothing in the name of whoever looks at the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corral.domain.errors import NotAllowed

ANY = "*"
# How long a browser may remember the answer to a preflight.
_PREFLIGHT_S = b"600"
Lines = list[tuple[bytes, bytes]]


class OriginPolicy:
    """Answers what browsers ask before and after they call across origins."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode("ascii") for origin in origins)
        self._is_open = ANY in origins

    @property
    def is_on(self) -> bool:
        return bool(self._origins)

    def is_allowed(self, origin: bytes) -> bool:
        return self._is_open or origin.lower() in self._origins

    def response_lines(self, origin: bytes) -> Lines:
        """Return the lines that let a page of this origin read an answer; of another origin, only that it matters."""
        lines = [(b"vary", b"origin")]
        if self.is_allowed(origin):
            lines += [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", b"*")]
        return lines

    def preflight_lines(self, origin: bytes, headers: Mapping[bytes, bytes]) -> Lines:
        """Return the lines of the answer to a preflight. `NotAllowed` for an origin that is not set."""
        if not self.is_allowed(origin):
            raise NotAllowed(
                f"Pages of {origin[:200].decode('latin-1')} may not call models.",
                hint="The setting cors_origins names those that may.",
                code="origin_not_allowed",
            )
        wanted = headers.get(b"access-control-request-headers", b"*")
        return [
            (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
            (b"access-control-allow-headers", wanted),
            (b"access-control-max-age", _PREFLIGHT_S),
        ]
