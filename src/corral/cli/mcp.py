"""`corral mcp …`: commands for MCP servers, the sources of tools for models and agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, parse_pairs, register_command
from corral.cli.completion import complete_mcp_server_names, complete_model_names
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from corral.domain.agent import DeclaredMcpServer
    from corral.wire.agents import DeclaredServerIn, DeclaredServerOut
    from corral.wire.model_servers import ModelServerOut

app = make_group("MCP servers, sources of tools: declare them, and list the tools of a model.")
servers = make_group("MCP servers that admins declare for all users: list, show, set and delete them.")
app.add_typer(servers, name="servers")
DESCRIPTION_MAX = 80
ERROR_MAX = 200
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the server.", autocompletion=complete_mcp_server_names)
]
OptionalNameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="Name of the server. With --file: only this one of the file.",
        autocompletion=complete_mcp_server_names,
    ),
]
FileOption = Annotated[
    str | None,
    typer.Option("--file", "-f", metavar="FILE", help="Servers in Claude Desktop's form, mcpServers. - reads stdin."),
]
# `--url` is the address of the frontend, for every command.
AddressOption = Annotated[str | None, typer.Option("--address", metavar="URL", help="Address of a remote server.")]
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name of a model.", autocompletion=complete_model_names)
]


@register_command(servers, "list")
async def list_servers(session: CommandSession) -> None:
    """List the declared MCP servers. Models and agents choose them by name."""
    found = await session.client.mcp.list_servers()
    if session.as_json:
        render.print_json([server.model_dump(mode="json") for server in found])
    elif found:
        render.print_data(_format_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("No MCP servers are declared. Declare one: corral mcp servers set NAME")


@register_command(servers, "show")
async def show_server(session: CommandSession, name: NameArgument) -> None:
    """Show one declared MCP server. Only admins see how it is declared."""
    server = await session.client.mcp.get_server(name)
    if session.as_json:
        render.print_json(server.model_dump(mode="json"))
        return
    config = server.config or {}
    facts = {
        "Name": server.name,
        "Description": server.description,
        "Transport": server.transport,
        "Command": " ".join([str(config.get("command") or ""), *map(str, config.get("args") or ())]).strip(),
        "Environment": render.format_pairs(config.get("env") or {}),
        "Folder": str(config.get("cwd") or ""),
        "Address": str(config.get("url") or ""),
        "Headers": render.format_pairs(config.get("headers") or {}),
        "Declared by": server.created_by or "",
        "Changed": render.format_time(server.updated_at) if server.updated_at else "",
    }
    render.print_data(render.format_facts({label: value for label, value in facts.items() if value}))


@register_command(servers, "set")
async def set_server(
    session: CommandSession,
    name: OptionalNameArgument = None,
    *,
    command: Annotated[str | None, typer.Option("--command", metavar="PROGRAM", help="Program to start.")] = None,
    arg: Annotated[list[str] | None, typer.Option("--arg", metavar="TEXT", help="Argument; may be repeated.")] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Variable; may be repeated.")
    ] = None,
    cwd: Annotated[str | None, typer.Option("--cwd", metavar="PATH", help="Folder to start the program in.")] = None,
    address: AddressOption = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Header; may be repeated.")
    ] = None,
    sse: Annotated[bool, typer.Option("--sse", help="The address speaks the older protocol, SSE.")] = False,
    description: Annotated[
        str, typer.Option("--description", metavar="TEXT", help="What the server offers, for people who choose it.")
    ] = "",
    file: FileOption = None,
) -> None:
    """Declare an MCP server for all users, and replace the previous one of this name. Needs an admin key.

    A secret is a reference: store it with `corral secrets set --cluster NAME`, and write cluster-secret:NAME.
    """
    options = {"command": command, "args": arg, "env": env, "cwd": cwd, "url": address, "headers": header}
    if file is not None:
        if sse or any(options.values()):
            raise typer.BadParameter("--file describes the servers: leave out the options that describe one")
        declared = _read_file(file, name)
    elif name is None:
        raise typer.BadParameter("a NAME or --file is missing")
    else:
        declared = {name: _make_server(options, is_sse=sse)}
    saved = [
        await session.client.mcp.put_server(each, server.model_copy(update={"description": description}))
        for each, server in declared.items()
    ]
    if session.as_json:
        render.print_json([server.model_dump(mode="json") for server in saved])
        return
    for server in saved:
        render.print_notice(f"Declared MCP server {server.name}. Models name it in `mcp.servers`.")


@register_command(servers, "delete")
async def delete_server(session: CommandSession, name: NameArgument) -> None:
    """Delete a declared MCP server. Models and agents that name it cannot use it any more."""
    await session.client.mcp.delete_server(name)
    if session.as_json:
        render.print_json({"name": name, "deleted": True})
    else:
        render.print_notice(f"Deleted MCP server {name}.")


@register_command(app, "tools")
async def list_tools(
    session: CommandSession,
    model: ModelArgument,
    *,
    server: Annotated[str, typer.Option("--server", metavar="NAME", help="Only this server.")] = "",
) -> None:
    """List the MCP servers and tools of a model. A server that offers none shows the reason."""
    found = await session.client.mcp.describe_model(model, server)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
    elif found.servers:
        render.print_data(_format_tools(found.servers, colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice(f"Model {found.model} has no MCP servers. Add some under `mcp` in its configuration.")


def _make_server(options: Mapping[str, Any], *, is_sse: bool) -> DeclaredServerIn:
    from corral.wire.agents import DeclaredServerIn

    if bool(options["command"]) == bool(options["url"]):
        raise typer.BadParameter("either --command or --address is needed")
    if options["url"] and any(options[key] for key in ("args", "env", "cwd")):
        raise typer.BadParameter("--arg, --env and --cwd are for programs")
    if options["command"] and (options["headers"] or is_sse):
        raise typer.BadParameter("--header and --sse are for addresses")
    return DeclaredServerIn(
        transport="stdio" if options["command"] else "sse" if is_sse else "http",
        command=options["command"] or "",
        args=options["args"] or [],
        env=parse_pairs(options["env"] or (), "--env"),
        cwd=options["cwd"] or "",
        url=options["url"] or "",
        headers=parse_pairs(options["headers"] or (), "--header"),
    )


def _read_file(file: str, name: str | None) -> dict[str, DeclaredServerIn]:
    from corral.cli.fleet import read_documents
    from corral.policy.models.mcp_servers import read_servers_document

    documents = read_documents(file)
    if len(documents) != 1:
        raise InvalidRequest(f"{file}: one document with a map mcpServers was expected.", code="bad_mcp_server")
    found = {server.name: server for server in read_servers_document(documents[0], file, "bad_mcp_server")}
    if name is not None and name not in found:
        has = ", ".join(sorted(found)) or "none"
        raise InvalidRequest(f"{file} has no server {name!r}.", hint=f"It has: {has}.", code="bad_mcp_server")
    return {each: _to_wire(server) for each, server in found.items() if name in (None, each)}


def _to_wire(server: DeclaredMcpServer) -> DeclaredServerIn:
    from corral.wire.agents import DeclaredServerIn

    return DeclaredServerIn(
        transport=server.transport,
        command=server.command,
        args=list(server.args),
        env=dict(server.env),
        cwd=server.cwd,
        url=server.url,
        headers=dict(server.headers),
    )


def _format_list(found: Sequence[DeclaredServerOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            server.name,
            server.transport,
            f"{render.format_age(server.updated_at, now)} ago" if server.updated_at else "",
            _shorten(server.description),
        ]
        for server in found
    ]
    return render.format_table(("NAME", "TRANSPORT", "CHANGED", "DESCRIPTION"), rows, colour=colour)


def _format_tools(found: Sequence[ModelServerOut], *, colour: bool) -> str:
    rows = []
    for server in found:
        if server.error:
            rows.append([server.name, server.type, "error", _shorten(server.error, ERROR_MAX)])
        elif not server.tool_details:
            rows.append([server.name, server.type, "-", "This server has no tools."])
        rows += [[server.name, server.type, tool.name, _shorten(tool.description)] for tool in server.tool_details]
    return render.format_table(("SERVER", "TYPE", "TOOL", "DESCRIPTION"), rows, colour=colour)


def _shorten(text: str, most: int = DESCRIPTION_MAX) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
