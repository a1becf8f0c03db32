"""`corral agents …`: commands for agents, models with instructions and tools, and for threads with them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.agent_chat import chat_with_agent
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.completion import (
    complete_agent_names,
    complete_mcp_server_names,
    complete_model_names,
    complete_skill_names,
)
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from corral.wire.agents import AgentConfigOut, AgentOut, AgentStatusOut, ThreadMessageOut, ThreadOut

app = make_group("Agents, models with instructions and tools: create them, and chat with them.")
threads_app = make_group("Threads, your conversations with an agent: list, show and delete them.")
app.add_typer(threads_app, name="threads")
AgentArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the agent.", autocompletion=complete_agent_names)
]
ThreadArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the thread, or its beginning or end.")]
OwnerOption = Annotated[
    str, typer.Option("--owner", metavar="OWNER", help="For admins: whose agent is meant, as in user:….")
]
ModelOption = Annotated[
    str | None, typer.Option("--model", "-m", help="The model that answers.", autocompletion=complete_model_names)
]
SystemOption = Annotated[
    str | None, typer.Option("--system", "-s", metavar="TEXT", help="Instructions. @FILE reads a file.")
]
DescriptionOption = Annotated[str | None, typer.Option("--description", help="What the agent is for.")]
ServerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mcp-server",
        metavar="NAME",
        help="An MCP server that an admin has declared; repeatable.",
        autocompletion=complete_mcp_server_names,
    ),
]
AddressOption = Annotated[
    list[str] | None,
    typer.Option("--mcp-url", metavar="[NAME=]URL", help="An MCP server at an address; repeatable."),
]
RuleOption = Annotated[
    list[str] | None,
    typer.Option("--tool-rule", metavar="PATTERN=RULE", help="auto, ask or deny for these tools; repeatable."),
]
CalleeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        metavar="NAME",
        help="Another agent that it may call as a tool; repeatable.",
        autocompletion=complete_agent_names,
    ),
]
SkillOption = Annotated[
    list[str] | None,
    typer.Option(
        "--skill",
        metavar="NAME",
        help="A skill to offer, or '*' for all that you may use; '' for none. Repeatable.",
        autocompletion=complete_skill_names,
    ),
]
CollectionOption = Annotated[
    str | None,
    typer.Option("--collection", metavar="NAME", help="Answer from this collection of documents; '' from none."),
]
ToolModeOption = Annotated[
    str | None, typer.Option("--tool-mode", metavar="MODE", help="auto, native or guided (forced by a schema).")
]
ToolChoiceOption = Annotated[
    str | None,
    typer.Option("--tool-choice", metavar="CHOICE", help="auto, or required: every turn begins with a tool call."),
]
TemperatureOption = Annotated[float | None, typer.Option("--temperature", metavar="NUMBER", min=0.0)]
IterationsOption = Annotated[
    int | None, typer.Option("--max-iterations", metavar="NUMBER", min=1, help="Calls of the model in one turn.")
]
GoalOption = Annotated[
    str | None, typer.Option("--goal", metavar="TEXT", help="The agent runs by itself, towards this goal; '' never.")
]
PeriodOption = Annotated[
    str | None, typer.Option("--every", metavar="DURATION", help="How often it runs by itself.  [10m]")
]
SharedOption = Annotated[
    bool | None, typer.Option("--shared/--not-shared", help="For admins: share the agent with everybody.")
]
FileOption = Annotated[
    str, typer.Option("--file", "-f", metavar="FILE", help="YAML or JSON with all fields; - is standard input.")
]
SureOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
_TEXT_MAX = 60


@register_command(app, "list")
async def list_agents(
    session: CommandSession,
    *,
    all_users: Annotated[bool, typer.Option("--all-users", help="For admins: the agents of all users.")] = False,
) -> None:
    """List your agents, and those that are shared with everybody."""
    found = await session.client.agents.list(all_users=all_users)
    if session.as_json:
        render.print_json([agent.model_dump(mode="json") for agent in found])
    elif found:
        render.print_data(_format_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("You have no agents. Create one: corral agents create NAME --model MODEL")


@register_command(app, "show")
async def show_agent(session: CommandSession, name: AgentArgument, *, owner: OwnerOption = "") -> None:
    """Show one agent: its configuration, and what it does for you now."""
    found = await session.client.agents.get(name, owner=owner)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
        return
    status = await session.client.agents.get_status(name, owner=owner)
    render.print_data(_format_agent(found, status, session.read_time()))


@register_command(app, "create")
async def create_agent(
    session: CommandSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the agent.")],
    *,
    model: ModelOption = None,
    system: SystemOption = None,
    description: DescriptionOption = None,
    mcp_server: ServerOption = None,
    mcp_url: AddressOption = None,
    tool_rule: RuleOption = None,
    agent: CalleeOption = None,
    skill: SkillOption = None,
    collection: CollectionOption = None,
    tool_mode: ToolModeOption = None,
    tool_choice: ToolChoiceOption = None,
    temperature: TemperatureOption = None,
    max_iterations: IterationsOption = None,
    goal: GoalOption = None,
    every: PeriodOption = None,
    shared: SharedOption = None,
    file: FileOption = "",
) -> None:
    """Create an agent from options, a file, or both; options win."""
    given: dict[str, Any] = {"model": model, "system_prompt": system, "description": description, "agents": agent}
    given |= {"mcp_stdio_servers": mcp_server, "mcp_servers": mcp_url, "tool_rules": tool_rule, "shared": shared}
    given |= {"tool_mode": tool_mode, "tool_choice": tool_choice, "temperature": temperature}
    given |= {"max_iterations": max_iterations, "permanent_goal": goal, "periodic_runs": every, "skills": skill}
    given |= {"collection": collection}
    created = await session.client.agents.create(_read_body(file) | {"name": name} | _collect(given))
    if session.as_json:
        render.print_json(created.model_dump(mode="json"))
    else:
        render.print_notice(_make_created_notice(created.name))
        render.print_warnings(created.warnings)


@register_command(app, "edit")
async def edit_agent(
    session: CommandSession,
    name: AgentArgument,
    *,
    new_name: Annotated[str | None, typer.Option("--name", help="A new name.")] = None,
    model: ModelOption = None,
    system: SystemOption = None,
    description: DescriptionOption = None,
    mcp_server: ServerOption = None,
    mcp_url: AddressOption = None,
    tool_rule: RuleOption = None,
    agent: CalleeOption = None,
    skill: SkillOption = None,
    collection: CollectionOption = None,
    tool_mode: ToolModeOption = None,
    tool_choice: ToolChoiceOption = None,
    temperature: TemperatureOption = None,
    max_iterations: IterationsOption = None,
    goal: GoalOption = None,
    every: PeriodOption = None,
    shared: SharedOption = None,
    file: FileOption = "",
    owner: OwnerOption = "",
) -> None:
    """Change an agent. What is not named stays as it is; lists such as MCP servers are replaced. A paused agent stays
    paused."""
    given: dict[str, Any] = {"name": new_name, "model": model, "system_prompt": system, "description": description}
    given |= {"mcp_stdio_servers": mcp_server, "mcp_servers": mcp_url, "tool_rules": tool_rule, "shared": shared}
    given |= {"agents": agent, "tool_mode": tool_mode, "tool_choice": tool_choice, "temperature": temperature}
    given |= {"max_iterations": max_iterations, "permanent_goal": goal, "periodic_runs": every, "skills": skill}
    given |= {"collection": collection}
    change = _read_body(file) | _collect(given)
    if not change:
        raise InvalidRequest("No option says what to change.", hint="Options: corral agents edit --help")
    current = await session.client.agents.get(name, owner=owner)
    changed = await session.client.agents.edit(
        name, {**current.config, **change}, owner=owner, revision=current.revision
    )
    if session.as_json:
        render.print_json(changed.model_dump(mode="json"))
    else:
        render.print_notice(render.clean_text(f"Changed agent {changed.name}."))
        render.print_warnings(changed.warnings)


@register_command(app, "pause")
async def pause_agent(session: CommandSession, name: AgentArgument, *, owner: OwnerOption = "") -> None:
    """Pause an agent: it refuses messages, and does not run by itself. A turn that runs goes on."""
    paused = await session.client.agents.set_paused(name, is_paused=True, owner=owner)
    _print_changed(session, paused, f"Paused agent {paused.name}. To resume it: corral agents resume {paused.name}")


@register_command(app, "resume")
async def resume_agent(session: CommandSession, name: AgentArgument, *, owner: OwnerOption = "") -> None:
    """Resume a paused agent."""
    resumed = await session.client.agents.set_paused(name, is_paused=False, owner=owner)
    _print_changed(session, resumed, f"Resumed agent {resumed.name}.")


@register_command(app, "clone")
async def clone_agent(
    session: CommandSession,
    name: AgentArgument,
    new_name: Annotated[
        str, typer.Argument(metavar="NEW_NAME", help="Name of the copy.  [the name with -copy behind it]")
    ] = "",
    *,
    owner: OwnerOption = "",
) -> None:
    """Copy an agent. The copy is your own, and not shared."""
    made = await session.client.agents.clone(name, new_name, owner=owner)
    _print_changed(session, made, _make_created_notice(made.name))


@register_command(app, "import")
async def import_agent(
    session: CommandSession,
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON or YAML document; - is standard input.")],
    *,
    name: Annotated[
        str, typer.Option("--name", help="Name of the new agent, instead of the one in the document.")
    ] = "",
) -> None:
    """Create an agent from an exported file. Files of LocalAGI are read, too."""
    made = await session.client.agents.import_document(_read_body(file), name)
    if session.as_json:
        render.print_json(made.model_dump(mode="json"))
        return
    render.print_notice(_make_created_notice(made.name))
    render.print_warnings(made.warnings)
    if made.ignored:
        render.print_notice(
            render.clean_text(f"Ignored fields, which have no effect in Corral: {', '.join(made.ignored)}.")
        )
    for reference in made.missing_secrets:
        secret = reference.partition(":")[2] or reference
        render.print_notice(render.clean_text(f"Secret {secret} is missing. Store it: corral secrets set {secret}"))


@register_command(app, "export")
async def export_agent(session: CommandSession, name: AgentArgument, *, owner: OwnerOption = "") -> None:
    """Print an agent as JSON for `corral agents import`. It holds no secret."""
    render.print_json(await session.client.agents.export(name, owner=owner))


@register_command(app, "delete")
async def delete_agent(
    session: CommandSession, name: AgentArgument, *, owner: OwnerOption = "", is_sure: SureOption = False
) -> None:
    """Delete an agent with its threads, and cancel its turns."""
    if not is_sure and not session.as_json and sys.stdin.isatty():
        found = await session.client.agents.get(name, owner=owner)
        if not render.confirm(f"Delete agent {found.name} with the threads of all users?"):
            raise typer.Exit(1)
    await session.client.agents.delete(name, owner=owner)
    if session.as_json:
        render.print_json({"name": name, "deleted": True})
    else:
        render.print_notice(render.clean_text(f"Deleted agent {name}."))


@register_command(app, "chat")
async def chat(
    session: CommandSession,
    name: AgentArgument,
    message: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MESSAGE", help="The message; without one a conversation begins. - reads standard input."
        ),
    ] = None,
    *,
    thread: Annotated[
        str, typer.Option("--thread", "-t", metavar="ID", help="Continue this thread instead of beginning a new one.")
    ] = "",
    approves_all: Annotated[
        bool, typer.Option("--approve-all", help="Approve every tool call that the agent has to ask about.")
    ] = False,
) -> None:
    """Chat with an agent. The answer goes to standard output; reasoning, tool calls and their results go to standard
    error. Ctrl-C cancels the turn, a second one leaves."""
    thread_id = await _find_thread_id(session, name, thread) if thread else None
    await chat_with_agent(session, name, message or [], thread_id, approves_all=approves_all)


# --- threads ---


@register_command(threads_app, "list")
async def list_threads(
    session: CommandSession,
    name: AgentArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to list at most.")] = 20,
) -> None:
    """List your threads with an agent, the one used last first."""
    found = await session.client.agents.list_threads(name, limit=limit)
    if session.as_json:
        render.print_json([thread.model_dump(mode="json") for thread in found])
    elif found:
        render.print_data(_format_threads(found, session.read_time()))
    else:
        render.print_notice(render.clean_text(f"You have no threads with {name}. Start one: corral agents chat {name}"))


@register_command(threads_app, "show")
async def show_thread(session: CommandSession, name: AgentArgument, thread: ThreadArgument) -> None:
    """Show the messages of a thread."""
    thread_id = await _find_thread_id(session, name, thread)
    found = await session.client.agents.get_thread(name, thread_id)
    messages = await session.client.agents.list_messages(name, thread_id)
    if session.as_json:
        shown = [message.model_dump(mode="json") for message in messages]
        render.print_json(found.model_dump(mode="json") | {"messages": shown})
        return
    for one in messages:
        render.print_data(_format_message(one))
    render.print_notice(render.clean_text(f"Continue: corral agents chat {name} --thread {found.id}"))


@register_command(threads_app, "delete")
async def delete_thread(session: CommandSession, name: AgentArgument, thread: ThreadArgument) -> None:
    """Delete a thread with its messages, and cancel its turns."""
    thread_id = await _find_thread_id(session, name, thread)
    await session.client.agents.delete_thread(name, thread_id)
    if session.as_json:
        render.print_json({"id": thread_id, "deleted": True})
    else:
        render.print_notice(f"Deleted thread {thread_id}.")


async def _find_thread_id(session: CommandSession, name: str, text: str) -> str:
    from corral.cli.operation_views import FULL_ID_LENGTH, resolve_id

    if len(text) >= FULL_ID_LENGTH:
        return text
    return resolve_id([thread.id for thread in await session.client.agents.list_threads(name, limit=1000)], text)


# --- reading options ---


def _collect(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an agent that the options name, as the API takes them."""
    from corral.cli.fleet import read_value

    fields = {name: value for name, value in given.items() if value is not None}
    if "system_prompt" in fields:
        fields["system_prompt"] = read_value(fields["system_prompt"])
    if "mcp_servers" in fields:
        fields["mcp_servers"] = [_parse_address(text) for text in fields["mcp_servers"]]
    if "tool_rules" in fields:
        fields["tool_rules"] = dict(_parse_rule(text) for text in fields["tool_rules"])
    if "skills" in fields:
        names = [name for name in fields.pop("skills") if name]
        fields |= {"enable_skills": bool(names), "selected_skills": [name for name in names if name != "*"]}
    if "permanent_goal" in fields:
        fields["standalone_job"] = bool(fields["permanent_goal"])
    if "collection" in fields:
        fields["enable_kb"] = bool(fields["collection"])
    return fields


def _read_body(file: str) -> dict[str, Any]:
    from corral.cli.fleet import read_body

    return read_body(file, "agent", "For several agents: corral apply -f FILE")


def _parse_address(text: str) -> dict[str, str]:
    name, separator, url = text.partition("=")
    # An address may hold the sign, too, behind its question mark.
    return {"name": name, "url": url} if separator and "/" not in name else {"url": text}


def _parse_rule(text: str) -> tuple[str, str]:
    pattern, separator, rule = text.rpartition("=")
    if not pattern or not separator:
        raise typer.BadParameter(f"--tool-rule {text!r} is not like files__*=ask")
    return pattern, rule


# --- output ---


def _make_created_notice(name: str) -> str:
    return render.clean_text(f"Created agent {name}. Talk to it: corral agents chat {name}")


def _print_changed(session: CommandSession, agent: AgentOut, notice: str) -> None:
    if session.as_json:
        render.print_json(agent.model_dump(mode="json"))
    else:
        render.print_notice(render.clean_text(notice))


def _format_list(found: Sequence[AgentOut], now: datetime, *, colour: bool) -> str:
    from corral.domain.state_words import AGENT_WORDS, find_word

    rows = [
        [
            agent.name,
            agent.model,
            find_word(AGENT_WORDS, agent.status),
            ("you" if agent.is_own else agent.owner_name) + (", shared" if agent.shared else ""),
            render.format_until(agent.next_run_at, now) if agent.next_run_at else render.NONE,
            render.clean_text(agent.description)[:_TEXT_MAX],
        ]
        for agent in found
    ]
    return render.format_table(("NAME", "MODEL", "STATE", "OWNER", "NEXT RUN", "DESCRIPTION"), rows, colour=colour)


def _format_agent(agent: AgentConfigOut, status: AgentStatusOut, now: datetime) -> str:
    from corral.domain.state_words import AGENT_WORDS, find_word

    config = agent.config
    servers = [server.get("name") or server.get("url", "") for server in config.get("mcp_servers") or ()]
    rules = config.get("tool_rules") or {}
    facts = {
        "Agent": agent.name,
        "Description": agent.description,
        "Model": agent.model,
        "State": find_word(AGENT_WORDS, agent.status),
        "Owner": ("you" if agent.is_own else agent.owner_name) + (", shared with everybody" if agent.shared else ""),
        "MCP servers": ", ".join([*servers, *(config.get("mcp_stdio_servers") or ())]),
        "Tool rules": ", ".join(f"{pattern}: {rule}" for pattern, rule in rules.items()),
        "Tools": f"{config.get('tool_mode', 'auto')}, {config.get('tool_choice', 'auto')}",
        "Agents": ", ".join(config.get("agents") or ()),
        "Collection": str(config.get("collection") or agent.name) if config.get("enable_kb") else "",
        "Goal": str(config.get("permanent_goal") or "") if agent.standalone_job else "",
        "Next run": render.format_until(agent.next_run_at, now) if agent.next_run_at else "",
        "Labels": render.format_pairs(config.get("labels") or {}),
        "Revision": f"{agent.revision}, {render.format_age(agent.updated_at, now)} ago",
        "Threads": str(status.threads),
        "Open runs": str(status.open_runs),
    }
    prompt = render.clean_text(str(config.get("system_prompt") or ""), keep="\n")
    return f"{render.format_facts(facts)}\n{prompt}\n" if prompt else render.format_facts(facts)


def _format_threads(found: Sequence[ThreadOut], now: datetime) -> str:
    from corral.cli.operation_views import shorten_id

    rows = [
        [shorten_id(one.id), str(one.messages), f"{render.format_age(one.updated_at, now)} ago", one.title]
        for one in found
    ]
    return render.format_table(("ID", "MESSAGES", "USED", "TITLE"), rows)


def _format_message(message: ThreadMessageOut) -> str:
    content = message.content
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False) if content else ""
    calls = [call.get("function") or {} for call in message.tool_calls if isinstance(call, dict)]
    lines = [render.clean_text(text, keep="\n\t")] if text else []
    lines += [render.clean_text(f"calls {call.get('name')} {call.get('arguments', '')}") for call in calls]
    return f"{message.role}: " + "\n".join(lines)
