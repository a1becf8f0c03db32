"""Answers `tools/list` and `tools/call` of one MCP client by calls to the API.

A refused call is the result of the tool, marked as an error, with the message, hint and code of the API, so that a
model can correct itself. A call ends within `ToolOptions.call_limit_s`. A result over `ToolOptions.result_bytes_max` is
cut, and a sentence says how to get less. An unknown tool, or a frontend that does not respond to `tools/list`, is an
error of the protocol.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from corral import __version__
from corral.client.transport import ApiRequest, parse_json
from corral.domain.errors import CorralError, NotAllowed, Unavailable
from corral.mcp_server.catalog import ApiTool
from corral.mcp_server.tool_spec import ToolEffect

NAME = "corral"
# More than any call of the API takes: those that last are operations, which are followed by other calls.
CALL_LIMIT_S = 60.0
# About 50,000 tokens, which already is most of the context of many models.
RESULT_BYTES_MAX = 200_000
_INSTRUCTIONS = (
    "Corral runs language models on many machines. Nodes are machines, backends are the engines on them, replicas are "
    "loaded models, rules say where and how many. Begin with show_cluster. Calls that take long return an operation: "
    "follow it with show_operation. Ask before you call a tool that is marked as destructive."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """Limits the tools of Corral's own MCP server: whether they may change things, time and size of results."""

    is_read_only: bool = False
    call_limit_s: float = CALL_LIMIT_S
    result_bytes_max: int = RESULT_BYTES_MAX


class ApiSender(Protocol):
    """Interface that sends an MCP tool's request to the API with the key of the caller."""

    async def send(self, request: ApiRequest) -> bytes:
        """Return the body of a successful response; raise a `CorralError` for any other."""
        ...


class ToolDirectory(Protocol):
    """Interface that knows the MCP tools that a frontend offers, and the scope of the caller."""

    async def list_tools(self, *, is_read_only: bool) -> list[ApiTool]:
        """Return the tools that the caller may call; with `is_read_only`, only those that change nothing."""
        ...

    async def find_tool(self, name: str) -> ApiTool | None:
        """Return a tool, also one that the caller may not call: the API refuses that call with its own message."""
        ...


class ToolServer:
    """Offers Corral's API to one caller as tools of an MCP server. `make_server` returns the MCP server around it."""

    def __init__(self, directory: ToolDirectory, sender: ApiSender, options: ToolOptions) -> None:
        self._directory = directory
        self._sender = sender
        self._options = options

    def make_server(self) -> Server[Any]:
        return Server(
            NAME,
            version=__version__,
            title="Corral",
            instructions=_INSTRUCTIONS,
            # No argument is mirrored in a header, so there is nothing to check before a call.
            get_tool_input_schema=lambda _name: None,
            on_list_tools=self._on_list_tools,
            on_call_tool=self._on_call_tool,
        )

    async def _on_list_tools(
        self, _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        try:
            async with asyncio.timeout(self._options.call_limit_s):
                tools = await self._directory.list_tools(is_read_only=self._options.is_read_only)
        except TimeoutError as error:
            raise _make_protocol_error(self._make_timeout_error()) from error
        except CorralError as error:
            raise _make_protocol_error(error) from error
        return types.ListToolsResult(tools=[_describe_tool(tool) for tool in tools])

    async def _on_call_tool(
        self, _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            async with asyncio.timeout(self._options.call_limit_s):
                tool = await self._directory.find_tool(params.name)
                if tool is None:
                    message = f"There is no tool {params.name[:100]}; tools/list names the tools."
                    raise MCPError(types.INVALID_PARAMS, message)
                return self._render_result(tool, await self._call(tool, params.arguments or {}))
        except TimeoutError:
            return _render_error(self._make_timeout_error())
        except CorralError as error:
            return _render_error(error)

    async def _call(self, tool: ApiTool, arguments: dict[str, Any]) -> bytes:
        if self._options.is_read_only and not tool.is_read_only:
            raise NotAllowed(
                f"{tool.name} changes something, and this server is read-only.",
                hint="Start `corral mcp-server` without --read-only, or set mcp_read_only of the frontends to false.",
                code="mcp_read_only",
            )
        return await self._sender.send(tool.make_request(arguments))

    def _make_timeout_error(self) -> Unavailable:
        return Unavailable(
            f"The call did not end within {self._options.call_limit_s:g} s.",
            hint="What the call started may go on: list_operations shows what runs.",
            code="timeout",
        )

    def _render_result(self, tool: ApiTool, body: bytes) -> types.CallToolResult:
        if not body:
            return _make_result(["Done."], {})
        if len(body) > self._options.result_bytes_max:
            shown = body[: self._options.result_bytes_max].decode(errors="ignore")
            return _make_result([shown, self._explain_cut(tool, len(body))], None)
        value = parse_json(body, origin=NAME)
        # Before the revision of 2026 structured content had to be an object.
        structured = value if isinstance(value, dict) else {"result": value}
        return _make_result([body.decode()], structured)

    def _explain_cut(self, tool: ApiTool, size_bytes: int) -> str:
        filters = tool.list_filters()
        how = f"Narrow it with {', '.join(filters)}." if filters else "Use a tool that shows one of them."
        return f"Cut: these are the first {self._options.result_bytes_max} of {size_bytes} bytes. {how}"


def _describe_tool(tool: ApiTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.name.replace("_", " ").capitalize(),
        description=tool.description,
        input_schema=tool.make_input_schema(),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.is_read_only,
            destructive_hint=tool.spec.effect is ToolEffect.DESTROY,
            idempotent_hint=tool.is_read_only or tool.spec.is_idempotent,
            open_world_hint=tool.spec.is_open_world,
        ),
    )


def _make_result(texts: Sequence[str], structured: Any, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text) for text in texts],
        structured_content=structured,
        is_error=is_error,
    )


def _render_error(error: CorralError) -> types.CallToolResult:
    fields = {"code": error.slug, "message": error.message, "hint": error.hint, "details": error.details}
    lines = [error.message, f"Hint: {error.hint}" if error.hint else "", f"Code: {error.slug}"]
    # What an error carries was read from JSON or written by us; anything else becomes text.
    structured = json.loads(json.dumps({"error": fields}, default=str))
    return _make_result(["\n".join(line for line in lines if line)], structured, is_error=True)


def _make_protocol_error(error: CorralError) -> MCPError:
    return MCPError(types.INTERNAL_ERROR, error.message, {"code": error.slug, "hint": error.hint})
