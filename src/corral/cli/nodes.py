"""`corral nodes …`: the machines of the cluster. A node is named by its name or its id."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from corral.cli import render
from corral.cli.command import Session, a_group, client_command
from corral.cli.complete import node_names
from corral.domain.errors import InvalidRequest

app = a_group("The machines of the cluster.")

Node = Annotated[str, typer.Argument(metavar="NODE", help="Name or id of a node.", autocompletion=node_names)]
ResetOption = Annotated[bool, typer.Option("--reset", help="Use what the worker reports again.")]


@client_command(app, "list")
async def list_nodes(
    session: Session,
    *,
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", metavar="LABELS", help="Only nodes with key=value,key2=value2.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status", metavar="STATUS", help="Only pending, joining, healthy, unhealthy, offline or draining ones."
        ),
    ] = None,
) -> None:
    """List the nodes."""
    from corral.cli.node_views import node_list

    nodes = await session.client.nodes.list(selector=selector, status=status)
    if session.as_json:
        render.write_json([node.model_dump(mode="json") for node in nodes])
    elif nodes:
        render.write(node_list(nodes, session.now(), colour=render.has_colour(sys.stdout)))
        _mention_pending([node.name for node in nodes if node.status == "pending"])
    elif selector or status:
        render.say("No nodes match this filter. Without --selector and --status all nodes are listed.")
    else:
        render.say("No node has joined yet. `corral tokens create` makes a token and says how to use it.")


def _mention_pending(names: list[str]) -> None:
    if len(names) == 1:
        render.say(f"\n{render.clean(names[0])} waits for approval: corral nodes approve {render.clean(names[0])}")
    elif names:
        render.say(f"\n{len(names)} nodes wait for approval: corral nodes approve NODE")


@client_command(app, "show")
async def show_node(session: Session, node: Node) -> None:
    """Show everything about a node, and what to do next."""
    from corral.cli.node_views import node_in_full

    found = await session.client.nodes.get(node)
    if session.as_json:
        render.write_json(found.model_dump(mode="json"))
    else:
        render.write(node_in_full(found, session.now(), colour=render.has_colour(sys.stdout)))


@client_command(app, "approve")
async def approve_node(
    session: Session,
    node: Node,
    *,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Let a node into service, with the labels that its worker sends. Asks first on a terminal if the node registered
    another address than the one it was seen at."""
    found = await session.client.nodes.get(node)
    if found.address_note:
        render.say(f"{render.clean(found.address_note)} Models that it runs are reached at the address it registered.")
        if not is_sure and not session.as_json and sys.stdin.isatty() and not render.ask(f"Approve {found.name}?"):
            raise typer.Exit(1)
    answer = await session.client.nodes.approve(node, found.proposed_labels)
    if session.as_json:
        render.write_json(answer.model_dump(mode="json"))
        return
    render.say(answer.message or f"Node {answer.name} is approved.")
    if answer.labels:
        render.say(f"Its labels count from now on: {render.clean(render.pairs_text(answer.labels))}")
    if answer.api_token:
        render.say("Its API key, shown this once:")
        render.write(answer.api_token)


@client_command(app, "drain")
async def drain_node(session: Session, node: Node) -> None:
    """Take a node out of service. It finishes what it has and gets nothing new."""
    drained = await session.client.nodes.drain(node)
    if session.as_json:
        render.write_json(drained.model_dump(mode="json"))
    else:
        render.say(f"{drained.name} is draining. `corral nodes resume {drained.name}` takes it back.")


@client_command(app, "resume")
async def resume_node(session: Session, node: Node) -> None:
    """Take a drained node back into service."""
    resumed = await session.client.nodes.resume(node)
    if session.as_json:
        render.write_json(resumed.model_dump(mode="json"))
    else:
        render.say(f"{resumed.name} is {resumed.status}. {resumed.status_reason}")


@client_command(app, "remove")
async def remove_node(
    session: Session,
    node: Node,
    *,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a node, its credentials and its labels. Asks first on a terminal."""
    if not is_sure and sys.stdin.isatty():
        found = await session.client.nodes.get(node)
        question = f"Remove {found.name} ({found.status}, {found.model_count} models)? Its worker must join anew."
        if not render.ask(question):
            raise typer.Exit(1)
    await session.client.nodes.remove(node)
    if session.as_json:
        render.write_json({"removed": node})
    else:
        render.say(f"{node} is removed.")


@client_command(app, "label")
async def label_node(
    session: Session,
    node: Node,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE | KEY-]...", help="Set a label, or remove one.")
    ] = None,
) -> None:
    """Set labels (key=value), remove them (key-). Without any, show them."""
    wanted, unwanted = parse_label_changes(changes or [])
    if wanted:
        await session.client.labels.merge(node, wanted)
    for key in unwanted:
        await session.client.labels.remove(node, key)
    labels = await session.client.labels.get(node)
    if session.as_json:
        render.write_json(labels)
    else:
        render.write("".join(f"{render.clean(key)}={render.clean(value)}\n" for key, value in sorted(labels.items())))


@client_command(app, "approve-labels")
async def approve_labels(session: Session, node: Node) -> None:
    """Let labels count that the worker of a node sends and nobody has approved yet."""
    found = await session.client.nodes.get(node)
    labels = await session.client.labels.approve(node, found.proposed_labels)
    if session.as_json:
        render.write_json(labels)
    elif found.proposed_labels:
        render.say(f"Approved for {found.name}: {render.clean(render.pairs_text(found.proposed_labels))}")
    else:
        render.say(f"No label of {found.name} waits for approval.")


def parse_label_changes(changes: list[str]) -> tuple[dict[str, str], list[str]]:
    """What to set and what to remove. Nothing is sent when one of them is unclear."""
    wanted: dict[str, str] = {}
    unwanted: list[str] = []
    for change in changes:
        key, equals, value = change.partition("=")
        if equals and key:
            wanted[key] = value
        elif change.endswith("-") and len(change) > 1:
            unwanted.append(change[:-1])
        else:
            raise InvalidRequest(f"{change!r} is neither key=value nor key-.", hint="For example: site=attic old-")
    both = sorted(wanted.keys() & set(unwanted))
    if both:
        raise InvalidRequest(f"{both[0]} is to be set and to be removed.", hint="Say one of the two.")
    return wanted, unwanted


@client_command(app, "budget")
async def set_budget(
    session: Session,
    node: Node,
    value: Annotated[
        str | None, typer.Argument(metavar="[80%|12GB|none]", help="A share, a size, or none for no cap.")
    ] = None,
    *,
    reset: ResetOption = False,
) -> None:
    """Say how much GPU memory may be used on a node."""
    _one_of(value, reset=reset, example="80%")
    if reset:
        answer = await session.client.nodes.reset_budget(node)
    else:
        assert value is not None
        answer = await session.client.nodes.set_budget(node, "" if value.lower() == "none" else value)
    if session.as_json:
        render.write_json(answer.model_dump(mode="json"))
        return
    size = f" ({render.size(answer.vram_budget_bytes)})" if answer.vram_budget_bytes is not None else ""
    whose = ", as its worker reports" if reset else ""
    render.say(f"VRAM budget of {node}: {answer.vram_budget or 'no cap'}{size}{whose}.")


@client_command(app, "slots")
async def set_slots(
    session: Session,
    node: Node,
    value: Annotated[
        int | None, typer.Argument(metavar="[COUNT]", min=1, max=1024, help="Copies of one model at most.")
    ] = None,
    *,
    reset: ResetOption = False,
) -> None:
    """Say how many copies of one model may run on a node."""
    _one_of(value, reset=reset, example="4")
    if reset:
        answer = await session.client.nodes.reset_slots(node)
    else:
        assert value is not None
        answer = await session.client.nodes.set_slots(node, value)
    if session.as_json:
        render.write_json(answer.model_dump(mode="json"))
        return
    whose = ", as its worker reports" if reset else ""
    render.say(f"Slots of {node}: {answer.max_replicas_per_model} per model{whose}.")


def _one_of(value: object, *, reset: bool, example: str) -> None:
    if (value is None) != reset:
        raise typer.BadParameter(f"say a value such as {example}, or --reset")


@client_command(app, "watch")
async def watch_nodes(session: Session) -> None:
    """Follow the nodes as they change. A live table on a terminal, otherwise a line per event; Ctrl-C ends it."""
    from corral.cli.watch import follow_as_lines, follow_as_table

    if sys.stdout.isatty() and not session.as_json:
        await follow_as_table(session)
    else:
        await follow_as_lines(session)
