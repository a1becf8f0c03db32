"""`corral models …`: commands for models. A model is a name or an alias; a gallery entry is a name or gallery@name."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.completion import complete_entry_names, complete_model_names, complete_node_names
from corral.cli.fleet import FileOption, format_yaml, parse_documents, read_documents, show_changes
from corral.cli.operations import DetachOption
from corral.domain.errors import CorralError, InvalidRequest

if TYPE_CHECKING:
    from corral.wire.models import GalleryModelOut, ModelOperationOut, ModelOut, SavedModelOut

# Endings of weight files, and the backend that runs each where only one can.
_WEIGHTS = {".gguf": "llama-cpp", ".safetensors": "", ".onnx": "", ".bin": ""}
_FLEET_KEYS = frozenset({"models", "rules", "nodes", "galleries"})
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
app = make_group("Models: search, install, configure, load and unload them.")

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name or alias.", autocompletion=complete_model_names)
]
NodesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node", metavar="NODE", help="Only this node; can be given several times.", autocompletion=complete_node_names
    ),
]
PlanOption = Annotated[bool, typer.Option("--plan", help="Dry run: only show what would change.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a setting, such as options.context_size=8192 or pinned=true."
    ),
]


@register_command(app, "list")
async def list_models(session: CommandSession) -> None:
    """List the models with their state and replicas."""
    from corral.cli.model_views import format_model_list

    models = await session.client.models.list()
    if session.as_json:
        render.print_json([model.model_dump(mode="json") for model in models])
    elif models:
        render.print_data(format_model_list(models, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice(
            "There are no models yet. `corral models search` lists the galleries, `install NAME` installs one."
        )


@register_command(app, "show")
async def show_model(session: CommandSession, model: ModelArgument) -> None:
    """Show one model with its settings, files and replicas."""
    from corral.cli.model_views import format_model

    found = await session.client.models.get(model)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
    else:
        render.print_data(format_model(found, session.read_time(), colour=render.has_colour(sys.stdout)))


@register_command(app, "search")
async def search_models(
    session: CommandSession,
    term: Annotated[str, typer.Argument(metavar="TERM", help="Part of a name, a description or a tag.")] = "",
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also list variants for other hardware.")] = False,
) -> None:
    """Search the galleries for models."""
    from corral.cli.model_views import format_entry_list

    entries = await _read_entries(session, term, folds_variants=not everything)
    if session.as_json:
        render.print_json([entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in entries])
    elif entries:
        render.print_data(format_entry_list(entries, colour=render.has_colour(sys.stdout)))
        if any(entry.has_variants for entry in entries):
            render.print_notice(
                "\n* has variants; Corral picks the one that fits your nodes: corral models variants NAME"
            )
    else:
        render.print_notice("No models match this search. Without TERM all are listed; --all adds variants.")


async def _read_entries(session: CommandSession, term: str, *, folds_variants: bool) -> list[GalleryModelOut]:
    """Return the entries of every page of the galleries."""
    first = await session.client.models.search(term, folds_variants=folds_variants)
    entries = list(first.models)
    for page in range(2, first.total_pages + 1):
        entries += (await session.client.models.search(term, page=page, folds_variants=folds_variants)).models
    return entries


@register_command(app, "variants")
async def list_variants(
    session: CommandSession,
    entry: Annotated[
        str, typer.Argument(metavar="ENTRY", help="Name, or gallery@name.", autocompletion=complete_entry_names)
    ],
) -> None:
    """Show the variants of a gallery entry, which of them fit your nodes, and which would be picked."""
    from corral.cli.model_views import format_variant_list

    found = await session.client.models.list_variants(entry)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
        return
    render.print_data(format_variant_list(found, colour=render.has_colour(sys.stdout)))
    for warning in found.warnings:
        render.print_notice(render.clean_text(warning))


@register_command(app, "install")
async def install_model(
    session: CommandSession,
    entry: Annotated[
        str, typer.Argument(metavar="ENTRY", help="Name, or gallery@name.", autocompletion=complete_entry_names)
    ],
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the model.  [that of the entry]")] = "",
    variant: Annotated[
        str, typer.Option("--variant", metavar="NAME", help="Variant.  [the one that fits your nodes]")
    ] = "",
    settings: SetOption = None,
    plan: PlanOption = False,
    detach: DetachOption = False,
) -> None:
    """Install a model from a gallery entry and download its files."""
    from corral.cli.model_views import format_install_plan
    from corral.wire.models import InstallModelIn

    body = InstallModelIn(name=name, variant=variant, overrides=parse_overrides(settings or []))
    if plan:
        planned = await session.client.models.plan_install(entry, body)
        if session.as_json:
            render.print_json(planned.model_dump(mode="json"))
            return
        render.print_data(format_install_plan(planned))
        render.print_warnings(planned.warnings)
        render.print_notice("Dry run: nothing was changed. Run it again without `--plan` to apply.")
        return
    operation = await session.client.models.install(entry, body)
    await _follow_operation(session, operation, detach=detach)
    if not detach and not session.as_json:
        render.print_notice(render.clean_text(f"Next: corral models load {operation.name}"))


def parse_overrides(pairs: list[str]) -> dict[str, Any]:
    """Parse pairs such as `options.context_size=8192` into nested tables, with values parsed as YAML."""
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
                raise typer.BadParameter(f"--set {path!r}: {key} already has a value")
        inner[keys[-1]] = value
    return found


@register_command(app, "import")
async def import_model(
    session: CommandSession,
    source: Annotated[
        str,
        typer.Argument(metavar="FILE|ADDRESS", help="YAML configuration, weight file, or address such as hf://…"),
    ],
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the model.")] = "",
    backend: Annotated[str, typer.Option("--backend", metavar="BACKEND", help="Backend that runs the weights.")] = "",
    base: Annotated[
        str, typer.Option("--base", metavar="MODEL", help="The file is a LoRA adapter of this model.")
    ] = "",
    detach: DetachOption = False,
) -> None:
    """Add a model from a YAML configuration, a weight file or an address (https, hf, oci, ollama, wheel).

    A weight file is uploaded to the frontend; the upload resumes if the connection breaks.
    """
    from corral.wire.models import ImportUriIn

    if "://" in source:
        operation = await session.client.models.import_uri(ImportUriIn(uri=source, name=name, backend=backend))
        await _follow_operation(session, operation, detach=detach)
        return
    if Path(source).suffix.lower() in _WEIGHTS:
        config = await _send_weights(session, Path(source), name, backend or ("any" if base else ""))
        if base:
            config = {"name": config["name"], "files": config["files"], "base": base}
        _show_saved(session, await session.client.models.put(str(config["name"]), config))
        render.print_notice(render.clean_text(f"Next: corral models load {base or config['name']}"))
        return
    _check_is_configuration(source)
    documents = read_documents(source)
    if any(isinstance(one, dict) and "backend" not in one and _FLEET_KEYS & one.keys() for one in documents):
        raise InvalidRequest(f"{source} describes a whole fleet, not one model.", hint=f"corral apply -f {source}")
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InvalidRequest(
            f"{source} does not contain exactly one configuration.", hint="For several: corral models apply -f FILE"
        )
    config = documents[0] | ({"name": name} if name else {}) | ({"backend": backend} if backend else {})
    called = config.get("name")
    if not isinstance(called, str) or not called:
        raise InvalidRequest("The configuration has no name.", hint="Add --name NAME.")
    _show_saved(session, await session.client.models.put(called, config))


def _check_is_configuration(source: str) -> None:
    """Raise `InvalidRequest` for a missing file, with a hint if the name looks like a Hugging Face repository."""
    if _REPOSITORY.fullmatch(source) and not Path(source).exists():
        raise InvalidRequest(
            f"There is no file {source}.", hint=f"If it is on the Hugging Face hub: corral models import hf://{source}"
        )


def _get_file_size(path: Path) -> int:
    if not path.is_file():
        raise InvalidRequest(f"There is no file {path}.")
    return path.stat().st_size


async def _send_weights(session: CommandSession, path: Path, name: str, backend: str) -> dict[str, Any]:
    """Upload a weight file and return the configuration of a model with that file."""
    size_bytes = await asyncio.to_thread(_get_file_size, path)
    runs = backend or _WEIGHTS[path.suffix.lower()]
    if not runs:
        raise InvalidRequest(f"{path.name} does not tell which backend runs it.", hint="Add --backend BACKEND.")
    render.print_notice(render.clean_text(f"Uploading {path.name} ({render.format_size(size_bytes)})"))
    sha256 = await session.client.files.send_file(path)
    return {
        "name": name or path.stem.lower(),
        "backend": runs,
        "files": [{"path": path.name, "uri": f"upload:{sha256}"}],
    }


@register_command(app, "apply")
async def apply_models(
    session: CommandSession,
    *,
    file: FileOption,
    plan: PlanOption = False,
) -> None:
    """Create or change models from a file: one configuration, a list, or several documents. All or nothing."""
    models: list[Any] = []
    for document in read_documents(file):
        inside = document.get("models", document) if isinstance(document, dict) else document
        if isinstance(inside, dict) and not {"backend", "base"} & inside.keys():
            inside = [{"name": name, **one} if isinstance(one, dict) else one for name, one in inside.items()]
        models += inside if isinstance(inside, list) else [inside]
    if not models:
        raise InvalidRequest(f"{file} contains no models.")
    show_changes(session, await session.client.fleet.apply({"models": models}, plan=plan))


@register_command(app, "export")
async def export_models(
    session: CommandSession,
    model: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help="Only these models.", autocompletion=complete_model_names),
    ] = None,
) -> None:
    """Write configurations as YAML; `corral models apply -f` reads them back."""
    if model:
        configs = [(await session.client.models.get(name)).config for name in model]
    else:
        configs = [one.config for one in await session.client.models.list()]
    if session.as_json:
        render.print_json(configs)
    elif len(configs) == 1:
        render.print_data(format_yaml(configs[0]))
    elif configs:
        render.print_data(format_yaml({"models": configs}))
    else:
        render.print_notice("There are no models yet.")


@register_command(app, "edit")
async def edit_model(session: CommandSession, model: ModelArgument) -> None:
    """Edit a model's configuration in $VISUAL or $EDITOR. Changes that were saved meanwhile are not overwritten."""
    from corral.cli.models import DraftFile

    found = await session.client.models.get(model)
    draft = DraftFile(format_yaml(found.config))
    while True:
        try:
            (config,) = parse_documents(draft.edit(), "The configuration") or [None]
            if config == found.config:
                draft.discard()
                render.print_notice("Nothing was changed.")
                return
            saved = await _save_edited(session, found, config)
        except CorralError as error:
            render.show_error(error)
            if error.slug == "revision_conflict" or not _confirm_another_edit():
                render.print_notice(f"Your draft is kept in {draft.path}")
                raise typer.Exit(1) from error
            continue
        draft.discard()
        _show_saved(session, saved)
        return


async def _save_edited(session: CommandSession, found: ModelOut, config: object) -> SavedModelOut:
    if not isinstance(config, dict):
        raise InvalidRequest("This is not a configuration: a table of settings is expected.")
    name = config.get("name", found.name)
    if name != found.name:
        await session.client.models.rename({found.name: str(name)})
        return await session.client.models.put(str(name), config, expected_revision=found.revision + 1)
    return await session.client.models.put(found.name, config, expected_revision=found.revision)


def _confirm_another_edit() -> bool:
    return sys.stdin.isatty() and render.confirm("Edit it again?")


@register_command(app, "enable")
async def enable_model(session: CommandSession, model: ModelArgument) -> None:
    """Accept requests for a model again."""
    _show_saved(session, await session.client.models.set_enabled(model, enabled=True))


@register_command(app, "disable")
async def disable_model(session: CommandSession, model: ModelArgument) -> None:
    """Stop accepting requests for a model and unload its replicas."""
    _show_saved(session, await session.client.models.set_enabled(model, enabled=False))


@register_command(app, "pin")
async def pin_model(session: CommandSession, model: ModelArgument) -> None:
    """Pin a model: it is never evicted and never scaled to zero."""
    _show_saved(session, await session.client.models.set_pinned(model, pinned=True))


@register_command(app, "unpin")
async def unpin_model(session: CommandSession, model: ModelArgument) -> None:
    """Unpin a model, so that it can be evicted and scaled to zero again."""
    _show_saved(session, await session.client.models.set_pinned(model, pinned=False))


@register_command(app, "rename")
async def rename_model(
    session: CommandSession,
    model: ModelArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="New name of the model.")],
) -> None:
    """Rename a model. Engines that run under the old name are stopped."""
    (saved,) = await session.client.models.rename({model: name})
    _show_saved(session, saved)


@register_command(app, "remove")
async def remove_model(
    session: CommandSession,
    model: ModelArgument,
    *,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    detach: DetachOption = False,
) -> None:
    """Delete a model, its replicas and its files on every node. Asks for confirmation on a terminal."""
    if not is_sure and sys.stdin.isatty():
        found = await session.client.models.get(model)
        where = f" {len(found.replicas)} replicas will be stopped." if found.replicas else ""
        if not render.confirm(f"Delete {found.name} with its {found.revision} revisions and all copies?{where}"):
            raise typer.Exit(1)
    await _follow_operation(session, await session.client.models.request_delete(model), detach=detach)


@register_command(app, "revisions")
async def list_revisions(session: CommandSession, model: ModelArgument) -> None:
    """List the revisions of a model, newest first."""
    from corral.cli.model_views import format_revision_list

    found = await session.client.models.list_revisions(model)
    if session.as_json:
        render.print_json([one.model_dump(mode="json") for one in found])
        return
    render.print_data(format_revision_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    if len(found) > 1:
        render.print_notice(render.clean_text(f"\nTo go back: corral models rollback {model} {found[1].number}"))


@register_command(app, "diff")
async def compare_revisions(
    session: CommandSession,
    model: ModelArgument,
    old: Annotated[int | None, typer.Argument(metavar="OLD", min=1, help="First revision.  [the previous one]")] = None,
    new: Annotated[int | None, typer.Argument(metavar="NEW", min=1, help="Second revision.  [the current one]")] = None,
) -> None:
    """Show the differences between two revisions of a model."""
    found = await session.client.models.diff_revisions(model, old=old, new=new)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
    elif found.changes:
        render.print_notice(render.clean_text(f"{found.model}, revision {found.old} to {found.new}:"))
        render.print_data("".join(f"{render.clean_text(line)}\n" for line in found.changes))
    else:
        render.print_notice(render.clean_text(f"{found.model}: revisions {found.old} and {found.new} are identical."))


@register_command(app, "rollback")
async def roll_back_model(
    session: CommandSession,
    model: ModelArgument,
    revision: Annotated[
        int,
        typer.Argument(
            metavar="REVISION", min=1, help="Number of the revision, as `corral models revisions` shows it."
        ),
    ],
) -> None:
    """Go back to an earlier revision of a model. The model gets a new revision with the earlier content."""
    _show_saved(session, await session.client.models.roll_back(model, revision))


@register_command(app, "load")
async def load_model(
    session: CommandSession,
    model: ModelArgument,
    *,
    node: NodesOption = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="Number of replicas to add.")] = 1,
    detach: DetachOption = False,
) -> None:
    """Load one or more additional replicas of a model. Corral picks the node and fetches what is missing."""
    from corral.wire.loads import LoadIn

    await _follow_operation(
        session, await session.client.models.load(model, LoadIn(count=count, nodes=node)), detach=detach
    )
    if not detach and not session.as_json:
        render.print_notice(render.clean_text(f'Next: corral run {model} "Hello"'))


@register_command(app, "unload")
async def unload_model(
    session: CommandSession,
    model: ModelArgument,
    *,
    node: NodesOption = None,
    force: Annotated[bool, typer.Option("--force", help="Do not wait for requests in flight.")] = False,
    delete_files: Annotated[
        bool,
        typer.Option("--delete-files", help="Also delete the copies of its files on these nodes. The model stays."),
    ] = False,
    detach: DetachOption = False,
) -> None:
    """Unload a model's replicas on all nodes, or on some. Its files stay, unless --delete-files is given."""
    from corral.wire.loads import UnloadIn

    body = UnloadIn(nodes=node, force=force, delete_files=delete_files)
    await _follow_operation(session, await session.client.models.unload(model, body), detach=detach)


@register_command(app, "plan")
async def plan_model(
    session: CommandSession,
    model: ModelArgument,
    *,
    node: NodesOption = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="Number of replicas to add.")] = 1,
) -> None:
    """Show where a model would be loaded, what would be evicted, and why other nodes are not chosen."""
    from corral.cli.model_views import format_load_plan
    from corral.wire.loads import LoadIn

    found = await session.client.loads.plan_load(model, LoadIn(count=count, nodes=node))
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
        return
    text = format_load_plan(found, colour=render.has_colour(sys.stdout))
    if text:
        render.print_data(text)
    render.print_warnings(found.warnings)
    render.print_notice(render.clean_text(f"{found.message} Dry run: nothing was changed."))


@register_command(app, "logs")
async def show_log(
    session: CommandSession,
    model: ModelArgument,
    *,
    node: Annotated[
        str,
        typer.Option(
            "--node", metavar="NODE", help="Which node, if replicas run on several.", autocompletion=complete_node_names
        ),
    ] = "",
    replica: Annotated[
        int | None, typer.Option("--replica", min=0, help="Which replica, if the node has several.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow new lines until Ctrl-C.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, max=1000, help="Number of lines, counted from the end.")
    ] = 200,
) -> None:
    """Show the log of a model's engine."""
    from corral.cli.backends import show_log as show_process_log

    found = await session.client.models.get(model)
    replicas = [
        shown_replica
        for shown_replica in found.replicas
        if (not node or node in (shown_replica.node_name, shown_replica.node_id))
        and replica in (None, shown_replica.index)
    ]
    if len(replicas) == 1:
        key = f"{found.name}#{replicas[0].index}"
        await show_process_log(session, key, node=replicas[0].node_id, follow=follow, lines=lines)
        return
    if node and replica is not None:
        await show_process_log(session, f"{found.name}#{replica}", node=node, follow=follow, lines=lines)
        return
    known = ", ".join(
        f"--node {shown_replica.node_name} --replica {shown_replica.index}" for shown_replica in found.replicas[:5]
    )
    raise InvalidRequest(
        f"{found.name} has {len(replicas)} replicas that match."
        if replicas
        else f"{found.name} has no replica that matches.",
        hint=f"Choose one: {known}" if known else "For a replica that has ended, add --node NODE --replica 0.",
    )


@register_command(app, "galleries")
async def list_galleries(
    session: CommandSession,
    *,
    refresh: Annotated[bool, typer.Option("--refresh", help="Fetch the indexes again, in the background.")] = False,
) -> None:
    """List the galleries of models with their address, number of entries, last fetch and problem."""
    from corral.cli.backend_views import format_gallery_list

    answer = await session.client.models.refresh_galleries() if refresh else None
    found = answer.galleries if answer else await session.client.models.list_galleries()
    if session.as_json:
        render.print_json([one.model_dump(mode="json") for one in found])
    else:
        render.print_data(format_gallery_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    if answer:
        render.print_notice(f"\n{render.clean_text(answer.message)} `corral models galleries` shows the result.")


def _show_saved(session: CommandSession, saved: SavedModelOut) -> None:
    if session.as_json:
        render.print_json(saved.model_dump(mode="json"))
        return
    for line in saved.changes:
        render.print_data(render.clean_text(line))
    render.print_notice(render.clean_text(saved.message))
    render.print_warnings(saved.warnings)


async def _follow_operation(session: CommandSession, operation: ModelOperationOut, *, detach: bool) -> None:
    render.print_warnings(operation.warnings)
    if detach:
        if session.as_json:
            render.print_json(operation.model_dump(mode="json", by_alias=True))
        else:
            render.print_data(operation.id)
            render.print_notice(render.clean_text(operation.message))
        return
    from corral.cli.progress import follow_operation

    if not session.as_json and operation.message:
        render.print_notice(render.clean_text(operation.message))
    await follow_operation(session, operation.id)


FALLBACK = "vi"


class DraftFile:
    """A temporary file in which a person edits a model's configuration from the command line.

    `discard` it once the text was saved; else it stays for its owner to find.
    """

    def __init__(self, text: str) -> None:
        handle, name = tempfile.mkstemp(prefix="corral-", suffix=".yaml")
        self.path = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)

    def edit(self) -> str:
        """Open the draft in the editor, wait until the editor has ended, and return the text."""
        words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or FALLBACK)
        try:
            done = subprocess.run([*words, str(self.path)], check=False)  # noqa: S603 - the person's own editor
        except OSError as error:
            raise InvalidRequest(
                f"The editor {words[0]!r} cannot be started: {error.strerror}.", hint="Set EDITOR to another program."
            ) from error
        if done.returncode:
            raise InvalidRequest(f"The editor failed with exit code {done.returncode}; nothing was changed.")
        return self.path.read_text(encoding="utf-8")

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
