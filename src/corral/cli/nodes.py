"""`corral nodes …`: commands for the machines of the cluster. A node is given by its name or its id."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.completion import complete_node_names
from corral.domain.errors import InvalidRequest
from corral.domain.state_words import NODE_WORDS, find_word

app = make_group("Nodes, the machines of the cluster: list, approve, drain, label and remove them.")

NodeArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="Name or id of a node.", autocompletion=complete_node_names)
]
ResetOption = Annotated[bool, typer.Option("--reset", help="Go back to the value that the worker reports.")]


@register_command(app, "list")
async def list_nodes(
    session: CommandSession,
    *,
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", metavar="LABELS", help="Only nodes with key=value,key2=value2.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="Only nodes with this status: pending, joining, healthy, unhealthy, offline or draining.",
        ),
    ] = None,
) -> None:
    """List the nodes."""
    from corral.cli.node_views import format_node_list

    nodes = await session.client.nodes.list(selector=selector, status=status)
    if session.as_json:
        render.print_json([node.model_dump(mode="json") for node in nodes])
    elif nodes:
        render.print_data(format_node_list(nodes, session.read_time(), colour=render.has_colour(sys.stdout)))
        _mention_pending([node.name for node in nodes if node.status == "pending"])
    elif selector or status:
        render.print_notice("No nodes match this filter. Without --selector and --status all nodes are listed.")
    else:
        render.print_notice(
            "No nodes have joined yet. `corral tokens create` makes a join token and prints how to use it."
        )


def _mention_pending(names: list[str]) -> None:
    if len(names) == 1:
        render.print_notice(
            f"\n{render.clean_text(names[0])} waits for approval: corral nodes approve {render.clean_text(names[0])}"
        )
    elif names:
        render.print_notice(f"\n{len(names)} nodes wait for approval: corral nodes approve NODE")


@register_command(app, "show")
async def show_node(session: CommandSession, node: NodeArgument) -> None:
    """Show one node in full, and what to do next."""
    from corral.cli.node_views import format_node

    found = await session.client.nodes.get(node)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
    else:
        render.print_data(format_node(found, session.read_time(), colour=render.has_colour(sys.stdout)))


@register_command(app, "approve")
async def approve_node(
    session: CommandSession,
    node: NodeArgument,
    *,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Approve a node, with the labels that its worker sends. Asks for confirmation on a terminal if the node registered
    another address than the one it connected from."""
    found = await session.client.nodes.get(node)
    if found.address_note:
        render.print_notice(
            f"{render.clean_text(found.address_note)} Models that it runs are reached at the address it registered."
        )
        if not is_sure and not session.as_json and sys.stdin.isatty() and not render.confirm(f"Approve {found.name}?"):
            raise typer.Exit(1)
    answer = await session.client.nodes.approve(node, found.proposed_labels)
    if session.as_json:
        render.print_json(answer.model_dump(mode="json"))
        return
    render.print_notice(answer.message or f"Approved node {answer.name}.")
    if answer.labels:
        render.print_notice(f"Approved labels: {render.clean_text(render.format_pairs(answer.labels))}")
    if answer.api_token:
        render.print_notice("API key of the node, shown only once:")
        render.print_data(answer.api_token)


@register_command(app, "drain")
async def drain_node(session: CommandSession, node: NodeArgument) -> None:
    """Drain a node: it finishes its requests and gets no new ones."""
    drained = await session.client.nodes.drain(node)
    if session.as_json:
        render.print_json(drained.model_dump(mode="json"))
    else:
        render.print_notice(f"{drained.name} is draining. `corral nodes resume {drained.name}` returns it to service.")


@register_command(app, "resume")
async def resume_node(session: CommandSession, node: NodeArgument) -> None:
    """Return a drained node to service."""
    resumed = await session.client.nodes.resume(node)
    if session.as_json:
        render.print_json(resumed.model_dump(mode="json"))
    else:
        render.print_notice(f"{resumed.name} is {find_word(NODE_WORDS, resumed.status)}. {resumed.status_reason}")


@register_command(app, "remove")
async def remove_node(
    session: CommandSession,
    node: NodeArgument,
    *,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove a node with its credentials and labels. Asks for confirmation on a terminal."""
    if not is_sure and sys.stdin.isatty():
        found = await session.client.nodes.get(node)
        status = find_word(NODE_WORDS, found.status)
        question = f"Remove {found.name} ({status}, {found.model_count} models)? Its worker will have to join again."
        if not render.confirm(question):
            raise typer.Exit(1)
    await session.client.nodes.remove(node)
    if session.as_json:
        render.print_json({"removed": node})
    else:
        render.print_notice(f"Removed node {node}.")


@register_command(app, "label")
async def label_node(
    session: CommandSession,
    node: NodeArgument,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE | KEY-]...", help="Set a label, or remove one.")
    ] = None,
) -> None:
    """Set labels (key=value) or remove them (key-). Without any, show the labels of the node."""
    new_labels, removed_keys = parse_label_changes(changes or [])
    if new_labels:
        await session.client.labels.merge(node, new_labels)
    for key in removed_keys:
        await session.client.labels.remove(node, key)
    labels = await session.client.labels.get(node)
    if session.as_json:
        render.print_json(labels)
    else:
        render.print_data(
            "".join(f"{render.clean_text(key)}={render.clean_text(value)}\n" for key, value in sorted(labels.items()))
        )


@register_command(app, "approve-labels")
async def approve_labels(session: CommandSession, node: NodeArgument) -> None:
    """Approve the labels that the worker of a node has sent since the last approval."""
    found = await session.client.nodes.get(node)
    labels = await session.client.labels.approve(node, found.proposed_labels)
    if session.as_json:
        render.print_json(labels)
    elif found.proposed_labels:
        render.print_notice(
            f"Approved for {found.name}: {render.clean_text(render.format_pairs(found.proposed_labels))}"
        )
    else:
        render.print_notice(f"No labels of {found.name} wait for approval.")


def parse_label_changes(changes: list[str]) -> tuple[dict[str, str], list[str]]:
    """Parse changes of labels into labels to set and labels to remove; raise `InvalidRequest` if one is unclear."""
    new_labels: dict[str, str] = {}
    removed_keys: list[str] = []
    for change in changes:
        key, equals, value = change.partition("=")
        if equals and key:
            new_labels[key] = value
        elif change.endswith("-") and len(change) > 1:
            removed_keys.append(change[:-1])
        else:
            raise InvalidRequest(f"{change!r} is neither key=value nor key-.", hint="For example: site=attic old-")
    both = sorted(new_labels.keys() & set(removed_keys))
    if both:
        raise InvalidRequest(f"{both[0]} is to be set and removed at the same time.", hint="Give only one of the two.")
    return new_labels, removed_keys


@register_command(app, "budget")
async def set_budget(
    session: CommandSession,
    node: NodeArgument,
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="[80%|12GB|none]", help="A share such as 80%, a size such as 20GiB, or none for no limit."
        ),
    ] = None,
    *,
    reset: ResetOption = False,
) -> None:
    """Set how much GPU memory models may use on a node."""
    _require_value_or_reset(value, reset=reset, example="80%")
    if reset:
        answer = await session.client.nodes.reset_budget(node)
    else:
        assert value is not None
        answer = await session.client.nodes.set_budget(node, "" if value.lower() == "none" else value)
    if session.as_json:
        render.print_json(answer.model_dump(mode="json"))
        return
    size = f" ({render.format_size(answer.vram_budget_bytes)})" if answer.vram_budget_bytes is not None else ""
    origin = ", as its worker reports" if reset else ""
    render.print_notice(f"VRAM budget of {node}: {answer.vram_budget or 'no limit'}{size}{origin}.")


@register_command(app, "slots")
async def set_slots(
    session: CommandSession,
    node: NodeArgument,
    value: Annotated[
        int | None, typer.Argument(metavar="[COUNT]", min=1, max=1024, help="Maximum number of replicas of one model.")
    ] = None,
    *,
    reset: ResetOption = False,
) -> None:
    """Set how many replicas of one model may run on a node."""
    _require_value_or_reset(value, reset=reset, example="4")
    if reset:
        answer = await session.client.nodes.reset_slots(node)
    else:
        assert value is not None
        answer = await session.client.nodes.set_slots(node, value)
    if session.as_json:
        render.print_json(answer.model_dump(mode="json"))
        return
    origin = ", as its worker reports" if reset else ""
    render.print_notice(f"Slots of {node}: {answer.max_replicas_per_model} per model{origin}.")


def _require_value_or_reset(value: object, *, reset: bool, example: str) -> None:
    if (value is None) != reset:
        raise typer.BadParameter(f"give a value such as {example}, or --reset")


@register_command(app, "watch")
async def watch_nodes(session: CommandSession) -> None:
    """Watch nodes change: a live table on a terminal, otherwise one line per event. Ctrl-C ends it."""
    from corral.cli.node_watch import watch_as_lines, watch_as_table

    if sys.stdout.isatty() and not session.as_json:
        await watch_as_table(session)
    else:
        await watch_as_lines(session)
