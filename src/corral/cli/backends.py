"""`corral backends …`: commands that install, change and run backends. A backend is a name or gallery@name."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.backend_maintenance import clean_nodes, discard_pending, list_galleries, list_pending, retry_pending
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.completion import complete_backend_names, complete_installed_names, complete_node_names
from corral.cli.operations import DetachOption
from corral.domain.errors import CorralError, InvalidRequest

if TYPE_CHECKING:
    from corral.wire.backends import BackendOperationOut, BackendPlanOut, CatalogEntryOut, StrategyIn, TargetsIn

app = make_group("Backends, the engines that run models: search, install, upgrade and remove them.")

BackendArgument = Annotated[
    str, typer.Argument(metavar="BACKEND", help="Name, or gallery@name.", autocompletion=complete_backend_names)
]
InstalledArgument = Annotated[
    str,
    typer.Argument(metavar="BACKEND", help="Name of an installed backend.", autocompletion=complete_installed_names),
]
NodesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node", metavar="NODE", help="Only this node; can be given several times.", autocompletion=complete_node_names
    ),
]
NodeOption = Annotated[
    str, typer.Option("--node", metavar="NODE", help="Name or id of the node.", autocompletion=complete_node_names)
]
VersionOption = Annotated[str, typer.Option("--version", metavar="VERSION", help="Version.  [the newest]")]
PlanOption = Annotated[bool, typer.Option("--plan", help="Dry run: only show what would change.")]
AfterOption = Annotated[
    bool, typer.Option("--after", help="Queue behind an operation that is running there, instead of failing.")
]
WavesOption = Annotated[
    str, typer.Option("--waves", metavar="1,5", help="Number of nodes in each wave; the last number repeats.")
]
StopOption = Annotated[bool, typer.Option("--stop-on-failure", help="Start no further wave after a failure.")]
RollbackOption = Annotated[bool, typer.Option("--rollback", help="After a failure, roll changed nodes back.")]
DeadlineOption = Annotated[
    str | None,
    typer.Option(
        "--deadline", metavar="DURATION", help="How long the change may stay pending on offline nodes.  [no limit]"
    ),
]
IgnoreOption = Annotated[
    bool, typer.Option("--ignore-capability", help="Also install on nodes whose hardware this build is not for.")
]
REASONS_MAX = 10


@register_command(app, "list")
async def list_backends(session: CommandSession, *, node: NodesOption = None) -> None:
    """List installed backends by node, pending changes, nodes that differ, and available upgrades."""
    from corral.cli.backend_views import describe_upgrades, format_installed_list

    backends = await session.client.backends.list()
    assignments = await session.client.assignments.list()
    if node:
        for backend in backends:
            backend.nodes = [
                installation
                for installation in backend.nodes
                if is_named_node(installation.node_name, installation.node_id, node)
            ]
        backends = [backend for backend in backends if backend.nodes]
        assignments = [one for one in assignments if is_named_node(one.node_name, one.node_id, node)]
    if session.as_json:
        installed = [one.model_dump(mode="json", by_alias=False) for one in backends]
        render.print_json({"installed": installed, "owed": [one.model_dump(mode="json") for one in assignments]})
    elif backends or assignments:
        render.print_data(
            format_installed_list(backends, assignments, session.read_time(), colour=render.has_colour(sys.stdout))
        )
        hint = describe_upgrades(backends)
        if hint:
            render.print_notice(f"\n{render.clean_text(hint)}")
    else:
        render.print_notice("No backends are installed. `corral backends search` lists those that you can install.")


def is_named_node(name: str, node_id: str, names: list[str]) -> bool:
    return name in names or node_id in names


@register_command(app, "search")
async def search_backends(
    session: CommandSession,
    term: Annotated[str, typer.Argument(metavar="TERM", help="Part of a name, a description or a tag.")] = "",
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also list builds for specific hardware.")] = False,
) -> None:
    """Search the galleries for backends."""
    from corral.cli.backend_views import format_catalog_list, is_listed_by_default

    entries = [entry for entry in await _read_catalog(session, term) if everything or is_listed_by_default(entry)]
    if session.as_json:
        render.print_json([entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in entries])
    elif entries:
        render.print_data(format_catalog_list(entries, colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice(
            "No backends match this search. Without TERM all are listed; --all adds builds for specific hardware."
        )


async def _read_catalog(session: CommandSession, term: str) -> list[CatalogEntryOut]:
    """Return the entries of every page of the catalog."""
    first = await session.client.backends.search(term)
    entries = list(first.backends)
    for page in range(2, first.total_pages + 1):
        entries += (await session.client.backends.search(term, page=page)).backends
    return entries


@register_command(app, "info")
async def show_backend(session: CommandSession, backend: BackendArgument) -> None:
    """Show one backend with its builds, versions and nodes."""
    from corral.cli.backend_views import find_entry, format_entry

    entries = await _read_catalog(session, "")
    entry = find_entry(entries, backend)
    if session.as_json:
        render.print_json(entry.model_dump(mode="json", by_alias=True, exclude_none=True))
    else:
        render.print_data(format_entry(entry, entries, session.read_time(), colour=render.has_colour(sys.stdout)))


@register_command(app, "install")
async def install_backend(
    session: CommandSession,
    backend: Annotated[
        str,
        typer.Argument(metavar="BACKEND", help="Name, or gallery@name.", autocompletion=complete_backend_names),
    ] = "",
    *,
    node: NodesOption = None,
    version: VersionOption = "",
    uri: Annotated[
        str, typer.Option("--uri", metavar="URI", help="Install from this address instead of a gallery.")
    ] = "",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="With --uri: name of the backend.")] = "",
    alias: Annotated[str, typer.Option("--alias", metavar="NAME", help="With --uri: a second name for it.")] = "",
    sha256: Annotated[str, typer.Option("--sha256", metavar="HEX", help="With --uri: SHA-256 of the file.")] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Download and install again where it is installed already.")
    ] = False,
    ignore_capability: IgnoreOption = False,
    plan: PlanOption = False,
    after: AfterOption = False,
    waves: WavesOption = "",
    stop_on_failure: StopOption = False,
    rollback: RollbackOption = False,
    deadline: DeadlineOption = None,
    detach: DetachOption = False,
) -> None:
    """Install a backend on all suitable nodes, or on some. Each node gets the build for its hardware."""
    from corral.wire.backends import ExternalBackendIn, InstallBackendIn

    strategy = _parse_strategy(waves, stop_on_failure, rollback, deadline)
    if bool(uri) and bool(name) and bool(backend):
        raise typer.BadParameter("give the name only once: as BACKEND or with --name")
    if not uri and (alias or sha256 or name or not backend):
        raise typer.BadParameter("give a BACKEND, or --uri with --name")
    calls = session.client.backends
    if uri:
        body = _make_checked(
            lambda: ExternalBackendIn(
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
        await _plan_or_request(
            session,
            plan=plan,
            detach=detach,
            make_plan=lambda: calls.plan_external(body),
            send_request=lambda: calls.request_external(body, after=after),
        )
        return
    body = _make_checked(
        lambda: InstallBackendIn(
            nodes=node, version=version, ignore_capability=ignore_capability, force=force, strategy=strategy
        )
    )
    await _change_backend(session, "install", backend, body, plan=plan, after=after, detach=detach)


@register_command(app, "upgrade")
async def upgrade_backend(
    session: CommandSession,
    backend: Annotated[
        str,
        typer.Argument(
            metavar="BACKEND", help="Name of an installed backend.", autocompletion=complete_installed_names
        ),
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
    """Upgrade a backend on all its nodes to the newest or a given version. Without a name, upgrade all backends."""
    from corral.wire.backends import BackendChangeIn

    if not backend:
        if node or version or plan or after or waves or stop_on_failure or rollback or deadline:
            raise typer.BadParameter(
                "these options need a BACKEND; without one, all backends are upgraded with their defaults"
            )
        await _upgrade_all(session, detach=detach)
        return
    strategy = _parse_strategy(waves, stop_on_failure, rollback, deadline)
    body = _make_checked(lambda: BackendChangeIn(nodes=node, version=version, strategy=strategy))
    await _change_backend(session, "upgrade", backend, body, plan=plan, after=after, detach=detach)


async def _upgrade_all(session: CommandSession, *, detach: bool) -> None:
    from corral.cli.progress import follow_operations

    answer = await session.client.backends.upgrade_all()
    if session.as_json and (detach or not answer.operations):
        render.print_json(answer.model_dump(mode="json", by_alias=True))
    for one in answer.refused:
        render.print_notice(render.clean_text(f"{one.backend}: {one.message}"))
    if not answer.operations:
        render.print_notice("All backends are up to date.")
    elif detach and not session.as_json:
        render.print_data("\n".join(one.id for one in answer.operations))
    elif not detach:
        await follow_operations(session, [one.id for one in answer.operations])
    raise typer.Exit(1 if answer.refused else 0)


@register_command(app, "reinstall")
async def reinstall_backend(
    session: CommandSession,
    backend: InstalledArgument,
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
    """Download a backend again and replace the installed copy."""
    from corral.wire.backends import BackendChangeIn

    strategy = _parse_strategy(waves, stop_on_failure, rollback, deadline)
    body = _make_checked(lambda: BackendChangeIn(nodes=node, version=version, strategy=strategy))
    await _change_backend(session, "reinstall", backend, body, plan=plan, after=after, detach=detach)


@register_command(app, "rollback")
async def roll_back_backend(
    session: CommandSession,
    backend: InstalledArgument,
    *,
    node: NodesOption = None,
    plan: PlanOption = False,
    after: AfterOption = False,
    deadline: DeadlineOption = None,
    detach: DetachOption = False,
) -> None:
    """Go back to the previous version on nodes that kept it. Nothing is downloaded; a second rollback swaps back."""
    from corral.wire.backends import TargetsIn

    body = _make_checked(lambda: TargetsIn(nodes=node, strategy=_parse_strategy("", False, False, deadline)))
    await _change_backend(session, "rollback", backend, body, plan=plan, after=after, detach=detach)


@register_command(app, "remove")
async def remove_backend(
    session: CommandSession,
    backend: InstalledArgument,
    *,
    node: NodesOption = None,
    plan: PlanOption = False,
    after: AfterOption = False,
    deadline: DeadlineOption = None,
    detach: DetachOption = False,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove a backend from all its nodes, or from some. Asks for confirmation on a terminal."""
    from corral.wire.backends import TargetsIn

    body = _make_checked(lambda: TargetsIn(nodes=node, strategy=_parse_strategy("", False, False, deadline)))
    if not plan and not is_sure and sys.stdin.isatty():
        found = await session.client.backends.plan_change("delete", backend, body)
        names = ", ".join(one.node_name for one in found.nodes[:5]) + (", …" if len(found.nodes) > 5 else "")
        if not render.confirm(f"Remove {backend} from {names}? Its processes there will be stopped."):
            raise typer.Exit(1)
    await _change_backend(session, "delete", backend, body, plan=plan, after=after, detach=detach)


@register_command(app, "plan")
async def plan_backend(
    session: CommandSession,
    backend: BackendArgument,
    *,
    node: NodesOption = None,
    version: VersionOption = "",
    ignore_capability: IgnoreOption = False,
    waves: WavesOption = "",
) -> None:
    """Show which nodes an installation would change, which build each would get, and the download size."""
    from corral.wire.backends import BackendChangeIn

    strategy = _parse_strategy(waves, False, False, None)
    body = _make_checked(
        lambda: BackendChangeIn(nodes=node, version=version, ignore_capability=ignore_capability, strategy=strategy)
    )
    await _change_backend(session, "install", backend, body, plan=True, after=False, detach=False)


async def _change_backend(
    session: CommandSession, verb: str, backend: str, body: TargetsIn, *, plan: bool, after: bool, detach: bool
) -> None:
    calls = session.client.backends
    await _plan_or_request(
        session,
        plan=plan,
        detach=detach,
        make_plan=lambda: calls.plan_change(verb, backend, body),
        send_request=lambda: calls.request_change(verb, backend, body, after=after),
    )


async def _plan_or_request(
    session: CommandSession,
    *,
    plan: bool,
    detach: bool,
    make_plan: Callable[[], Awaitable[BackendPlanOut]],
    send_request: Callable[[], Awaitable[BackendOperationOut]],
) -> None:
    """Show the plan, or request the change and follow its operation."""
    try:
        if plan:
            _show_plan(session, await make_plan())
            return
        admitted = await send_request()
    except CorralError as error:
        _print_reasons(error)
        raise
    if detach:
        if session.as_json:
            render.print_json(admitted.model_dump(mode="json", by_alias=True))
        else:
            render.print_data(admitted.id)
            render.print_notice(render.clean_text(admitted.message))
        return
    from corral.cli.progress import follow_operation

    if not session.as_json:
        render.print_notice(render.clean_text(admitted.message))
    await follow_operation(session, admitted.id)


def _print_reasons(error: CorralError) -> None:
    """Print why each node was skipped, before the error that no node is left."""
    skipped = error.details.get("skipped")
    if not isinstance(skipped, list):
        return
    for one in skipped[:REASONS_MAX]:
        if isinstance(one, dict):
            render.print_notice(render.clean_text(f"{one.get('node')}: {one.get('reason')}"))
    if len(skipped) > REASONS_MAX:
        render.print_notice(f"and {len(skipped) - REASONS_MAX} more nodes")


def _show_plan(session: CommandSession, plan: BackendPlanOut) -> None:
    from corral.cli.backend_views import describe_plan, format_plan

    if session.as_json:
        render.print_json(plan.model_dump(mode="json"))
        return
    render.print_data(format_plan(plan, colour=render.has_colour(sys.stdout)))
    render.print_notice(describe_plan(plan))


def _parse_strategy(waves: str, stop_on_failure: bool, rollback: bool, deadline: str | None) -> StrategyIn:
    from corral.wire.backends import StrategyIn

    try:
        sizes = [int(word) for word in waves.split(",")] if waves.strip() else []
    except ValueError as error:
        raise typer.BadParameter(f"--waves {waves!r} is not a list of numbers such as 1,5") from error
    return _make_checked(  # type: ignore[no-any-return]
        lambda: StrategyIn(waves=sizes, stop_on_failure=stop_on_failure, rollback=rollback, deadline=deadline)
    )


def _make_checked(make: Callable[[], Any]) -> Any:
    """Return the request body that `make` builds; raise `InvalidRequest` with the option if a value is invalid."""
    from pydantic import ValidationError

    try:
        return make()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        words = first["msg"].removeprefix("Value error, ")
        raise InvalidRequest(f"--{where.replace('_', '-')}: {words}.") from error


@register_command(app, "logs")
async def show_log(
    session: CommandSession,
    process: Annotated[
        str,
        typer.Argument(
            metavar="MODEL#REPLICA", help="Process to show; without it, list the processes that have a log."
        ),
    ] = "",
    *,
    node: NodeOption,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow new lines until Ctrl-C.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, max=1000, help="Number of lines, counted from the end.")
    ] = 200,
) -> None:
    """Show the log of an engine process."""
    if not process:
        keys = await session.client.processes.list_logs(node)
        if session.as_json:
            render.print_json(keys)
        elif keys:
            render.print_data("".join(f"{render.clean_text(key)}\n" for key in keys))
        else:
            render.print_notice(f"No engine has a log on {render.clean_text(node)}.")
        return
    from corral.cli.backend_views import format_log_line

    found = await session.client.processes.read_log(node, process, lines=lines)
    if session.as_json and not follow:
        render.print_json(found.model_dump(mode="json"))
        return
    for line in found.lines:
        if session.as_json:
            render.print_json(line.model_dump(mode="json"), one_line=True)
        else:
            render.print_data(format_log_line(line))
    if not follow:
        return
    async for line in session.client.processes.follow_log(node, process, after=found.next):
        if session.as_json:
            render.print_json(line.model_dump(mode="json"), one_line=True)
        else:
            render.print_data(format_log_line(line))


@register_command(app, "start")
async def start_backend(
    session: CommandSession,
    backend: InstalledArgument,
    *,
    node: NodeOption,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Public name of the model.")] = "",
    model_path: Annotated[str, typer.Option("--model-path", metavar="PATH", help="Path of its file on the node.")] = "",
    replica: Annotated[int, typer.Option("--replica", min=0, max=1023, help="Number of the replica.")] = 0,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Number of CPU threads.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="A setting of the model.")
    ] = None,
) -> None:
    """Start an engine process on a node."""
    from corral.wire.backends import StartEngineIn

    options: dict[str, str] = {}
    for pair in option or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"--option {pair!r} is not KEY=VALUE")
        options[key] = value
    body = _make_checked(
        lambda: StartEngineIn(
            backend=backend, model=model, model_path=model_path, replica=replica, threads=threads, options=options
        )
    )
    started = await session.client.processes.start(node, body)
    if session.as_json:
        render.print_json(started.model_dump(mode="json", by_alias=True))
    else:
        render.print_data(started.key)
        render.print_notice(render.clean_text(f"{started.message} See: corral backends processes --node {node}"))
        render.print_notice(
            render.clean_text(f"Its log, also after it has ended: corral backends logs '{started.key}' --node {node}")
        )
    if started.state == "failed":
        raise typer.Exit(1)


@register_command(app, "stop")
async def stop_backend(
    session: CommandSession,
    what: Annotated[str, typer.Argument(metavar="MODEL#REPLICA|BACKEND", help="Process or backend to stop.")] = "",
    *,
    node: NodeOption,
    everything: Annotated[bool, typer.Option("--all", help="Stop all engines on the node.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Do not wait for requests in flight.")] = False,
) -> None:
    """Stop engines on a node and wait until they have ended."""
    from corral.wire.backends import StopEnginesIn

    if bool(what) == everything:
        raise typer.BadParameter("give a MODEL#REPLICA, a BACKEND or --all")
    is_process = "#" in what
    body = _make_checked(
        lambda: StopEnginesIn(
            key=what if is_process else "", backend="" if is_process else what, all=everything, force=force
        )
    )
    stopped = await session.client.processes.stop(node, body)
    if session.as_json:
        render.print_json(stopped.model_dump(mode="json"))
    else:
        for key in stopped.stopped:
            render.print_data(render.clean_text(key))
        render.print_notice(stopped.message)
    if stopped.survivors:
        render.print_notice(render.clean_text(f"Still running: {', '.join(stopped.survivors)}"))
        raise typer.Exit(1)


@register_command(app, "processes")
async def list_processes(session: CommandSession, *, node: NodeOption) -> None:
    """List the engine processes on a node."""
    from corral.cli.backend_views import format_process_list

    found = await session.client.processes.list(node)
    if session.as_json:
        render.print_json([one.model_dump(mode="json") for one in found])
    elif found:
        render.print_data(format_process_list(found, colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice(f"No engine runs on {render.clean_text(node)}.")


pending = make_group("Changes that nodes have not made yet: list, retry or discard them.", lists_by_default=True)
register_command(pending, "list")(list_pending)
register_command(pending, "retry")(retry_pending)
register_command(pending, "discard")(discard_pending)
app.add_typer(pending, name="pending")
# The spellings of earlier versions, for one more release.
register_command(app, "owed", is_hidden=True)(list_pending)
register_command(app, "owed-drop", is_hidden=True)(discard_pending)
register_command(app, "owed-revive", is_hidden=True)(retry_pending)
register_command(app, "galleries")(list_galleries)
register_command(app, "clean")(clean_nodes)
