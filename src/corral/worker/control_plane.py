"""The calls that a worker makes to the control plane: as a protocol, and over HTTP at one of several frontends.

Every call may be repeated: the second one finds the first one's work done. All of them raise Corral's own errors; a
call that cannot be delivered raises `Unavailable`. The simulator has an implementation without sockets.

Over HTTP, the frontend that answered last is tried first; when it does not respond, the others are tried in turn. A
refusal is final for the call, whichever frontend gave it. Limit: each address may take its full timeout.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar
from urllib.parse import quote, urlsplit

import structlog

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

log = structlog.get_logger(__name__)
# Sentences may hold addresses or names, so their number has to be bounded.
MAX_REMEMBERED = 64


class ControlPlane(Protocol):
    """The calls that a worker makes to the control plane; each may be repeated without harm."""

    async def register(self, request: RegisterIn) -> RegisterOut:
        """Present this machine: the first time with a join token, later with its own credential."""
        ...

    async def send_heartbeat(self, node_id: str, heartbeat: HeartbeatIn) -> HeartbeatOut: ...

    async def refresh_credentials(self, node_id: str, bus_public_key: str) -> BusCredentialsOut:
        """Return a fresh credential for the bus; nothing else changes."""
        ...

    async def report_backends(self, node_id: str, report: BackendsReportIn) -> None:
        """Report all backends that are installed here."""
        ...

    async def report_holdings(self, node_id: str, report: HoldingsIn) -> None:
        """Report all engines that run here, and the files of models."""
        ...

    async def request_prefetch(self, node_id: str, body: PrefetchIn) -> PrefetchOut:
        """Request backends and model files for this machine. Return the result of each entry."""
        ...

    async def drain(self, node_id: str, boot_id: str) -> None:
        """Request that this node gets no new work. The boot id lets a frontend ignore a process that has been
        replaced."""
        ...

    async def resume(self, node_id: str, boot_id: str) -> None: ...

    async def deregister(self, node_id: str, boot_id: str) -> None:
        """Report that this worker stops. The node stays registered."""
        ...


class FailureLog:
    """Logs the failures of one repeated activity, each distinct message once, until the activity works again."""

    def __init__(self, activity: str) -> None:
        self._activity = activity
        self._logged: set[str] = set()
        self.latest: str | None = None

    def record_failure(self, error: Exception) -> None:
        sentence = str(error) or type(error).__name__
        self.latest = sentence
        if sentence in self._logged:
            return
        if len(self._logged) >= MAX_REMEMBERED:
            self._logged.clear()
        self._logged.add(sentence)
        log.warning("failed", what=self._activity, problem=sentence, hint=getattr(error, "hint", None))

    def record_recovery(self) -> None:
        """Record that the activity works again, so that the same failure is logged when it returns."""
        if self._logged:
            log.info("works again", what=self._activity)
        self._logged.clear()
        self.latest = None


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
