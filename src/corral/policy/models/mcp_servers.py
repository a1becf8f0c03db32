"""The MCP servers of a model: read as LocalAI writes them, written as plain mappings, and judged by who adds them.

    mcp:
      servers: [time]                                  servers that an admin has declared, by name
      remote: {docs: {url: https://host/mcp}}          or a text in JSON, with or without `mcpServers` around it
      stdio: {files: {command: mcp-files, args: [/data]}}

Guarantee: a secret in clear is refused, and no error repeats one. A server of a model is for everybody who may use the
model, so its secrets are those of the cluster. Limit: whether a declared server exists is checked when it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from corral.domain.agent import DeclaredMcpServer, McpTransport, RemoteMcpServer
from corral.domain.errors import InvalidRequest, NotAllowed
from corral.domain.model import ModelConfig, ModelMcpConfig
from corral.policy.addresses import is_private_address
from corral.policy.agents import check_address, check_server_name, check_variables, make_declared_spec, make_remote_spec
from corral.policy.models.mapping_reader import MappingReader, as_text
from corral.policy.secret_references import find_secret_reference

SERVERS_MAX = 50
# Arguments, variables or headers of one server.
VALUES_MAX = 200
TEXT_MAX = 64 * 1024
_WRAPPER = "mcpServers"
_REMOTE_KEYS = ("url", "token", "headers", "transport", "type")
_STDIO_KEYS = ("command", "args", "env", "cwd", "transport", "type")
_IN_CLEAR = "Store it with `corral secrets set --cluster NAME`, and write cluster-secret:NAME here."
# What clients of MCP call the ways to reach a server.
_TRANSPORTS: Mapping[str, McpTransport] = {
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
    "stdio": "stdio",
}


def read_mcp_config(reader: MappingReader) -> ModelMcpConfig:
    """Read the key `mcp` of a model: a mapping, or a list of names of declared servers."""
    written = reader.value.get("mcp")
    inner = reader.read_inner("mcp") if not isinstance(written, list | str) else None
    if inner is None:
        config = ModelMcpConfig(declared=reader.read_texts("mcp", most=SERVERS_MAX))
    else:
        inner.check_keys(("servers", "remote", "stdio"))
        config = ModelMcpConfig(
            declared=inner.read_texts("servers", most=SERVERS_MAX),
            remote=tuple(_read_remote(name, server) for name, server in _read_servers(inner, "remote")),
            stdio=tuple(_read_stdio(name, server) for name, server in _read_servers(inner, "stdio")),
        )
    names = config.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise reader.make_error(f"mcp has the server {twice!r} twice")
    if len(names) > SERVERS_MAX:
        raise reader.make_error(f"mcp has more than {SERVERS_MAX} servers")
    for name in names:
        check_server_name(name)
    return config


def read_servers_document(document: object, where: str, code: str) -> list[DeclaredMcpServer]:
    """Return the servers of a document in Claude Desktop's form: a map `mcpServers` of programs and addresses."""
    outer = MappingReader({"servers": document}, where, code)
    found = []
    for name, reader in _read_servers(outer, "servers"):
        check_server_name(name)
        if "url" not in reader.value:
            found.append(_read_stdio(name, reader))
            continue
        remote = _read_remote(name, reader)
        headers = make_remote_spec(remote)["headers"]
        found.append(DeclaredMcpServer(name=name, transport=remote.transport, url=remote.url, headers=headers))
    return found


def to_mcp_mapping(config: ModelMcpConfig) -> dict[str, Any]:
    """Return the servers as they are written, without default values; `read_mcp_config` reads them back."""
    written: dict[str, Any] = {
        "servers": list(config.declared),
        "remote": {server.name: _make_remote_mapping(server) for server in config.remote},
        "stdio": {server.name: _make_stdio_mapping(server) for server in config.stdio},
    }
    return {key: value for key, value in written.items() if value}


def make_server_specs(config: ModelMcpConfig, declared: Mapping[str, DeclaredMcpServer]) -> dict[str, dict[str, Any]]:
    """Return the servers of a model by name as workers get them, with references in place of secrets.

    A declared server that does not exist any more is left out. A server that only an admin may have put into the model
    counts as declared.
    """
    specs = {name: make_declared_spec(declared[name]) for name in config.declared if name in declared}
    privileged = _list_privileged(config)
    for server in config.remote:
        # An address that is private by its text is there because an admin has put it there; any other one stays public.
        is_private = is_private_address(urlsplit(server.url).hostname or "")
        spec = make_remote_spec(server, allows_private=is_private)
        specs[server.name] = spec | ({"is_declared": True} if server.name in privileged else {})
    return specs | {server.name: make_declared_spec(server) for server in config.stdio}


def check_author(previous: ModelConfig | None, config: ModelConfig, *, is_admin: bool) -> None:
    """Raise `NotAllowed` if a caller who is no admin gives a model a server that only admins may give it.

    That is a program, an address in a private network, or a secret of the cluster. Those that the model has already
    may stay.
    """
    if is_admin:
        return
    known = {} if previous is None else _list_privileged(previous.mcp)
    for name, server in _list_privileged(config.mcp).items():
        if known.get(name) != server:
            raise NotAllowed(
                f"Model {config.name}: only an admin may give it the MCP server {name}, which is a program, is in a "
                "private network or uses a secret.",
                hint="Let an admin declare it with `corral mcp servers set`, and name it in `mcp.servers`.",
                code="admin_required",
            )


def _list_privileged(config: ModelMcpConfig) -> dict[str, RemoteMcpServer | DeclaredMcpServer]:
    found: dict[str, RemoteMcpServer | DeclaredMcpServer] = {server.name: server for server in config.stdio}
    for server in config.remote:
        values = (server.token, *server.headers.values())
        # The address is valid: it was judged when it was read.
        is_private = is_private_address(urlsplit(server.url).hostname or "")
        if is_private or any(find_secret_reference(value) for value in values):
            found[server.name] = server
    return found


def _read_servers(outer: MappingReader, key: str) -> list[tuple[str, MappingReader]]:
    """Return the servers of a map, which may be a text, and may stand in `mcpServers`."""
    value = outer.value.get(key)
    if value is None or value == "":
        return []
    if isinstance(value, str):
        value = _parse_text(outer, key, value)
    reader = MappingReader(value, outer.describe_place(key), outer.code)
    if _WRAPPER in reader.value:
        reader.check_keys((_WRAPPER,))
        reader = reader.read_inner(_WRAPPER)
    if len(reader.value) > SERVERS_MAX:
        raise outer.make_error(f"{key} has more than {SERVERS_MAX} servers")
    return [(name, reader.read_inner(name)) for name in reader.value]


def _parse_text(outer: MappingReader, key: str, text: str) -> Any:
    if len(text) > TEXT_MAX:
        raise outer.make_error(f"{key} is longer than {TEXT_MAX} characters")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # A text in YAML was read before it came here, if it could be.
        raise outer.make_error(f"{key} is neither JSON nor YAML", f"It is a map {_WRAPPER}.") from error


def _read_remote(name: str, reader: MappingReader) -> RemoteMcpServer:
    reader.check_keys(_REMOTE_KEYS)
    transport = _read_transport(reader, "http")
    if transport == "stdio":
        raise reader.make_error("it has an address, so it is not a stdio server")
    server = RemoteMcpServer(
        name=name,
        url=reader.read_text("url", required=True).strip(),
        transport=transport,
        headers=_read_values(reader, "headers"),
        token=reader.read_text("token").strip(),
    )
    if server.token and find_secret_reference(server.token) is None:
        raise InvalidRequest(f"{reader.where}: the token is written in clear.", hint=_IN_CLEAR, code="secret_in_clear")
    try:
        check_address(server.url, allows_private=True)
        headers = make_remote_spec(server)["headers"]
        check_variables(DeclaredMcpServer(name=name, transport=transport, headers=headers))
    except InvalidRequest as error:
        raise _add_place(reader, error) from error
    return server


def _add_place(reader: MappingReader, error: InvalidRequest) -> InvalidRequest:
    message = error.message.removeprefix("mcp_servers: ").rstrip(".")
    return InvalidRequest(f"{reader.where}: {message}.", hint=error.hint, code=error.slug)


def _read_stdio(name: str, reader: MappingReader) -> DeclaredMcpServer:
    reader.check_keys(_STDIO_KEYS)
    if _read_transport(reader, "stdio") != "stdio":
        raise reader.make_error("it has no address, so it is a stdio server")
    args = reader.read_items("args")
    texts = tuple(text for item in args if (text := as_text(item)) is not None and "\x00" not in text)
    if len(texts) != len(args) or len(args) > VALUES_MAX:
        raise reader.make_error(f"args is not a list of at most {VALUES_MAX} plain values")
    server = DeclaredMcpServer(
        name=name,
        command=reader.read_text("command", required=True).strip(),
        args=texts,
        env=_read_values(reader, "env"),
        cwd=reader.read_text("cwd"),
    )
    try:
        check_variables(server)
    except InvalidRequest as error:
        raise _add_place(reader, error) from error
    return server


def _read_transport(reader: MappingReader, default: McpTransport) -> McpTransport:
    word = reader.read_text("transport") or reader.read_text("type") or default
    reader.check_words("transport", (word,), _TRANSPORTS)
    return _TRANSPORTS[word]


def _read_values(reader: MappingReader, key: str) -> dict[str, str]:
    inner = reader.read_inner(key)
    if len(inner.value) > VALUES_MAX:
        raise reader.make_error(f"{key} has more than {VALUES_MAX} values")
    found: dict[str, str] = {}
    for name, value in inner.value.items():
        text = as_text(value)
        if text is None or not name.strip() or len(text) > TEXT_MAX or any(mark in text for mark in "\x00\r\n"):
            raise inner.make_error(f"{name[:60]} is not one plain value")
        found[name] = text
    return found


def _make_remote_mapping(server: RemoteMcpServer) -> dict[str, Any]:
    written: dict[str, Any] = {"url": server.url}
    if server.transport != "http":
        written["transport"] = server.transport
    if server.headers:
        written["headers"] = dict(server.headers)
    return written | ({"token": server.token} if server.token else {})


def _make_stdio_mapping(server: DeclaredMcpServer) -> dict[str, Any]:
    written: dict[str, Any] = {"command": server.command}
    if server.args:
        written["args"] = list(server.args)
    if server.env:
        written["env"] = dict(server.env)
    return written | ({"cwd": server.cwd} if server.cwd else {})
