"""`corral models …`: what is to run. A model is a name or an alias; an entry of a gallery is a name or gallery@name."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import Session, a_group, client_command
from corral.cli.complete import entry_names, model_names, node_names
from corral.cli.fleet import FileOption, as_yaml, parse_documents, read_documents, show_steps
from corral.cli.operations import DetachOption
from corral.domain.errors import CorralError, InvalidRequest

if TYPE_CHECKING:
    from corral.wire.models import AskedModelOut, GalleryModelOut, ModelOut, SavedOut

# Files of weights by their endings, and what runs them where that is plain.
_WEIGHTS = {".gguf": "llama-cpp", ".safetensors": "", ".onnx": "", ".bin": ""}
_FLEET_KEYS = frozenset({"models", "rules", "nodes", "galleries"})
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
app = a_group("Models: what there is to run, what runs where, and changing it.")

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Name or alias.", autocompletion=model_names)]
NodesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node", metavar="NODE", help="Only this node; may be given several times.", autocompletion=node_names
    ),
]
PlanOption = Annotated[bool, typer.Option("--plan", help="Only show what would be done.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as options.context_size=8192 or pinned=true."),
]


@client_command(app, "list")
async def list_models(session: Session) -> None:
    """List the models: what runs where, and what could."""
    from corral.cli.model_views import model_list

    models = await session.client.models.list()
    if session.as_json:
        render.write_json([model.model_dump(mode="json") for model in models])
    elif models:
        render.write(model_list(models, session.now(), colour=render.has_colour(sys.stdout)))
    else:
        render.say("There is no model yet. `corral models search` shows what there is, `install NAME` makes one of it.")


@client_command(app, "show")
async def show_model(session: Session, model: Model) -> None:
    """Show everything about a model: its settings, files and replicas."""
    from corral.cli.model_views import model_in_full

    found = await session.client.models.get(model)
    if session.as_json:
        render.write_json(found.model_dump(mode="json"))
    else:
        render.write(model_in_full(found, session.now(), colour=render.has_colour(sys.stdout)))


@client_command(app, "search")
async def search_models(
    session: Session,
    term: Annotated[str, typer.Argument(metavar="TERM", help="Part of a name, a description or a tag.")] = "",
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also variants for other hardware.")] = False,
) -> None:
    """Search the galleries of models."""
    from corral.cli.model_views import entry_list

    entries = await _entries(session, term, folds_variants=not everything)
    if session.as_json:
        render.write_json([entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in entries])
    elif entries:
        render.write(entry_list(entries, colour=render.has_colour(sys.stdout)))
        if any(entry.has_variants for entry in entries):
            render.say("\n* has variants; the one that suits your nodes is taken: corral models variants NAME")
    else:
        render.say("Nothing is like that. Without a word everything is listed; --all adds variants.")


async def _entries(session: Session, term: str, *, folds_variants: bool) -> list[GalleryModelOut]:
    """Every page."""
    first = await session.client.models.search(term, folds_variants=folds_variants)
    entries = list(first.models)
    for page in range(2, first.total_pages + 1):
        entries += (await session.client.models.search(term, page=page, folds_variants=folds_variants)).models
    return entries


@client_command(app, "variants")
async def list_variants(
    session: Session,
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="Name, or gallery@name.", autocompletion=entry_names)],
) -> None:
    """Show the variants of an entry, which fit on your nodes, and which one would be taken."""
    from corral.cli.model_views import variant_list

    found = await session.client.models.variants(entry)
    if session.as_json:
        render.write_json(found.model_dump(mode="json"))
        return
    render.write(variant_list(found, colour=render.has_colour(sys.stdout)))
    for warning in found.warnings:
        render.say(render.clean(warning))


@client_command(app, "install")
async def install_model(
    session: Session,
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="Name, or gallery@name.", autocompletion=entry_names)],
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What to call the model.  [as the entry]")] = "",
    variant: Annotated[str, typer.Option("--variant", metavar="NAME", help="Which one.  [what suits your nodes]")] = "",
    settings: SetOption = None,
    plan: PlanOption = False,
    detach: DetachOption = False,
) -> None:
    """Make a model of a gallery's entry, and fetch its files."""
    from corral.cli.model_views import plan_in_full
    from corral.wire.models import InstallModelIn

    wish = InstallModelIn(name=name, variant=variant, overrides=overrides_of(settings or []))
    if plan:
        planned = await session.client.models.plan_install(entry, wish)
        if session.as_json:
            render.write_json(planned.model_dump(mode="json"))
            return
        render.write(plan_in_full(planned))
        _say_all(planned.warnings)
        render.say("Nothing was done; without --plan it is.")
        return
    asked = await session.client.models.install(entry, wish)
    await _follow(session, asked, detach=detach)
    if not detach and not session.as_json:
        render.say(render.clean(f"Next: corral models load {asked.name}"))


def overrides_of(pairs: list[str]) -> dict[str, Any]:
    """`options.context_size=8192` as a table in a table; values are read as YAML reads them."""
    found: dict[str, Any] = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        keys = path.split(".")
        if not equals or not all(keys):
            raise typer.BadParameter(f"--set {pair!r} is not KEY=VALUE")
        (value,) = parse_documents(text, f"--set {path}") or [""]
        inner = found
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise typer.BadParameter(f"--set {path!r}: {key} has a value already")
        inner[keys[-1]] = value
    return found


@client_command(app, "import")
async def import_model(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|ADDRESS", help="A configuration as YAML, a file of weights, or where a model lies: hf://…"
        ),
    ],
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What to call the model.")] = "",
    backend: Annotated[str, typer.Option("--backend", metavar="BACKEND", help="Of an address: what runs it.")] = "",
    detach: DetachOption = False,
) -> None:
    """Make a model of a configuration in a file, of a file of weights, or of an address: https, hf, oci, ollama, wheel.

    A file of weights is sent to the frontend, and goes on where it was if the line breaks.
    """
    from corral.wire.models import UriIn

    if "://" in source:
        asked = await session.client.models.import_uri(UriIn(uri=source, name=name, backend=backend))
        await _follow(session, asked, detach=detach)
        return
    if Path(source).suffix.lower() in _WEIGHTS:
        config = await _sent(session, Path(source), name, backend)
        _show_saved(session, await session.client.models.put(str(config["name"]), config))
        render.say(render.clean(f"Next: corral models load {config['name']}"))
        return
    _check_is_configuration(source)
    documents = read_documents(source)
    if any(isinstance(one, dict) and "backend" not in one and _FLEET_KEYS & one.keys() for one in documents):
        raise InvalidRequest(
            f"{source} is a file of a whole fleet, not one configuration.", hint=f"corral apply -f {source}"
        )
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InvalidRequest(
            f"{source} does not hold one configuration.", hint="For several: corral models apply -f FILE"
        )
    config = documents[0] | ({"name": name} if name else {}) | ({"backend": backend} if backend else {})
    called = config.get("name")
    if not isinstance(called, str) or not called:
        raise InvalidRequest("The configuration has no name.", hint="Say it: --name NAME")
    _show_saved(session, await session.client.models.put(called, config))


def _check_is_configuration(source: str) -> None:
    """Refuse the name of a repository of the Hugging Face hub, which people paste without its scheme."""
    if _REPOSITORY.fullmatch(source) and not Path(source).exists():
        raise InvalidRequest(
            f"There is no file {source}.", hint=f"If it is on the Hugging Face hub: corral models import hf://{source}"
        )


def _size_of(path: Path) -> int:
    if not path.is_file():
        raise InvalidRequest(f"There is no file {path}.")
    return path.stat().st_size


async def _sent(session: Session, path: Path, name: str, backend: str) -> dict[str, Any]:
    """The configuration of a model whose only file was sent."""
    size_bytes = await asyncio.to_thread(_size_of, path)
    runs = backend or _WEIGHTS[path.suffix.lower()]
    if not runs:
        raise InvalidRequest(f"{path.name} does not say what runs it.", hint="Say it: --backend BACKEND")
    render.say(render.clean(f"Sending {path.name} ({render.size(size_bytes)})"))
    sha256 = await session.client.files.send(path)
    return {
        "name": name or path.stem.lower(),
        "backend": runs,
        "files": [{"path": path.name, "uri": f"upload:{sha256}"}],
    }


@client_command(app, "apply")
async def apply_models(
    session: Session,
    *,
    file: FileOption,
    plan: PlanOption = False,
) -> None:
    """Make models what a file says: one configuration, a list of them, or several documents. All or nothing."""
    models: list[Any] = []
    for document in read_documents(file):
        inside = document.get("models", document) if isinstance(document, dict) else document
        if isinstance(inside, dict) and "backend" not in inside:
            inside = [{"name": name, **one} if isinstance(one, dict) else one for name, one in inside.items()]
        models += inside if isinstance(inside, list) else [inside]
    if not models:
        raise InvalidRequest(f"{file} has no model in it.")
    show_steps(session, await session.client.fleet.apply({"models": models}, plan=plan))


@client_command(app, "export")
async def export_models(
    session: Session,
    model: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL", help="Only these.", autocompletion=model_names)
    ] = None,
) -> None:
    """Write configurations as YAML; `corral models apply -f` reads them back."""
    if model:
        configs = [(await session.client.models.get(name)).config for name in model]
    else:
        configs = [one.config for one in await session.client.models.list()]
    if session.as_json:
        render.write_json(configs)
    elif len(configs) == 1:
        render.write(as_yaml(configs[0]))
    elif configs:
        render.write(as_yaml({"models": configs}))
    else:
        render.say("There is no model yet.")


@client_command(app, "edit")
async def edit_model(session: Session, model: Model) -> None:
    """Edit a model's configuration in $VISUAL or $EDITOR. If somebody else was faster, nothing is overwritten."""
    from corral.cli.editor import Draft

    found = await session.client.models.get(model)
    draft = Draft(as_yaml(found.config))
    while True:
        try:
            (config,) = parse_documents(draft.edit(), "The configuration") or [None]
            if config == found.config:
                draft.discard()
                render.say("Nothing was changed.")
                return
            saved = await _save_edited(session, found, config)
        except CorralError as error:
            render.show_error(error)
            if error.slug == "revision_conflict" or not _wants_again():
                render.say(f"What you wrote is in {draft.path}")
                raise typer.Exit(1) from error
            continue
        draft.discard()
        _show_saved(session, saved)
        return


async def _save_edited(session: Session, found: ModelOut, config: object) -> SavedOut:
    if not isinstance(config, dict):
        raise InvalidRequest("This is not a configuration: a table of settings was expected.")
    name = config.get("name", found.name)
    if name != found.name:
        await session.client.models.rename({found.name: str(name)})
        return await session.client.models.put(str(name), config, seen=found.revision + 1)
    return await session.client.models.put(found.name, config, seen=found.revision)


def _wants_again() -> bool:
    return sys.stdin.isatty() and render.ask("Edit it again?")


@client_command(app, "enable")
async def enable_model(session: Session, model: Model) -> None:
    """Let a model take requests again."""
    _show_saved(session, await session.client.models.set_enabled(model, enabled=True))


@client_command(app, "disable")
async def disable_model(session: Session, model: Model) -> None:
    """Let a model take no requests; its replicas end."""
    _show_saved(session, await session.client.models.set_enabled(model, enabled=False))


@client_command(app, "pin")
async def pin_model(session: Session, model: Model) -> None:
    """Never evict a model, never scale it to zero."""
    _show_saved(session, await session.client.models.set_pinned(model, pinned=True))


@client_command(app, "unpin")
async def unpin_model(session: Session, model: Model) -> None:
    """Let a model make room for others again."""
    _show_saved(session, await session.client.models.set_pinned(model, pinned=False))


@client_command(app, "rename")
async def rename_model(
    session: Session,
    model: Model,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
) -> None:
    """Give a model another name. Engines that answer to the old one end."""
    (saved,) = await session.client.models.rename({model: name})
    _show_saved(session, saved)


@client_command(app, "remove")
async def remove_model(
    session: Session,
    model: Model,
    *,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    detach: DetachOption = False,
) -> None:
    """Delete a model: its replicas end, its files go from every node. Asks first on a terminal."""
    if not is_sure and sys.stdin.isatty():
        found = await session.client.models.get(model)
        where = f" {len(found.replicas)} replicas end." if found.replicas else ""
        if not render.ask(f"Delete {found.name} with its {found.revision} revisions and all copies?{where}"):
            raise typer.Exit(1)
    await _follow(session, await session.client.models.remove(model), detach=detach)


@client_command(app, "revisions")
async def list_revisions(session: Session, model: Model) -> None:
    """List what a model was, the newest first."""
    from corral.cli.model_views import revision_list

    found = await session.client.models.revisions(model)
    if session.as_json:
        render.write_json([one.model_dump(mode="json") for one in found])
        return
    render.write(revision_list(found, session.now(), colour=render.has_colour(sys.stdout)))
    if len(found) > 1:
        render.say(render.clean(f"\nGoing back: corral models rollback {model} {found[1].number}"))


@client_command(app, "diff")
async def compare_revisions(
    session: Session,
    model: Model,
    old: Annotated[int | None, typer.Argument(metavar="OLD", min=1, help="A revision.  [the one before]")] = None,
    new: Annotated[int | None, typer.Argument(metavar="NEW", min=1, help="Another.  [the present one]")] = None,
) -> None:
    """Show what is different between two revisions."""
    found = await session.client.models.diff(model, old=old, new=new)
    if session.as_json:
        render.write_json(found.model_dump(mode="json"))
    elif found.changes:
        render.say(render.clean(f"{found.model}, revision {found.old} to {found.new}:"))
        render.write("".join(f"{render.clean(line)}\n" for line in found.changes))
    else:
        render.say(render.clean(f"{found.model}: revisions {found.old} and {found.new} say the same."))


@client_command(app, "rollback")
async def roll_back_model(
    session: Session,
    model: Model,
    revision: Annotated[int, typer.Argument(metavar="REVISION", min=1, help="As `revisions` shows it.")],
) -> None:
    """Go back to an old revision, as a new one."""
    _show_saved(session, await session.client.models.roll_back(model, revision))


@client_command(app, "load")
async def load_model(
    session: Session,
    model: Model,
    *,
    node: NodesOption = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="How many replicas more.")] = 1,
    detach: DetachOption = False,
) -> None:
    """Have one replica more, or several: engine, files, process. Corral chooses the node."""
    from corral.wire.loads import LoadIn

    await _follow(session, await session.client.models.load(model, LoadIn(count=count, nodes=node)), detach=detach)
    if not detach and not session.as_json:
        render.say(render.clean(f'Next: corral run {model} "Hello"'))


@client_command(app, "unload")
async def unload_model(
    session: Session,
    model: Model,
    *,
    node: NodesOption = None,
    force: Annotated[bool, typer.Option("--force", help="Do not wait for requests in flight.")] = False,
    delete_files: Annotated[
        bool, typer.Option("--delete-files", help="Nodes also remove their copies of the files. The model stays.")
    ] = False,
    detach: DetachOption = False,
) -> None:
    """End a model's replicas, or those of some nodes. Its files stay, unless you say --delete-files."""
    from corral.wire.loads import UnloadIn

    wish = UnloadIn(nodes=node, force=force, delete_files=delete_files)
    await _follow(session, await session.client.models.unload(model, wish), detach=detach)


@client_command(app, "plan")
async def plan_model(
    session: Session,
    model: Model,
    *,
    node: NodesOption = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="How many replicas more.")] = 1,
) -> None:
    """Show where a model would go, what would make room for it, and why not elsewhere."""
    from corral.cli.model_views import load_plan
    from corral.wire.loads import LoadIn

    found = await session.client.loads.plan(model, LoadIn(count=count, nodes=node))
    if session.as_json:
        render.write_json(found.model_dump(mode="json"))
        return
    text = load_plan(found, colour=render.has_colour(sys.stdout))
    if text:
        render.write(text)
    _say_all(found.warnings)
    render.say(render.clean(f"{found.message} Nothing was done."))


@client_command(app, "logs")
async def show_log(
    session: Session,
    model: Model,
    *,
    node: Annotated[
        str, typer.Option("--node", metavar="NODE", help="Of several: which.", autocompletion=node_names)
    ] = "",
    replica: Annotated[int | None, typer.Option("--replica", min=0, help="Of several on a node: which.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="How many of the last ones.")] = 200,
) -> None:
    """Show what a model's engine has printed."""
    from corral.cli.backends import show_log as show_process_log

    found = await session.client.models.get(model)
    places = [
        place
        for place in found.replicas
        if (not node or node in (place.node_name, place.node_id)) and replica in (None, place.index)
    ]
    if len(places) == 1:
        key = f"{found.name}#{places[0].index}"
        await show_process_log(session, key, node=places[0].node_id, follow=follow, lines=lines)
        return
    if node and replica is not None:
        await show_process_log(session, f"{found.name}#{replica}", node=node, follow=follow, lines=lines)
        return
    known = ", ".join(f"--node {place.node_name} --replica {place.index}" for place in found.replicas[:5])
    raise InvalidRequest(
        f"{found.name} has {len(places)} replicas there." if places else f"{found.name} runs nowhere there now.",
        hint=f"Say which: {known}" if known else "Of one that has ended, say --node NODE --replica 0.",
    )


@client_command(app, "galleries")
async def list_galleries(
    session: Session,
    *,
    refresh: Annotated[bool, typer.Option("--refresh", help="Have them fetched anew, in the background.")] = False,
) -> None:
    """List the galleries of models: where each is, what it has, and what is wrong with it."""
    from corral.cli.backend_views import gallery_list

    answer = await session.client.models.refresh_galleries() if refresh else None
    found = answer.galleries if answer else await session.client.models.galleries()
    if session.as_json:
        render.write_json([one.model_dump(mode="json") for one in found])
    else:
        render.write(gallery_list(found, session.now(), colour=render.has_colour(sys.stdout)))
    if answer:
        render.say(f"\n{render.clean(answer.message)} `corral models galleries` shows what came of it.")


def _show_saved(session: Session, saved: SavedOut) -> None:
    if session.as_json:
        render.write_json(saved.model_dump(mode="json"))
        return
    for line in saved.changes:
        render.write(render.clean(line))
    render.say(render.clean(saved.message))
    _say_all(saved.warnings)


def _say_all(warnings: list[str]) -> None:
    for warning in warnings:
        render.say(render.clean(f"warning: {warning}"))


async def _follow(session: Session, asked: AskedModelOut, *, detach: bool) -> None:
    _say_all(asked.warnings)
    if detach:
        if session.as_json:
            render.write_json(asked.model_dump(mode="json", by_alias=True))
        else:
            render.write(asked.id)
            render.say(render.clean(asked.message))
        return
    from corral.cli.progress import follow

    if not session.as_json and asked.message:
        render.say(render.clean(asked.message))
    await follow(session, asked.id)
