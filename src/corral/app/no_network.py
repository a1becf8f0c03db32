"""A fetcher that reaches nothing: for frontends without a way out, and for the simulator."""

from __future__ import annotations

from corral.domain.errors import Unavailable
from corral.ports.fetch import Fetched, Wanted


class NoNetwork:
    async def fetch(self, wanted: Wanted) -> Fetched:
        raise Unavailable(f"There is no way to {wanted.url.partition('?')[0][:200]}.", code="source_unavailable")

    async def addresses(self, host: str) -> tuple[str, ...]:
        del host
        return ()
