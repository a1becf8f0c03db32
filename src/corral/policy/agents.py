"""Decides about agents: which names and configurations are valid, what a turn is given of its thread, and what is kept.

Guarantee: a secret in clear is refused wherever a reference belongs, and no error repeats it. Limit: a host is judged
by its text here; the worker judges the address that it leads to once more when it connects.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from corral.domain.agent import AGENT_PREFIX, AgentConfig, DeclaredMcpServer, RemoteMcpServer, ThreadMessage
from corral.domain.duration import find_seconds
from corral.domain.errors import InvalidRequest, NotAllowed, Unprocessable
from corral.domain.run import RunBudgets
from corral.domain.secret import SecretScope
from corral.policy.addresses import SECRET_WORDS, holds_secret, is_private_address
from corral.policy.documents import check_collection_name, strip_sources
from corral.policy.labels import check_labels
from corral.policy.secret_references import SecretReference, find_secret_reference, parse_secret_reference
from corral.policy.skills import read_skill_use

NAME_MAX = 100
# The last parts of routes below /api/agents, which an agent of that name would hide.
RESERVED_NAMES = frozenset({"actions", "collections", "config", "git-repos", "import", "skills"})
DEFAULT_INSTRUCTIONS = "You are a helpful assistant."
DEFAULT_MONOLOGUE = "You work towards this goal by yourself: {{ goal }}\nDecide what to do next, and do it."
# How deep agents may ask other agents as tools.
DEPTH_MAX = 3
# An agent that runs by itself does so at most this often, and at least once a month.
PERIOD_MIN_S, PERIOD_MAX_S = 10.0, 31 * 86400.0
WALL_MAX_S = 86400.0
TITLE_MAX = 80
# What a turn is given of its thread: more than a model reads, less than a worker would have to carry.
HISTORY_MESSAGES_MAX = 200
HISTORY_BYTES_MAX = 1024 * 1024
# What one turn may add to its thread.
ANSWER_MESSAGES_MAX = 500
ANSWER_BYTES_MAX = 1024 * 1024
_ANSWER_ROLES = frozenset({"assistant", "tool"})
_FORBIDDEN = (":", "/", "\\", "..")
_GO_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_SERVER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,48}[A-Za-z0-9]|[A-Za-z0-9]", re.ASCII)
CODE = "bad_agent"


def make_not_for_agents_error(name: str, call: str) -> InvalidRequest:
    """Return the error for a call that names an agent and that agents do not answer."""
    return InvalidRequest(
        f"{name[:80]} is an agent, and agents do not answer {call}.",
        hint="Agents answer /v1/chat/completions, /v1/responses, /v1/messages, /api/chat and /api/generate.",
        code="not_for_agents",
    )


def check_agent_name(name: str) -> None:
    """Raise `InvalidRequest` unless an agent may have this name."""
    problem = _find_name_problem(name)
    if problem is not None:
        raise InvalidRequest(
            f"{name[:80]!r} is not a name for an agent: {problem}.",
            hint=f"Up to {NAME_MAX} characters, without : / \\ and ..",
            code="bad_agent_name",
        )


def _find_name_problem(name: str) -> str | None:
    if not name.strip():
        return "it is empty"
    if name != name.strip():
        return "it begins or ends with a space"
    if len(name) > NAME_MAX:
        return f"it is longer than {NAME_MAX} characters"
    if not name.isprintable():
        return "it has a character that cannot be printed"
    if name in RESERVED_NAMES or name == ".":
        return "it is a word of the API"
    found = next((text for text in _FORBIDDEN if text in name), None)
    return None if found is None else f"{found} is not allowed in it"


def parse_period(text: str) -> float | None:
    """Return the seconds of a duration such as 10m, or 1h30m as Go writes it; None if the text is not a duration."""
    plain = find_seconds(text.strip())
    if plain is not None:
        return plain
    parts = _GO_PART.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        return None
    return sum(float(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit] for number, unit in parts)


def read_config(settings: Mapping[str, Any], *, default_wall_s: float = RunBudgets().wall_s) -> AgentConfig:
    """Return stored settings as a typed configuration. What is missing, or was stored by a newer version, is as if it
    had not been set. `default_wall_s` is how long a turn may take if the agent does not say."""
    default, budgets = AgentConfig(), settings.get("budgets") or {}
    compacts = settings.get("enable_auto_compaction", True)
    return AgentConfig(
        description=settings.get("description", ""),
        model=settings.get("model", ""),
        system_prompt=settings.get("system_prompt", ""),
        permanent_goal=settings.get("permanent_goal", ""),
        inner_monologue_template=settings.get("inner_monologue_template", ""),
        standalone_job=bool(settings.get("standalone_job", False)),
        period_s=parse_period(str(settings.get("periodic_runs") or "")) or default.period_s,
        budgets=RunBudgets(
            wall_s=parse_period(str(budgets.get("wall") or "")) or default_wall_s,
            steps=settings.get("max_iterations", default.budgets.steps),
            tool_calls=budgets.get("tool_calls"),
            tokens=budgets.get("tokens"),
        ),
        max_attempts=settings.get("max_attempts", default.max_attempts),
        loop_detection=settings.get("loop_detection", default.loop_detection),
        compaction_tokens=settings.get("auto_compaction_threshold", default.compaction_tokens) if compacts else 0,
        strips_thinking=bool(settings.get("strip_thinking_tags", True)),
        cancels_previous=bool(settings.get("cancel_previous_on_new_message", True)),
        mcp_servers=tuple(_read_server(server) for server in settings.get("mcp_servers") or ()),
        declared_servers=tuple(settings.get("mcp_stdio_servers") or ()),
        tool_rules=dict(settings.get("tool_rules") or {}),
        agents=tuple(settings.get("agents") or ()),
        temperature=settings.get("temperature"),
        max_tokens=settings.get("max_tokens"),
        selector=dict(settings.get("labels") or {}),
        tool_mode=settings.get("tool_mode", default.tool_mode),
        tool_choice=settings.get("tool_choice", default.tool_choice),
        skills=read_skill_use(settings),
        collection=settings.get("collection", ""),
        enables_kb=bool(settings.get("enable_kb", False)),
        kb_mode=settings.get("kb_mode", default.kb_mode),
        kb_results=settings.get("kb_results", default.kb_results),
        remembers=bool(settings.get("long_term_memory") or settings.get("summary_long_term_memory")),
        memory_mode="summary"
        if settings.get("summary_long_term_memory")
        else settings.get("conversation_storage_mode", default.memory_mode),
    )


def _read_server(server: Mapping[str, Any]) -> RemoteMcpServer:
    return RemoteMcpServer(
        name=server["name"],
        url=server["url"],
        transport=server.get("transport", "http"),
        headers=dict(server.get("headers") or {}),
        token=server.get("token", ""),
    )


def check_settings(settings: Mapping[str, Any], *, allows_private: bool) -> AgentConfig:
    """Return settings as a configuration, or raise with the first thing that is wrong about them."""
    _check_duration(settings.get("periodic_runs"), "periodic_runs", PERIOD_MIN_S, PERIOD_MAX_S)
    # Empty: the default of the frontends.
    _check_duration((settings.get("budgets") or {}).get("wall") or None, "budgets.wall", 1.0, WALL_MAX_S)
    config = read_config(settings)
    if not config.model.strip():
        raise InvalidRequest("model: an agent needs a model.", hint="GET /v1/models lists them.", code=CODE)
    if config.model.startswith(AGENT_PREFIX):
        raise InvalidRequest(
            "model: an agent cannot be the model of an agent.", hint="Name it in `agents` instead.", code=CODE
        )
    if config.standalone_job and not (config.permanent_goal.strip() or config.inner_monologue_template.strip()):
        raise InvalidRequest(
            "permanent_goal: an agent that runs by itself needs a goal.", hint="Or a template.", code=CODE
        )
    check_labels(config.selector)
    if config.collection:
        check_collection_name(config.collection)
    names = [server.name for server in config.mcp_servers] + list(config.declared_servers)
    if len(set(names)) < len(names):
        raise InvalidRequest("mcp_servers: two servers have the same name.", code=CODE)
    for name in config.agents:
        check_agent_name(name)
    for server in config.mcp_servers:
        check_server_name(server.name)
        check_address(server.url, allows_private=allows_private)
        check_headers(server)
    if any(reference.scope is SecretScope.CLUSTER for reference in list_references(config)):
        raise NotAllowed(
            "Only an MCP server that an admin has declared may use a secret of the cluster.",
            hint="Store the secret as your own, or ask an admin to declare the server.",
            code="cluster_secret_refused",
        )
    return config


def _check_duration(value: object, name: str, least_s: float, most_s: float) -> None:
    if value is None:
        return
    seconds = parse_period(str(value))
    if seconds is None or not least_s <= seconds <= most_s:
        raise InvalidRequest(
            f"{name}: {str(value)[:40]!r} is not a duration between {least_s:g} s and {most_s / 86400:g} d.",
            hint="Write 30s, 10m, 1h or 1d.",
            code=CODE,
        )


def check_server_name(name: str) -> None:
    if not _SERVER_NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name[:60]!r} is not a name for an MCP server.",
            hint="Up to 50 letters, digits, single underscores and dashes: names of tools begin with it.",
            code="bad_mcp_server",
        )


def check_address(url: str, *, allows_private: bool) -> None:
    """Raise unless an MCP server may be at this address. The error repeats nothing of it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise _make_address_error("is not valid") from error
    if parts.scheme not in ("http", "https") or not host:
        raise _make_address_error("is not an http(s) address")
    if holds_secret(url):
        raise InvalidRequest(
            "mcp_servers: an address holds a secret.",
            hint="Store it with `corral secrets set NAME`, and write secret:NAME as `token` or in a header.",
            code="secret_in_address",
        )
    if not allows_private and is_private_address(host):
        raise Unprocessable(
            "mcp_servers: an address is in a private network, or is that of this machine itself.",
            code="private_address",
            hint="Let an admin declare the server: `corral mcp servers set`. Declared servers may be private.",
        )


def _make_address_error(problem: str) -> InvalidRequest:
    return InvalidRequest(f"mcp_servers: an address {problem}.", code="bad_uri")


def check_headers(server: RemoteMcpServer | DeclaredMcpServer) -> None:
    """Raise if a header or a token holds a secret in clear."""
    if isinstance(server, RemoteMcpServer) and server.token:
        parse_secret_reference(server.token)
    for name, value in server.headers.items():
        if find_secret_reference(value) is None and SECRET_WORDS.search(name):
            raise InvalidRequest(
                f"mcp_servers: the header {name[:60]} of {server.name} holds a secret in clear.",
                hint="Store it with `corral secrets set NAME`, and write secret:NAME here.",
                code="secret_in_clear",
            )


def check_variables(server: DeclaredMcpServer) -> None:
    """Raise if a variable of a declared server holds a secret in clear, or refers to one of its author."""
    for name, value in (*server.env.items(), *server.headers.items()):
        found = find_secret_reference(value)
        if found is None and SECRET_WORDS.search(name):
            raise InvalidRequest(
                f"{name[:60]} of {server.name} holds a secret in clear.",
                hint="Store it with `corral secrets set --cluster NAME`, and write cluster-secret:NAME here.",
                code="secret_in_clear",
            )
        if found is not None and found[1].scope is not SecretScope.CLUSTER:
            raise InvalidRequest(
                f"{name[:60]} of {server.name} refers to a secret of one person.",
                hint="A server for everybody needs a secret of the cluster: cluster-secret:NAME.",
                code="bad_secret_reference",
            )


def list_references(config: AgentConfig) -> list[SecretReference]:
    """Return the secrets that an agent needs, each once."""
    found: dict[str, SecretReference] = {}
    for server in config.mcp_servers:
        for value in (server.token, *server.headers.values()):
            reference = find_secret_reference(value) if value else None
            if reference is not None:
                found[str(reference[1])] = reference[1]
    return list(found.values())


def make_remote_spec(server: RemoteMcpServer, *, allows_private: bool = False) -> dict[str, Any]:
    """Return an MCP server at an address in the form for workers, with references in place of secrets. Its worker
    refuses private addresses, unless the operator allows them."""
    token = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    return {
        "name": server.name,
        "transport": server.transport,
        "url": server.url,
        "is_public_only": not allows_private,
        "headers": dict(server.headers) | token,
    }


def make_declared_spec(server: DeclaredMcpServer) -> dict[str, Any]:
    """Return a declared MCP server in the form for workers. It alone may refer to secrets of the cluster."""
    return {
        "name": server.name,
        "transport": server.transport,
        "url": server.url,
        "headers": dict(server.headers),
        "command": server.command,
        "args": list(server.args),
        "env": dict(server.env),
        "cwd": server.cwd,
        "is_declared": True,
    }


def make_session_key(owner: str, servers: Sequence[Mapping[str, Any]]) -> str:
    """Return the key of the MCP sessions that turns share: one owner, one configuration of servers. Empty if there are
    no servers."""
    if not servers:
        return ""
    return hashlib.sha256(json.dumps([owner, list(servers)], sort_keys=True).encode()).hexdigest()


def compute_next_run(previous: datetime, period_s: float, now: datetime) -> datetime:
    """Return the first time after now in steps of the period from the previous scheduled time."""
    steps = max(1, int((now - previous).total_seconds() // period_s) + 1)
    return previous + timedelta(seconds=steps * period_s)


def make_title(text: str) -> str:
    """Return the title of a thread that begins with this message."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE_MAX else f"{line[: TITLE_MAX - 1].rstrip()}…"


def select_history(messages: Sequence[ThreadMessage], run_id: str) -> list[Mapping[str, Any]]:
    """Return the messages of its thread that a turn shows the model: the newest before its own, within the limits.

    A message that was sent while another turn ran stands before the answer of that turn in the thread. So messages are
    ordered by turn here, each followed by its answer; turns that begin later are left out."""
    turns: dict[str, list[ThreadMessage]] = {}
    for message in sorted(messages, key=lambda one: one.seq):
        turns.setdefault(message.run_id or f"message {message.seq}", []).append(message)
    own = turns.get(run_id)
    begin = own[0].seq if own else None
    earlier = [
        message
        for key, turn in turns.items()
        if key != run_id and (begin is None or turn[0].seq < begin)
        for message in turn
    ]
    return _drop_headless(_take_newest(earlier))


def _take_newest(messages: Sequence[ThreadMessage]) -> list[Mapping[str, Any]]:
    kept: list[Mapping[str, Any]] = []
    size_bytes = 0
    for message in reversed(messages[-HISTORY_MESSAGES_MAX:]):
        size_bytes += len(json.dumps(message.message))
        if size_bytes > HISTORY_BYTES_MAX:
            break
        kept.append(_without_sources(message.message))
    return kept[::-1]


def _without_sources(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message without the list of sources, which models would imitate."""
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, str):
        return message
    return {**message, "content": strip_sources(content)}


def _drop_headless(messages: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Drop results at the beginning whose calls were cut off: models refuse them."""
    start = next((index for index, message in enumerate(messages) if message.get("role") != "tool"), len(messages))
    return messages[start:]


def list_answer_messages(outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages that a completed turn adds to its thread; of a turn beyond the limits its answer alone."""
    found = outcome.get("messages")
    kept = list(_iter_messages(found if isinstance(found, list) else []))
    content = str(outcome.get("content") or "")
    if len(kept) > ANSWER_MESSAGES_MAX or len(json.dumps(kept)) > ANSWER_BYTES_MAX:
        # Calls without their results would be refused by models, so none of them is kept.
        kept = []
    if not any(message["role"] == "assistant" and message.get("content") for message in kept) and content:
        kept.append({"role": "assistant", "content": content[: ANSWER_BYTES_MAX // 4]})
    return kept


def _iter_messages(found: Sequence[object]) -> Iterator[dict[str, Any]]:
    for message in found:
        if isinstance(message, Mapping) and message.get("role") in _ANSWER_ROLES:
            names = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content")
            yield {name: message[name] for name in names if message.get(name) is not None}
