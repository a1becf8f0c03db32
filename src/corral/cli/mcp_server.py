"""`corral mcp-server`: the cluster as tools for a language model, on standard input and output.

An MCP client such as an editor or a chat program starts the command and speaks to it. Only the protocol goes to
standard output; messages go to standard error.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import KeyFileOption, KeyOption, UrlOption, pause_garbage_collection
from corral.domain.errors import INSTALL_HINT, InvalidRequest

if TYPE_CHECKING:
    from corral.cli.target import ClusterTarget

# The exit code of a command that Ctrl-C ended (`main.py`).
INTERRUPTED = 130


def serve_mcp(
    *,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only tools that change nothing.")] = False,
    target_url: UrlOption = None,
    target_key: KeyOption = None,
    target_key_file: KeyFileOption = None,
) -> None:
    """Serve the cluster as MCP tools on standard input and output. An MCP client starts this command.

    The tools are those that the key may use: `corral keys create NAME --scope operate` makes a key. Register the
    command in the configuration of the client:

    \b
    {"mcpServers": {"corral": {"command": "corral", "args": ["mcp-server"]}}}
    """
    from corral.cli.target import find_target

    target = find_target({"url": target_url, "key": target_key, "key_file": target_key_file})
    _serve(target, is_read_only=read_only)


def _serve(target: ClusterTarget, *, is_read_only: bool) -> None:
    import asyncio

    from corral.adapters.system import SystemClock, SystemIdGenerator
    from corral.client.transport import ApiTransport

    try:
        with pause_garbage_collection():
            from corral.mcp_server.server import CALL_LIMIT_S, ToolOptions
            from corral.mcp_server.stdio import serve_stdio
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "corral":
            raise
        raise InvalidRequest(
            f"{error.name} is not installed, but this command needs it.", hint=INSTALL_HINT.format(extra="mcp")
        ) from error

    async def run() -> None:
        transport = ApiTransport(
            target.url, target.key, timeout_s=CALL_LIMIT_S, clock=SystemClock(), ids=SystemIdGenerator()
        )
        async with transport:
            await serve_stdio(transport, ToolOptions(is_read_only=is_read_only))

    # A thread waits for the next line of input, and would keep the process until it comes. Nothing has to be tidied up.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    render.print_notice(f"Serving {target.url} as MCP tools on standard input and output. Ctrl-C ends it.")
    asyncio.run(run())
