"""`corral apply` and `corral export`: read and write a whole fleet as one file.

A file is YAML or JSON. As everywhere in YAML, dates and yes/no stay text only in quotes; the frontend refuses a value
of the wrong type and names the setting.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import CommandSession, add_session
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from corral.wire.models import FleetChangesOut

FileOption = Annotated[
    str, typer.Option("--file", "-f", metavar="FILE", help="YAML or JSON file; - is standard input.")
]
_SIGNS = {"create": "+", "change": "~", "remove": "-"}
FILE_BYTES_MAX = 4 * 1024 * 1024
# Lines are not folded, so that a diff in git shows only what changed.
WIDTH = 100_000


def read_text(path: str) -> str:
    try:
        text = sys.stdin.read(FILE_BYTES_MAX) if path == "-" else Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is not UTF-8 text.") from error
    return text


def read_documents(path: str) -> list[Any]:
    """Return every document of a YAML file or of standard input."""
    return parse_documents(read_text(path), "standard input" if path == "-" else path)


def read_value(text: str) -> str:
    """Return the value of an option; `@FILE` names a file that holds it."""
    return read_text(text[1:]) if text.startswith("@") else text


def read_body(file: str, noun: str, hint: str = "") -> dict[str, Any]:
    """Return the one document of a file as the body of a call; nothing without a file."""
    if not file:
        return {}
    documents = read_documents(file)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InvalidRequest(f"{file}: a file with one {noun} was expected.", hint=hint or None)
    return dict(documents[0])


def parse_documents(text: str, where: str) -> list[Any]:
    import yaml

    try:
        return [one for one in yaml.safe_load_all(text) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise InvalidRequest(f"{where}{location}: this is not YAML ({problem}).") from error


def format_yaml(value: Any) -> str:
    """Return the value as YAML in its own order, with multi-line texts as blocks."""
    import yaml

    class FleetDumper(yaml.SafeDumper):
        """Writes a fleet file as YAML for `corral fleet`, with the items of a list indented below their key."""

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            del indentless
            # Indent the items of a list below their key.
            super().increase_indent(flow, False)

    def text(dumper: yaml.SafeDumper, data: str) -> yaml.Node:
        is_block = "\n" in data and all(line == line.rstrip() for line in data.split("\n"))
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if is_block else None)

    FleetDumper.add_representer(str, text)
    written: str = yaml.dump(value, Dumper=FleetDumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return written


def merge_fleet(documents: list[Any], where: str) -> dict[str, Any]:
    """Merge several documents into one: lists are joined, and so are tables."""
    fleet: dict[str, Any] = {}
    for document in documents:
        if not isinstance(document, dict):
            raise InvalidRequest(
                f"{where}: a table with models, rules, nodes, galleries, agents, tasks or mcp_servers is expected."
            )
        for key, value in document.items():
            known = fleet.get(key)
            if isinstance(known, list) and isinstance(value, list):
                fleet[key] = known + value
            elif isinstance(known, dict) and isinstance(value, dict):
                fleet[key] = known | value
            elif known is None:
                fleet[key] = value
            else:
                raise InvalidRequest(f"{where}: {key} is a list in one document and a table in another.")
    return fleet


async def apply_fleet(
    session: CommandSession,
    *,
    file: FileOption,
    plan: Annotated[bool, typer.Option("--plan", help="Dry run: only show what would change.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also remove what an earlier file created and this file does not name.")
    ] = False,
    is_sure: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation before something is removed.")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="With --prune: accept an empty file, which removes everything.")
    ] = False,
) -> None:
    """Apply a file to the fleet: models, rules, nodes, galleries, agents, tasks. All changes are made, or none.

    MCP servers are in it, too. Agents and tasks in the file belong to you; --prune removes yours only.
    """
    fleet = merge_fleet(read_documents(file), file)
    if prune and not allow_empty and not any(fleet.values()):
        _refuse_empty(file, plan=plan)
    if prune and not plan and not is_sure and sys.stdin.isatty():
        planned = await session.client.fleet.apply(fleet, plan=True, prune=True)
        removed = [f"{step.kind} {step.name}" for step in planned.steps if step.action == "remove"]
        if removed and not render.confirm(
            f"This removes {', '.join(removed[:5])}{', …' if len(removed) > 5 else ''}. Continue?"
        ):
            raise typer.Exit(1)
    show_changes(session, await session.client.fleet.apply(fleet, plan=plan, prune=prune))


def _refuse_empty(file: str, *, plan: bool) -> None:
    """Refuse to prune with a file that names nothing; only warn if it is a dry run."""
    where = "Standard input" if file == "-" else file
    if plan:
        render.print_notice(
            f"WARNING: {where} is empty: with --prune it removes everything that earlier files created.\n"
        )
        return
    raise InvalidRequest(
        f"{where} is empty, and with --prune that removes everything that earlier files created.",
        hint="Did `corral export` fail while writing it? If you mean it, add --allow-empty.",
        code="empty_fleet",
    )


def show_changes(session: CommandSession, answer: FleetChangesOut) -> None:
    if session.as_json:
        render.print_json(answer.model_dump(mode="json"))
        return
    changed = [step for step in answer.steps if step.action != "same"]
    for step in changed:
        render.print_data(render.clean_text(f"{_SIGNS[step.action]} {step.kind} {step.name}"))
        for line in step.changes:
            render.print_data(render.clean_text(f"    {line}"))
        if step.stopped:
            render.print_data(
                f"    {step.stopped} {'replica is stopped' if step.stopped == 1 else 'replicas are stopped'}"
            )
    same = len(answer.steps) - len(changed)
    summary = f"{len(changed)} {'change' if len(changed) == 1 else 'changes'}, {same} unchanged."
    if answer.plan:
        render.print_notice(f"{summary} Dry run: nothing was changed. Run it again without `--plan` to apply.")
    elif changed:
        render.print_notice(f"Applied: {summary}")
    else:
        render.print_notice("Nothing to change: the fleet already matches the file.")


async def export_fleet(session: CommandSession) -> None:
    """Export the fleet as a file: models, rules, nodes, galleries, agents, tasks. Applying it changes nothing.

    Agents and tasks are yours; admins also get shared agents and the declared MCP servers. Secrets are references.
    """
    fleet = await session.client.fleet.export()
    if session.as_json:
        render.print_json(fleet)
    elif fleet:
        render.print_data(format_yaml(fleet))
    else:
        render.print_notice(
            "There is nothing to export: no models, rules, labels, limits, galleries, agents, tasks or MCP servers."
        )


apply = add_session(apply_fleet)
export = add_session(export_fleet)
