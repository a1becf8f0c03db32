"""`corral backends …`: engines as something that is installed. A backend is a name or gallery@name."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import Session, a_group, client_command
from corral.cli.complete import backend_names, installed_names, node_names
from corral.cli.operations import DetachOption
from corral.cli.upkeep import clean_nodes, drop_owed, list_galleries, list_owed, revive_owed
from corral.domain.errors import CorralError, InvalidRequest

if TYPE_CHECKING:
    from corral.wire.backends import AdmittedOut, CatalogEntryOut, PlanOut, StrategyIn, TargetsIn

app = a_group("Engines: what there is, what is installed where, and changing it.")

Backend = Annotated[str, typer.Argument(metavar="BACKEND", help="Name, or gallery@name.", autocompletion=backend_names)]
Installed = Annotated[
    str, typer.Argument(metavar="BACKEND", help="Name of an installed one.", autocompletion=installed_names)
]
NodesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node", metavar="NODE", help="Only this node; may be given several times.", autocompletion=node_names
    ),
]
NodeOption = Annotated[str, typer.Option("--node", metavar="NODE", help="The node.", autocompletion=node_names)]
VersionOption = Annotated[str, typer.Option("--version", metavar="VERSION", help="Which one.  [the newest]")]
PlanOption = Annotated[bool, typer.Option("--plan", help="Only show what would be done.")]
AfterOption = Annotated[bool, typer.Option("--after", help="Wait for what is under way there, instead of failing.")]
WavesOption = Annotated[
    str, typer.Option("--waves", metavar="1,5", help="How many nodes at a time; the last number repeats.")
]
StopOption = Annotated[bool, typer.Option("--stop-on-failure", help="Begin no later wave after a failure.")]
RollbackOption = Annotated[bool, typer.Option("--rollback", help="After a failure, changed nodes go back.")]
DeadlineOption = Annotated[
    str | None, typer.Option("--deadline", metavar="DURATION", help="How long absent nodes may owe it.  [for ever]")
]
IgnoreOption = Annotated[
    bool, typer.Option("--ignore-capability", help="Also where the hardware does not ask for this build.")
]
REASONS_MAX = 10


@client_command(app, "list")
async def list_backends(session: Session, *, node: NodesOption = None) -> None:
    """List what is installed where, what is owed, where nodes differ, and what can be upgraded."""
    from corral.cli.backend_views import installed_list, upgrade_hint

    backends = await session.client.backends.list()
    owed = await session.client.intents.list()
    if node:
        for backend in backends:
            backend.nodes = [place for place in backend.nodes if node_is(place.node_name, place.node_id, node)]
        backends = [backend for backend in backends if backend.nodes]
        owed = [one for one in owed if node_is(one.node_name, one.node_id, node)]
    if session.as_json:
        installed = [one.model_dump(mode="json", by_alias=False) for one in backends]
        render.write_json({"installed": installed, "owed": [one.model_dump(mode="json") for one in owed]})
    elif backends or owed:
        render.write(installed_list(backends, owed, session.now(), colour=render.has_colour(sys.stdout)))
        hint = upgrade_hint(backends)
        if hint:
            render.say(f"\n{render.clean(hint)}")
    else:
        render.say("No backend is installed. `corral backends search` shows what there is.")


def node_is(name: str, node_id: str, wanted: list[str]) -> bool:
    return name in wanted or node_id in wanted


@client_command(app, "search")
async def search_backends(
    session: Session,
    term: Annotated[str, typer.Argument(metavar="TERM", help="Part of a name, a description or a tag.")] = "",
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also builds for special hardware.")] = False,
) -> None:
    """Search the galleries."""
    from corral.cli.backend_views import catalog_list, is_shown

    entries = [entry for entry in await _catalog(session, term) if everything or is_shown(entry)]
    if session.as_json:
        render.write_json([entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in entries])
    elif entries:
        render.write(catalog_list(entries, colour=render.has_colour(sys.stdout)))
    else:
        render.say("Nothing is like that. Without a word everything is listed; --all adds single builds.")


async def _catalog(session: Session, term: str) -> list[CatalogEntryOut]:
    """Every page."""
    first = await session.client.backends.search(term)
    entries = list(first.backends)
    for page in range(2, first.total_pages + 1):
        entries += (await session.client.backends.search(term, page=page)).backends
    return entries


@client_command(app, "info")
async def show_backend(session: Session, backend: Backend) -> None:
    """Show everything about a backend: its builds, versions and nodes."""
    from corral.cli.backend_views import entry_in_full, entry_named

    entries = await _catalog(session, "")
    entry = entry_named(entries, backend)
    if session.as_json:
        render.write_json(entry.model_dump(mode="json", by_alias=True, exclude_none=True))
    else:
        render.write(entry_in_full(entry, entries, session.now(), colour=render.has_colour(sys.stdout)))


@client_command(app, "install")
async def install_backend(
    session: Session,
    backend: Annotated[
        str,
        typer.Argument(metavar="BACKEND", help="Name, or gallery@name.", autocompletion=backend_names),
    ] = "",
    *,
    node: NodesOption = None,
    version: VersionOption = "",
    uri: Annotated[str, typer.Option("--uri", metavar="URI", help="A source that is in no gallery.")] = "",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="With --uri: what to call it.")] = "",
    alias: Annotated[str, typer.Option("--alias", metavar="NAME", help="With --uri: a second name.")] = "",
    sha256: Annotated[str, typer.Option("--sha256", metavar="HEX", help="With --uri: of the file.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Fetch it again also where it is installed.")] = False,
    ignore_capability: IgnoreOption = False,
    plan: PlanOption = False,
    after: AfterOption = False,
    waves: WavesOption = "",
    stop_on_failure: StopOption = False,
    rollback: RollbackOption = False,
    deadline: DeadlineOption = None,
    detach: DetachOption = False,
) -> None:
    """Install a backend on every node that may have it, or on some; each gets the build for its hardware."""
    from corral.wire.backends import ExternalIn, InstallIn

    strategy = _strategy(waves, stop_on_failure, rollback, deadline)
    if bool(uri) and bool(name) and bool(backend):
        raise typer.BadParameter("say the name once: as BACKEND or with --name")
    if not uri and (alias or sha256 or name or not backend):
        raise typer.BadParameter("say which BACKEND, or --uri with --name")
    calls = session.client.backends
    if uri:
        wish = _checked(
            lambda: ExternalIn(
                uri=uri,
                name=name or backend,
                alias=alias,
                sha256=sha256,
                nodes=node,
                version=version,
                ignore_capability=ignore_capability,
                strategy=strategy,
            )
        )
        await _ask(
            session,
            plan=plan,
            detach=detach,
            planned=lambda: calls.plan_external(wish),
            asked=lambda: calls.ask_external(wish, after=after),
        )
        return
    wanted = _checked(
        lambda: InstallIn(
            nodes=node, version=version, ignore_capability=ignore_capability, force=force, strategy=strategy
        )
    )
    await _change(session, "install", backend, wanted, plan=plan, after=after, detach=detach)


@client_command(app, "upgrade")
async def upgrade_backend(
    session: Session,
    backend: Annotated[
        str,
        typer.Argument(metavar="BACKEND", help="Name of an installed one.", autocompletion=installed_names),
    ] = "",
    *,
    node: NodesOption = None,
    version: VersionOption = "",
    plan: PlanOption = False,
    after: AfterOption = False,
    waves: WavesOption = "",
    stop_on_failure: StopOption = False,
    rollback: RollbackOption = False,
    deadline: DeadlineOption = None,
    detach: DetachOption = False,
) -> None:
    """Put the newest version, or the named one, wherever a backend is installed. Without a name: all of them."""
    from corral.wire.backends import WishIn

    if not backend:
        if node or version or plan or after or waves or stop_on_failure or rollback or deadline:
            raise typer.BadParameter("say which BACKEND; without one everything is upgraded, as it is")
        await _upgrade_all(session, detach=detach)
        return
    strategy = _strategy(waves, stop_on_failure, rollback, deadline)
    wish = _checked(lambda: WishIn(nodes=node, version=version, strategy=strategy))
    await _change(session, "upgrade", backend, wish, plan=plan, after=after, detach=detach)


async def _upgrade_all(session: Session, *, detach: bool) -> None:
    from corral.cli.progress import follow_each

    answer = await session.client.backends.upgrade_all()
    if session.as_json and (detach or not answer.operations):
        render.write_json(answer.model_dump(mode="json", by_alias=True))
    for one in answer.refused:
        render.say(render.clean(f"{one.backend}: {one.message}"))
    if not answer.operations:
        render.say("Nothing has an upgrade.")
    elif detach and not session.as_json:
        render.write("\n".join(one.id for one in answer.operations))
    elif not detach:
        await follow_each(session, [one.id for one in answer.operations])
    raise typer.Exit(1 if answer.refused else 0)


@client_command(app, "reinstall")
async def reinstall_backend(
    session: Session,
    backend: Installed,
    *,
    node: NodesOption = None,
    version: VersionOption = "",
    plan: PlanOption = False,
    after: AfterOption = False,
    waves: WavesOption = "",
    stop_on_failure: StopOption = False,
    rollback: RollbackOption = False,
    deadline: DeadlineOption = None,
    detach: DetachOption = False,
) -> None:
    """Fetch again and replace what is installed."""
    from corral.wire.backends import WishIn

    strategy = _strategy(waves, stop_on_failure, rollback, deadline)
    wish = _checked(lambda: WishIn(nodes=node, version=version, strategy=strategy))
    await _change(session, "reinstall", backend, wish, plan=plan, after=after, detach=detach)


@client_command(app, "rollback")
async def roll_back_backend(
    session: Session,
    backend: Installed,
    *,
    node: NodesOption = None,
    plan: PlanOption = False,
    after: AfterOption = False,
    deadline: DeadlineOption = None,
    detach: DetachOption = False,
) -> None:
    """Go back to the version before, wherever one was kept. Nothing is fetched; once more swaps back."""
    from corral.wire.backends import TargetsIn

    wish = _checked(lambda: TargetsIn(nodes=node, strategy=_strategy("", False, False, deadline)))
    await _change(session, "rollback", backend, wish, plan=plan, after=after, detach=detach)


@client_command(app, "remove")
async def remove_backend(
    session: Session,
    backend: Installed,
    *,
    node: NodesOption = None,
    plan: PlanOption = False,
    after: AfterOption = False,
    deadline: DeadlineOption = None,
    detach: DetachOption = False,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a backend from every node that has it, or from some. Asks first on a terminal."""
    from corral.wire.backends import TargetsIn

    wish = _checked(lambda: TargetsIn(nodes=node, strategy=_strategy("", False, False, deadline)))
    if not plan and not is_sure and sys.stdin.isatty():
        found = await session.client.backends.plan("delete", backend, wish)
        names = ", ".join(one.node_name for one in found.nodes[:5]) + (", …" if len(found.nodes) > 5 else "")
        if not render.ask(f"Remove {backend} from {names}? Its processes there are stopped."):
            raise typer.Exit(1)
    await _change(session, "delete", backend, wish, plan=plan, after=after, detach=detach)


@client_command(app, "plan")
async def plan_backend(
    session: Session,
    backend: Backend,
    *,
    node: NodesOption = None,
    version: VersionOption = "",
    ignore_capability: IgnoreOption = False,
    waves: WavesOption = "",
) -> None:
    """Show which nodes an installation would touch, which build each would get, and how much it would fetch."""
    from corral.wire.backends import WishIn

    strategy = _strategy(waves, False, False, None)
    wish = _checked(lambda: WishIn(nodes=node, version=version, ignore_capability=ignore_capability, strategy=strategy))
    await _change(session, "install", backend, wish, plan=True, after=False, detach=False)


async def _change(
    session: Session, verb: str, backend: str, wish: TargetsIn, *, plan: bool, after: bool, detach: bool
) -> None:
    calls = session.client.backends
    await _ask(
        session,
        plan=plan,
        detach=detach,
        planned=lambda: calls.plan(verb, backend, wish),
        asked=lambda: calls.ask(verb, backend, wish, after=after),
    )


async def _ask(
    session: Session,
    *,
    plan: bool,
    detach: bool,
    planned: Callable[[], Awaitable[PlanOut]],
    asked: Callable[[], Awaitable[AdmittedOut]],
) -> None:
    """Show the plan, or ask and follow."""
    try:
        if plan:
            _show_plan(session, await planned())
            return
        admitted = await asked()
    except CorralError as error:
        _say_reasons(error)
        raise
    if detach:
        if session.as_json:
            render.write_json(admitted.model_dump(mode="json", by_alias=True))
        else:
            render.write(admitted.id)
            render.say(render.clean(admitted.message))
        return
    from corral.cli.progress import follow

    if not session.as_json:
        render.say(render.clean(admitted.message))
    await follow(session, admitted.id)


def _say_reasons(error: CorralError) -> None:
    """Why each node cannot have it, before the sentence that none can."""
    skipped = error.details.get("skipped")
    if not isinstance(skipped, list):
        return
    for one in skipped[:REASONS_MAX]:
        if isinstance(one, dict):
            render.say(render.clean(f"{one.get('node')}: {one.get('reason')}"))
    if len(skipped) > REASONS_MAX:
        render.say(f"and {len(skipped) - REASONS_MAX} more nodes")


def _show_plan(session: Session, plan: PlanOut) -> None:
    from corral.cli.backend_views import plan_sentence, plan_text

    if session.as_json:
        render.write_json(plan.model_dump(mode="json"))
        return
    render.write(plan_text(plan, colour=render.has_colour(sys.stdout)))
    render.say(plan_sentence(plan))


def _strategy(waves: str, stop_on_failure: bool, rollback: bool, deadline: str | None) -> StrategyIn:
    from corral.wire.backends import StrategyIn

    try:
        sizes = [int(word) for word in waves.split(",")] if waves.strip() else []
    except ValueError as error:
        raise typer.BadParameter(f"--waves {waves!r} is no list of numbers such as 1,5") from error
    return _checked(  # type: ignore[no-any-return]
        lambda: StrategyIn(waves=sizes, stop_on_failure=stop_on_failure, rollback=rollback, deadline=deadline)
    )


def _checked(make: Callable[[], Any]) -> Any:
    """What was typed, checked before anything is sent."""
    from pydantic import ValidationError

    try:
        return make()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        words = first["msg"].removeprefix("Value error, ")
        raise InvalidRequest(f"--{where.replace('_', '-')}: {words}.") from error


@client_command(app, "logs")
async def show_log(
    session: Session,
    process: Annotated[
        str, typer.Argument(metavar="MODEL#REPLICA", help="Which process; without it, those that have left lines.")
    ] = "",
    *,
    node: NodeOption,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="How many of the last ones.")] = 200,
) -> None:
    """Show what an engine has printed."""
    if not process:
        keys = await session.client.processes.logs(node)
        if session.as_json:
            render.write_json(keys)
        elif keys:
            render.write("".join(f"{render.clean(key)}\n" for key in keys))
        else:
            render.say(f"No engine has printed anything on {render.clean(node)}.")
        return
    from corral.cli.backend_views import log_line

    found = await session.client.processes.log(node, process, lines=lines)
    if session.as_json and not follow:
        render.write_json(found.model_dump(mode="json"))
        return
    for line in found.lines:
        if session.as_json:
            render.write_json(line.model_dump(mode="json"), one_line=True)
        else:
            render.write(log_line(line))
    if not follow:
        return
    async for line in session.client.processes.follow_log(node, process, after=found.next):
        if session.as_json:
            render.write_json(line.model_dump(mode="json"), one_line=True)
        else:
            render.write(log_line(line))


@client_command(app, "start")
async def start_backend(
    session: Session,
    backend: Installed,
    *,
    node: NodeOption,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Public name of the model.")] = "",
    model_path: Annotated[str, typer.Option("--model-path", metavar="PATH", help="Its file on the node.")] = "",
    replica: Annotated[int, typer.Option("--replica", min=0, max=1023, help="Which copy.")] = 0,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Processor threads.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="A setting of the model.")
    ] = None,
) -> None:
    """Run an engine on a node."""
    from corral.wire.backends import StartIn

    options: dict[str, str] = {}
    for pair in option or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"--option {pair!r} is not KEY=VALUE")
        options[key] = value
    wish = _checked(
        lambda: StartIn(
            backend=backend, model=model, model_path=model_path, replica=replica, threads=threads, options=options
        )
    )
    started = await session.client.processes.start(node, wish)
    if session.as_json:
        render.write_json(started.model_dump(mode="json", by_alias=True))
    else:
        render.write(started.key)
        render.say(render.clean(f"{started.message} See: corral backends processes --node {node}"))
        render.say(render.clean(f"What it says, also if it ends: corral backends logs '{started.key}' --node {node}"))
    if started.state == "failed":
        raise typer.Exit(1)


@client_command(app, "stop")
async def stop_backend(
    session: Session,
    what: Annotated[str, typer.Argument(metavar="MODEL#REPLICA|BACKEND", help="A process, or a backend.")] = "",
    *,
    node: NodeOption,
    everything: Annotated[bool, typer.Option("--all", help="Everything that runs there.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Do not wait for requests in flight.")] = False,
) -> None:
    """Stop engines on a node, and wait until they have ended."""
    from corral.wire.backends import StopIn

    if bool(what) == everything:
        raise typer.BadParameter("say which MODEL#REPLICA or BACKEND, or --all")
    is_process = "#" in what
    wish = _checked(
        lambda: StopIn(key=what if is_process else "", backend="" if is_process else what, all=everything, force=force)
    )
    stopped = await session.client.processes.stop(node, wish)
    if session.as_json:
        render.write_json(stopped.model_dump(mode="json"))
    else:
        for key in stopped.stopped:
            render.write(render.clean(key))
        render.say(stopped.message)
    if stopped.survivors:
        render.say(render.clean(f"Still running: {', '.join(stopped.survivors)}"))
        raise typer.Exit(1)


@client_command(app, "processes")
async def list_processes(session: Session, *, node: NodeOption) -> None:
    """List the engines that run on a node."""
    from corral.cli.backend_views import process_list

    found = await session.client.processes.list(node)
    if session.as_json:
        render.write_json([one.model_dump(mode="json") for one in found])
    elif found:
        render.write(process_list(found, colour=render.has_colour(sys.stdout)))
    else:
        render.say(f"No engine runs on {render.clean(node)}.")


client_command(app, "owed")(list_owed)
client_command(app, "owed-drop")(drop_owed)
client_command(app, "owed-revive")(revive_owed)
client_command(app, "galleries")(list_galleries)
client_command(app, "clean")(clean_nodes)
