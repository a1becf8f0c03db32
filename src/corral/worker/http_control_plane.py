"""Calls the control plane over HTTP, at one of several frontends.

The frontend that answered last is tried first; when it does not respond, the others are tried in turn. A refusal is
final for the call, whichever frontend gave it. Limit: each address may take its full timeout.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, urlsplit

from corral.client.transport import ApiRequest, ApiTransport
from corral.domain.errors import InvalidRequest, Unavailable
from corral.ports.runtime import Clock, IdGenerator
from corral.wire.backends import BackendsReportIn
from corral.wire.holdings import HoldingsIn, PrefetchIn, PrefetchOut
from corral.wire.nodes import (
    BusCredentialsIn,
    BusCredentialsOut,
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
class _FrontendTransports:
    """Holds two transports to one frontend: without a key to register, with the node's credential otherwise."""

    # Registration sends no key: a frontend takes a bearer token for a join token.
    anonymous: ApiTransport
    authenticated: ApiTransport


def parse_frontend_urls(text: str) -> tuple[str, ...]:
    """Return the addresses in a comma-separated list; `InvalidRequest` names the one that is wrong."""
    urls = tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())
    for url in urls:
        if not _is_address(url):
            raise InvalidRequest("An address in --join is not that of a frontend.", hint="Write http://host:8080.")
    if not urls:
        raise InvalidRequest("The address of a frontend is missing.", hint="corral worker --join http://host:8080")
    return urls


class HttpControlPlane:
    """Calls the control plane over HTTP, at the first of several frontends that answers. Implements `ControlPlane`."""

    def __init__(
        self,
        urls: tuple[str, ...],
        credential: str,
        *,
        clock: Clock,
        ids: IdGenerator,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        def transport(url: str, key: str | None) -> ApiTransport:
            # One attempt only: membership has a pace of its own, and there may be another frontend to try.
            return ApiTransport(url, key, timeout_s=timeout_s, clock=clock, ids=ids, pauses_s=())

        self._frontends = [
            _FrontendTransports(anonymous=transport(url, None), authenticated=transport(url, credential))
            for url in urls
        ]

    async def close(self) -> None:
        for frontend in self._frontends:
            await frontend.anonymous.close()
            await frontend.authenticated.close()

    async def register(self, request: RegisterIn) -> RegisterOut:
        call = ApiRequest(method="POST", path="/api/node/register", body=request)
        return await self._call_any_frontend(lambda frontend: frontend.anonymous.fetch(call, RegisterOut))

    async def send_heartbeat(self, node_id: str, heartbeat: HeartbeatIn) -> HeartbeatOut:
        call = ApiRequest(method="POST", path=_format_path(node_id, "heartbeat"), body=heartbeat)
        return await self._call_any_frontend(lambda frontend: frontend.authenticated.fetch(call, HeartbeatOut))

    async def refresh_credentials(self, node_id: str, bus_public_key: str) -> BusCredentialsOut:
        body = BusCredentialsIn(bus_public_key=bus_public_key)
        call = ApiRequest(method="POST", path=_format_path(node_id, "credentials"), body=body)
        return await self._call_any_frontend(lambda frontend: frontend.authenticated.fetch(call, BusCredentialsOut))

    async def report_backends(self, node_id: str, report: BackendsReportIn) -> None:
        call = ApiRequest(method="POST", path=_format_path(node_id, "backends"), body=report)
        # Any successful response will do; its body needs no action.
        await self._call_any_frontend(lambda frontend: frontend.authenticated.send(call))

    async def report_holdings(self, node_id: str, report: HoldingsIn) -> None:
        call = ApiRequest(method="POST", path=_format_path(node_id, "holdings"), body=report)
        await self._call_any_frontend(lambda frontend: frontend.authenticated.send(call))

    async def request_prefetch(self, node_id: str, body: PrefetchIn) -> PrefetchOut:
        call = ApiRequest(method="POST", path=_format_path(node_id, "prefetch"), body=body)
        return await self._call_any_frontend(lambda frontend: frontend.authenticated.fetch(call, PrefetchOut))

    async def drain(self, node_id: str, boot_id: str) -> None:
        await self._post_lifecycle(node_id, "drain", boot_id)

    async def resume(self, node_id: str, boot_id: str) -> None:
        await self._post_lifecycle(node_id, "resume", boot_id)

    async def deregister(self, node_id: str, boot_id: str) -> None:
        await self._post_lifecycle(node_id, "deregister", boot_id)

    async def _post_lifecycle(self, node_id: str, verb: str, boot_id: str) -> None:
        call = ApiRequest(method="POST", path=_format_path(node_id, verb), body={"boot_id": boot_id})
        await self._call_any_frontend(lambda frontend: frontend.authenticated.fetch(call, MessageOut))

    async def _call_any_frontend(self, call: Callable[[_FrontendTransports], Awaitable[T]]) -> T:
        first_error: Unavailable | None = None
        for frontend in list(self._frontends):
            try:
                answer = await call(frontend)
            except Unavailable as error:
                first_error = first_error or error
                continue
            # First in the list from now on; the others keep their order.
            self._frontends.remove(frontend)
            self._frontends.insert(0, frontend)
            return answer
        assert first_error is not None, "there is at least one frontend"
        raise first_error


def _is_address(url: str) -> bool:
    parts = urlsplit(url)
    try:
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _format_path(node_id: str, verb: str) -> str:
    return f"/api/node/{quote(node_id, safe='')}/{verb}"
