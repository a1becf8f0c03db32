"""Decides which web pages of other origins may call models from a browser (CORS). Off unless origins are set.

Only calls of models are open to other origins; `api/middleware.py` has their paths. Cookies are never allowed with such
calls: a page brings a key. So a page of another origin can call models as a holder of its key can, and nothing is done
in the name of the person who views the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corral.domain.errors import NotAllowed

ANY = "*"
# How long a browser may cache the response to a preflight.
_PREFLIGHT_S = b"600"
CorsHeaders = list[tuple[bytes, bytes]]


class CorsPolicy:
    """Decides which web pages of other origins may call models from a browser (CORS), and renders the headers."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode("ascii") for origin in origins)
        self._is_open = ANY in origins

    @property
    def is_on(self) -> bool:
        return bool(self._origins)

    def is_allowed(self, origin: bytes) -> bool:
        return self._is_open or origin.lower() in self._origins

    def has_named(self, origin: bytes) -> bool:
        """Return whether the settings name this very origin; `*` names none."""
        return origin.lower() in self._origins - {ANY.encode()}

    def render_response_headers(self, origin: bytes) -> CorsHeaders:
        """Return the headers that let a page of this origin read a response; for another origin, only `Vary`."""
        lines = [(b"vary", b"origin")]
        if self.is_allowed(origin):
            lines += [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", b"*")]
        return lines

    def render_preflight_headers(self, origin: bytes, headers: Mapping[bytes, bytes]) -> CorsHeaders:
        """Return the headers of the response to a preflight. Raises `NotAllowed` for an origin that is not set."""
        if not self.is_allowed(origin):
            raise NotAllowed(
                f"Pages of {origin[:200].decode('latin-1')} may not call models.",
                hint="Add the origin to the setting cors_origins.",
                code="origin_not_allowed",
            )
        requested = headers.get(b"access-control-request-headers", b"*")
        return [
            (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
            (b"access-control-allow-headers", requested),
            (b"access-control-max-age", _PREFLIGHT_S),
        ]
