"""Fetching small documents over HTTP: indexes of galleries and manifests of registries, never artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One request. `limit_bytes` is for the body after it has been unpacked; `timeout_s` is for all of it."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    # What is sent; it may hold a secret and goes to the named address only, wherever that one points.
    body: bytes | None = field(default=None, repr=False)
    limit_bytes: int = 4 * 1024 * 1024
    timeout_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What came back, whatever the status. Names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class Fetcher(Protocol):
    async def fetch(self, wanted: Wanted) -> Fetched:
        """The answer. `Unavailable` with the code `source_unavailable` if there is none: refused, cut, slow, a body
        over the limit, or redirected too often. The sentence holds neither password nor query of the address."""
        ...

    async def addresses(self, host: str) -> tuple[str, ...]:
        """What the name service says about a host; empty if it knows nothing."""
        ...
