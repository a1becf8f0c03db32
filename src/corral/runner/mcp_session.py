"""One session with an MCP server: connected, used by any number of runs at once, and closed with all that it started.

The client of the SDK must be entered and left by the same task, so each session has a task of its own that holds the
connection open; calls come from the tasks of runs. A call that is cancelled is cancelled at the server, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
import structlog
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT, CallToolResult, Implementation, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from corral import __version__
from corral.domain.errors import CorralError
from corral.runner.mcp_http import AddressRefusedError, make_http_client
from corral.runner.stdio_server import MESSAGE_BYTES_MAX, StdioOptions, open_stdio_transport
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.wire.run_work import McpServerSpec

log = structlog.get_logger(__name__)

# A listing has at most so many pages, entries and characters: one without end must not fill the memory.
PAGES_MAX = 50
ENTRIES_MAX = 5000
LISTING_CHARACTERS_MAX = 16 * 1024 * 1024
# The protocol recommends 128.
TOOL_NAME_CHARACTERS_MAX = 512
# More than the SDK needs to tell a server that a call was given up.
_GUARD_S = 6.0
_PING_S = 5.0
_CLOSE_S = 10.0
# A quiet stream is kept for longer than a session is kept idle.
_SSE_IDLE_S = 3600.0
_ERROR_CHARACTERS_MAX = 500


class McpUnavailable(CorralError):
    """An MCP server cannot be used: it was not reached, has ended or does not answer."""

    code = "mcp_unavailable"


class McpCallFailed(CorralError):
    """The MCP server has answered the call with an error, or not in time."""

    code = "mcp_call_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOffer:
    """What an MCP server offers to a run: its tools, and whether there is something else to read."""

    tools: list[Tool]
    has_resources: bool = False
    has_prompts: bool = False


class McpSession:
    """One connection from the runner process to an MCP server. `open` once, then any calls, then `close`."""

    def __init__(self, server: McpServerSpec, stdio: StdioOptions) -> None:
        self._server = server
        self._stdio = stdio
        self._client: Client | None = None
        self._tasks = TaskSet(f"mcp-session-{server.name}")
        self._closing = asyncio.Event()
        # The limit of everything but tool calls.
        self._answer_s = max(1.0, server.connect_s / 3)
        # Why the session can be used no more; empty while it can.
        self.broken = ""

    async def open(self) -> None:
        """Connect. Raises `McpUnavailable`."""
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._tasks.start(self._hold(ready), name="hold")
        try:
            self._client = await ready
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, and the server's program with everything that it has started."""
        self.broken = self.broken or "was closed"
        self._closing.set()
        if self._client is not None:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await self._tasks.join()
            except TimeoutError:
                log.warning("mcp session did not end in time", server=self._server.name)
        # One that is not connected yet waits for the server, and not for its end.
        await self._tasks.close()

    async def _hold(self, ready: asyncio.Future[Client]) -> None:
        result = await attempt(lambda: self._connect(ready))
        if isinstance(result, AttemptFailure):
            reason = self.broken or describe_error(result.error)
            self.broken = reason
            if not ready.done():
                error = result.error if isinstance(result.error, CorralError) else None
                ready.set_exception(error or McpUnavailable(f"MCP server {self._server.name} {reason}."))

    async def _connect(self, ready: asyncio.Future[Client]) -> None:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._server.connect_s):
                    client = await self._enter(stack)
            except TimeoutError:
                sentence = f"MCP server {self._server.name} did not connect within {self._server.connect_s:g} s."
                raise McpUnavailable(sentence) from None
            if not ready.done():
                ready.set_result(client)
            await self._closing.wait()

    async def _enter(self, stack: AsyncExitStack) -> Client:
        server = self._server
        # No limits of the HTTP client on reading: each call has its own.
        timeout = httpx2.Timeout(server.connect_s, read=None)
        match server.transport:
            case "stdio":
                transport: Any = open_stdio_transport(server, self._stdio, self._on_program_end)
            case "sse":
                transport = sse_client(
                    server.url,
                    headers=server.headers,
                    timeout=server.connect_s,
                    sse_read_timeout=_SSE_IDLE_S,
                    httpx_client_factory=partial(make_http_client, is_public_only=server.is_public_only),
                )
            case "http":
                http = await stack.enter_async_context(
                    make_http_client(server.headers, timeout, is_public_only=server.is_public_only)
                )
                transport = streamable_http_client(server.url, http_client=http, max_sse_event_size=MESSAGE_BYTES_MAX)
        client = Client(
            transport,
            client_info=Implementation(name="corral", version=__version__),
            # An old server may ignore the first question of the newest protocol: leave time for the second one.
            read_timeout_seconds=self._answer_s,
            cache=None,
        )
        return await stack.enter_async_context(client)

    def _on_program_end(self, reason: str) -> None:
        self.broken = self.broken or reason
        log.warning("mcp server ended", server=self._server.name, reason=reason)

    async def list_tools(self) -> list[Tool]:
        """Return the tools that the server offers. Raises `McpUnavailable` or `McpCallFailed`."""
        tools: list[Tool] = await self._list("tools")
        return [tool for tool in tools if len(tool.name) <= TOOL_NAME_CHARACTERS_MAX]

    async def list_offer(self) -> ServerOffer:
        """Return what the server offers to a run. Raises `McpUnavailable` or `McpCallFailed` if it cannot list its
        tools; the tools of one that says that it has only other things are not listed."""
        assert self._client is not None
        capabilities = self._client.server_capabilities
        is_without_tools = capabilities.tools is None and (capabilities.resources or capabilities.prompts) is not None
        tools = [] if is_without_tools else await self.list_tools()
        async with asyncio.TaskGroup() as group:
            resources = group.create_task(self._has_any(capabilities.resources, "resources", "resource_templates"))
            prompts = group.create_task(self._has_any(capabilities.prompts, "prompts"))
        return ServerOffer(tools=tools, has_resources=resources.result(), has_prompts=prompts.result())

    async def _has_any(self, capability: object, *kinds: str) -> bool:
        """Return whether the server lists anything of these kinds. Many announce what they do not have."""
        for kind in kinds if capability is not None else ():
            try:
                page = await self._call(lambda client, kind=kind: getattr(client, f"list_{kind}")(), f"list its {kind}")
            except CorralError as error:
                log.info("mcp server cannot list what it announces", server=self._server.name, reason=error.message)
                continue
            if getattr(page, kind):
                return True
        return False

    async def _list(self, kind: str) -> list[Any]:
        """Return all pages of a listing: tools, prompts or resources. What is beyond the limits is left out."""
        found: list[Any] = []
        characters = 0
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._call(
                lambda client, cursor=cursor: getattr(client, f"list_{kind}")(cursor=cursor), f"list its {kind}"
            )
            for entry in getattr(page, kind):
                characters += len(entry.model_dump_json())
                if len(found) >= ENTRIES_MAX or characters > LISTING_CHARACTERS_MAX:
                    return self._end_listing(kind, found)
                found.append(entry)
            cursor = page.next_cursor
            if cursor is None:
                return found
        return self._end_listing(kind, found)

    def _end_listing(self, kind: str, found: list[Any]) -> list[Any]:
        log.warning("mcp server lists more than is read", server=self._server.name, kind=kind, read=len(found))
        return found

    async def describe(self) -> dict[str, Any]:
        """Return everything that the server offers. Raises `McpUnavailable` or `McpCallFailed`."""
        assert self._client is not None
        capabilities = self._client.server_capabilities
        kinds = [kind for kind in ("tools", "prompts", "resources") if getattr(capabilities, kind, None) is not None]
        listings = {kind: [_dump(item) for item in await self._list(kind)] for kind in kinds}
        return {"tools": [], "prompts": [], "resources": []} | listings | self._describe_server()

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool and return its result, which may be an error. Raises `McpUnavailable` or `McpCallFailed`."""
        limit_s = self._server.call_s
        result: CallToolResult = await self._call(
            lambda client: client.call_tool(name, dict(arguments), read_timeout_seconds=limit_s),
            f"answer the call of {name}",
            limit_s,
        )
        return result

    async def request(self, action: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Perform one of the actions of the protocol's `mcp` message, and return the answer as the server gave it."""
        name, arguments = str(params.get("name", "")), params.get("arguments") or {}
        limit_s = self._server.call_s
        match action:
            case "describe":
                return await self.describe()
            case "list":
                tools = await self.list_tools()
                return {"tools": [_dump(tool) for tool in tools], **self._describe_server()}
            case "call_tool":
                answer: Any = await self.call_tool(name, arguments)
            case "list_prompts":
                return {"prompts": [_dump(item) for item in await self._list("prompts")]}
            case "list_resources":
                return await self._list_resources()
            case "get_prompt":
                texts = {str(key): str(value) for key, value in arguments.items()}
                answer = await self._call(lambda client: client.get_prompt(name, texts), f"give prompt {name}", limit_s)
            case "read_resource":
                uri = str(params.get("uri", ""))
                answer = await self._call(lambda client: client.read_resource(uri), "give a resource", limit_s)
            case _:
                await self.ping()
                return {}
        return _dump(answer)

    async def _list_resources(self) -> dict[str, Any]:
        """Return resources, and templates of their addresses, which a server need not have."""
        resources = await self._list("resources")
        try:
            templates = await self._list("resource_templates")
        except McpCallFailed:
            templates = []
        return {
            "resources": [_dump(item) for item in resources],
            "resourceTemplates": [_dump(item) for item in templates],
        }

    async def ping(self) -> None:
        """Check that the server answers. Raises `McpUnavailable` or `McpCallFailed`."""
        try:
            async with asyncio.timeout(_PING_S):
                await self._call(_send_ping, "answer")
        except TimeoutError:
            raise McpUnavailable(f"MCP server {self._server.name} does not answer.") from None

    def _describe_server(self) -> dict[str, Any]:
        assert self._client is not None
        info = self._client.server_info
        return {
            "serverInfo": None if info is None else _dump(info),
            "instructions": self._client.instructions,
            "protocolVersion": self._client.protocol_version,
        }

    async def _call(self, work: Any, action: str, limit_s: float | None = None) -> Any:
        """Run one request of the client under the server's limit, and name server and action in every error."""
        if self.broken or self._client is None:
            raise McpUnavailable(f"MCP server {self._server.name} {self.broken or 'is not connected'}.")
        client, limit_s = self._client, limit_s or self._answer_s
        try:
            async with asyncio.timeout(limit_s + _GUARD_S):
                result = await attempt(lambda: work(client))
        except TimeoutError:
            self.broken = f"did not {action} within {limit_s:g} s"
            raise McpCallFailed(f"MCP server {self._server.name} {self.broken}.") from None
        if isinstance(result, AttemptFailure):
            raise self._make_error(result.error, action, limit_s)
        return result.value

    def _make_error(self, error: Exception, action: str, limit_s: float) -> CorralError:
        name = self._server.name
        if isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT:
            return McpCallFailed(f"MCP server {name} did not {action} within {limit_s:g} s.")
        if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED and not self.broken:
            return McpCallFailed(f"MCP server {name} could not {action}: {describe_error(error)}")
        # The connection is gone, or in an unknown state: the next call gets a new one.
        self.broken = self.broken or f"has lost its connection: {describe_error(error)}"
        return McpUnavailable(f"MCP server {name} {self.broken}.")


async def _send_ping(client: Client) -> object:
    """Ask for any answer: servers of the newest protocol have no ping, but they describe themselves."""
    if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return await client.session.send_discover(client.protocol_version)
    return await client.session.send_ping()


def _dump(value: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def describe_error(error: BaseException) -> str:
    """Return a sentence for an error of the SDK; a group of errors is named by its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, httpx2.HTTPStatusError):
        return f"answered with status {error.response.status_code}"
    if isinstance(error, AddressRefusedError):
        return f"cannot be reached: {error}"
    if isinstance(error, httpx2.TransportError):
        return f"cannot be reached ({type(error).__name__})"
    return (str(error) or type(error).__name__)[:_ERROR_CHARACTERS_MAX]
