"""The calls that a worker makes to the control plane: as a protocol, and over HTTP at one of several frontends.

Every call may be repeated: the second one finds the first one's work done. All of them raise Corral's own errors; a
call that cannot be delivered raises `Unavailable`. The simulator has an implementation without sockets.

Over HTTP, the frontend that answered last is tried first; when it does not respond, the others are tried in turn. A
refusal is final for the call, whichever frontend gave it. Limit: each address may take its full timeout.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit

import structlog

from corral.client.files import FileUploader
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
from corral.wire.run_work import (
    AskAgentIn,
    AskAgentOut,
    McpServerFetchIn,
    McpServerFetchOut,
    RunEventsIn,
    RunEventsOut,
    RunWorkOut,
)

log = structlog.get_logger(__name__)
# Sentences may hold addresses or names, so their number has to be bounded.
MAX_REMEMBERED = 64


class ControlPlane(Protocol):
    """Interface of the HTTP calls that a worker makes to frontends; each may be repeated without harm."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCall:
    """One HTTP call of a worker to a frontend about one run (such as an LLM agent's turn).

    It has the parts of its path behind the run, and its parameters or its body.
    """

    verb: str
    parts: tuple[str, ...]
    fields: Mapping[str, Any]


class RunControlPlane(Protocol):
    """Interface of the HTTP calls that a worker makes to frontends about its runs; each may be repeated.

    `NotFound` and `Conflict` mean that the run is not this worker's any more.
    """

    def list_frontend_urls(self) -> tuple[str, ...]:
        """Return the addresses of the frontends, the one that answered last first."""
        ...

    async def fetch_run(self, node_id: str, run_id: str, job_id: str) -> RunWorkOut:
        """Return what to do in a run that this node was given."""
        ...

    async def send_run_events(self, node_id: str, run_id: str, delivery: RunEventsIn) -> RunEventsOut:
        """Deliver new entries of a run's trace, or a sign of life."""
        ...

    async def ask_agent(self, node_id: str, run_id: str, agent: str, body: AskAgentIn) -> AskAgentOut:
        """Start the run of another agent for a tool call of this run, and return the state of that run."""
        ...

    async def fetch_mcp_server(self, node_id: str, body: McpServerFetchIn) -> McpServerFetchOut:
        """Return how the MCP server is reached that a ticket for this node names."""
        ...

    async def call_run(self, node_id: str, run_id: str, call: RunCall) -> dict[str, Any]:
        """Send another call about a run, and return the fields of its answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResultFile:
    """A file that a run's program has made on a worker, and the call that tells a frontend about it."""

    path: Path
    job_id: str
    # The call once the file has arrived; `sha256` is added to its fields.
    call: RunCall


class RunFileControlPlane(RunControlPlane, Protocol):
    """Interface of the HTTP calls of a worker whose runs send large files; each may be repeated."""

    async def store_result(
        self, node_id: str, run_id: str, result: RunResultFile, on_progress: Callable[[int, int], None]
    ) -> dict[str, Any]:
        """Send the file that a run has made to a frontend, tell that frontend about it, and return its answer.
        `on_progress` receives the bytes that have arrived, and all."""
        ...


class FailureLog:
    """Logs failures of one repeated activity of a worker, each message once, until the activity works again."""

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

# Codes of errors of our own client: the frontend has sent no answer.
_NO_ANSWER_CODES = frozenset({"unreachable", "timeout"})
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
    """Calls the first of several frontends that answers, over HTTP, on behalf of a worker.

    Implements `ControlPlane` and `RunControlPlane`.
    """

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

    def list_frontend_urls(self) -> tuple[str, ...]:
        return tuple(frontend.authenticated.url for frontend in self._frontends)

    async def fetch_run(self, node_id: str, run_id: str, job_id: str) -> RunWorkOut:
        call = ApiRequest(method="GET", path=_format_run_path(node_id, run_id), parameters={"job_id": job_id})
        return await self._call_any_frontend(lambda frontend: frontend.authenticated.fetch(call, RunWorkOut))

    async def send_run_events(self, node_id: str, run_id: str, delivery: RunEventsIn) -> RunEventsOut:
        call = ApiRequest(method="POST", path=_format_run_path(node_id, run_id, "events"), body=delivery)
        return await self._call_any_frontend(lambda frontend: frontend.authenticated.fetch(call, RunEventsOut))

    async def ask_agent(self, node_id: str, run_id: str, agent: str, body: AskAgentIn) -> AskAgentOut:
        call = ApiRequest(method="POST", path=_format_run_path(node_id, run_id, "agents", agent), body=body)
        return await self._call_any_frontend(lambda frontend: frontend.authenticated.fetch(call, AskAgentOut))

    async def fetch_mcp_server(self, node_id: str, body: McpServerFetchIn) -> McpServerFetchOut:
        call = ApiRequest(method="POST", path=_format_path(node_id, "mcp"), body=body)
        return await self._call_any_frontend(lambda frontend: frontend.authenticated.fetch(call, McpServerFetchOut))

    async def call_run(self, node_id: str, run_id: str, call: RunCall) -> dict[str, Any]:
        path = _format_run_path(node_id, run_id, *call.parts)
        if call.verb == "GET":
            parameters = {name: str(value) for name, value in call.fields.items()}
            request = ApiRequest(method=call.verb, path=path, parameters=parameters)
        else:
            request = ApiRequest(method=call.verb, path=path, body=call.fields)
        answer = await self._call_any_frontend(lambda frontend: frontend.authenticated.send(request))
        fields = json.loads(answer) if answer else {}
        return fields if isinstance(fields, dict) else {}

    async def store_result(
        self, node_id: str, run_id: str, result: RunResultFile, on_progress: Callable[[int, int], None]
    ) -> dict[str, Any]:
        folder = f"/api/files/results/{quote(node_id, safe='')}/{quote(run_id, safe='')}"
        query = f"?job_id={quote(result.job_id, safe='')}"

        async def send(frontend: _FrontendTransports) -> dict[str, Any]:
            # Both to one frontend: it has the file then.
            transport = frontend.authenticated
            sha256 = await FileUploader(transport, folder, query).send_file(result.path, on_progress)
            path = _format_run_path(node_id, run_id, *result.call.parts)
            fields = {**result.call.fields, "sha256": sha256}
            return await transport.fetch(ApiRequest(method=result.call.verb, path=path, body=fields), dict[str, Any])

        return await self._call_any_frontend(send)

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
        errors: list[Unavailable] = []
        for frontend in list(self._frontends):
            try:
                answer = await call(frontend)
            except Unavailable as error:
                errors.append(error)
                continue
            # First in the list from now on; the others keep their order.
            self._frontends.remove(frontend)
            self._frontends.insert(0, frontend)
            return answer
        # The answer of a frontend says more than the silence of another one.
        raise next((error for error in errors if error.slug not in _NO_ANSWER_CODES), errors[0])


def _is_address(url: str) -> bool:
    parts = urlsplit(url)
    try:
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _format_path(node_id: str, verb: str) -> str:
    return f"/api/node/{quote(node_id, safe='')}/{verb}"


def _format_run_path(node_id: str, run_id: str, *parts: str) -> str:
    return _format_path(node_id, "/".join(quote(part, safe="") for part in ("runs", run_id, *parts)))
