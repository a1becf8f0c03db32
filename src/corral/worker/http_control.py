"""The control plane over HTTP, at one of several frontends.

The frontend that answered last is asked first; when it does not answer, the others are tried in turn. An answer that
says no is final for the call, whichever frontend gave it. Limit: each address may take its full timeout.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, urlsplit

from corral.client.http import Call, Transport
from corral.domain.errors import InvalidRequest, Unavailable
from corral.ports.runtime import Clock, Ids
from corral.wire.backends import BackendsReportIn
from corral.wire.holdings import HoldingsIn, PrefetchIn, PrefetchOut
from corral.wire.nodes import (
    CredentialsIn,
    CredentialsOut,
    HeartbeatIn,
    HeartbeatOut,
    MessageOut,
    RegisterIn,
    RegisterOut,
)

T = TypeVar("T")

# Shorter than any lease: a call that hangs must leave time for the next heartbeat.
CALL_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frontend:
    # Registering is done without a key: a frontend takes a bearer token for a join token.
    anonymous: Transport
    own: Transport


def frontend_urls(text: str) -> tuple[str, ...]:
    """The addresses in a comma-separated list; `InvalidRequest` names the one that is wrong."""
    urls = tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())
    for url in urls:
        if not _is_address(url):
            raise InvalidRequest("An address in --join is not that of a frontend.", hint="Write http://host:8080.")
    if not urls:
        raise InvalidRequest("The address of a frontend is missing.", hint="corral worker --join http://host:8080")
    return urls


class HttpControl:
    def __init__(
        self, urls: tuple[str, ...], credential: str, *, clock: Clock, ids: Ids, timeout_s: float = CALL_TIMEOUT_S
    ) -> None:
        def transport(url: str, key: str | None) -> Transport:
            # One attempt: the agent has a pace of its own, and there may be another frontend to ask.
            return Transport(url, key, timeout_s=timeout_s, clock=clock, ids=ids, pauses_s=())

        self._frontends = [_Frontend(anonymous=transport(url, None), own=transport(url, credential)) for url in urls]

    async def close(self) -> None:
        for frontend in self._frontends:
            await frontend.anonymous.close()
            await frontend.own.close()

    async def register(self, wish: RegisterIn) -> RegisterOut:
        call = Call(method="POST", path="/api/node/register", body=wish)
        return await self._somewhere(lambda frontend: frontend.anonymous.fetch(call, RegisterOut))

    async def heartbeat(self, node_id: str, beat: HeartbeatIn) -> HeartbeatOut:
        call = Call(method="POST", path=_path(node_id, "heartbeat"), body=beat)
        return await self._somewhere(lambda frontend: frontend.own.fetch(call, HeartbeatOut))

    async def refresh_credentials(self, node_id: str, bus_public_key: str) -> CredentialsOut:
        body = CredentialsIn(bus_public_key=bus_public_key)
        call = Call(method="POST", path=_path(node_id, "credentials"), body=body)
        return await self._somewhere(lambda frontend: frontend.own.fetch(call, CredentialsOut))

    async def report_backends(self, node_id: str, report: BackendsReportIn) -> None:
        call = Call(method="POST", path=_path(node_id, "backends"), body=report)
        # Any good answer will do; what it says is nothing to act on.
        await self._somewhere(lambda frontend: frontend.own.send(call))

    async def report_holdings(self, node_id: str, report: HoldingsIn) -> None:
        call = Call(method="POST", path=_path(node_id, "holdings"), body=report)
        await self._somewhere(lambda frontend: frontend.own.send(call))

    async def request_prefetch(self, node_id: str, body: PrefetchIn) -> PrefetchOut:
        call = Call(method="POST", path=_path(node_id, "prefetch"), body=body)
        return await self._somewhere(lambda frontend: frontend.own.fetch(call, PrefetchOut))

    async def drain(self, node_id: str, boot_id: str) -> None:
        await self._say(node_id, "drain", boot_id)

    async def resume(self, node_id: str, boot_id: str) -> None:
        await self._say(node_id, "resume", boot_id)

    async def deregister(self, node_id: str, boot_id: str) -> None:
        await self._say(node_id, "deregister", boot_id)

    async def _say(self, node_id: str, verb: str, boot_id: str) -> None:
        call = Call(method="POST", path=_path(node_id, verb), body={"boot_id": boot_id})
        await self._somewhere(lambda frontend: frontend.own.fetch(call, MessageOut))

    async def _somewhere(self, ask: Callable[[_Frontend], Awaitable[T]]) -> T:
        trouble: Unavailable | None = None
        for frontend in list(self._frontends):
            try:
                answer = await ask(frontend)
            except Unavailable as error:
                trouble = trouble or error
                continue
            # First in the list from now on; the others keep their order.
            self._frontends.remove(frontend)
            self._frontends.insert(0, frontend)
            return answer
        assert trouble is not None, "there is at least one frontend"
        raise trouble


def _is_address(url: str) -> bool:
    parts = urlsplit(url)
    try:
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _path(node_id: str, verb: str) -> str:
    return f"/api/node/{quote(node_id, safe='')}/{verb}"
