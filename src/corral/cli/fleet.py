"""`corral apply` and `corral export`: a whole fleet in one file, and how files are read and written.

A file is YAML, of which JSON is a part. Dates and yes/no stay what was typed only in quotes, as everywhere in YAML;
what a reader of ours does not expect is refused by the frontend with the name of the setting.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import Session, with_session
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from corral.wire.models import FleetOut

FileOption = Annotated[str, typer.Option("--file", "-f", metavar="FILE", help="YAML or JSON; - is standard input.")]
_SIGNS = {"create": "+", "change": "~", "remove": "-"}
LARGEST_BYTES = 4 * 1024 * 1024
# Lines are not folded: a diff in git then shows what was changed.
WIDTH = 100_000


def read_text(path: str) -> str:
    try:
        text = sys.stdin.read(LARGEST_BYTES) if path == "-" else Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is not UTF-8 text.") from error
    return text


def read_documents(path: str) -> list[Any]:
    """Every document of a file."""
    return parse_documents(read_text(path), "standard input" if path == "-" else path)


def parse_documents(text: str, where: str) -> list[Any]:
    import yaml

    try:
        return [one for one in yaml.safe_load_all(text) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise InvalidRequest(f"{where}{place}: this is not YAML ({problem}).") from error


def as_yaml(value: Any) -> str:
    """As a person would write it: in its own order, texts of several lines as such."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            del indentless
            # Items of a list stand under their key, not beside it.
            super().increase_indent(flow, False)

    def text(dumper: yaml.SafeDumper, data: str) -> yaml.Node:
        is_block = "\n" in data and all(line == line.rstrip() for line in data.split("\n"))
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if is_block else None)

    Dumper.add_representer(str, text)
    written: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return written


def merged_fleet(documents: list[Any], where: str) -> dict[str, Any]:
    """Several documents as one: lists are joined, tables too."""
    fleet: dict[str, Any] = {}
    for document in documents:
        if not isinstance(document, dict):
            raise InvalidRequest(f"{where}: a table with models, rules, nodes or galleries was expected.")
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
    session: Session,
    *,
    file: FileOption,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what would be done.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove what an earlier file had brought and this one lacks.")
    ] = False,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before something is removed.")] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="With --prune: also with an empty file, which removes everything.")
    ] = False,
) -> None:
    """Make the fleet what a file says: models, rules, nodes, galleries. All of it, or nothing."""
    fleet = merged_fleet(read_documents(file), file)
    if prune and not allow_empty and not any(fleet.values()):
        _refuse_empty(file, plan=plan)
    if prune and not plan and not is_sure and sys.stdin.isatty():
        planned = await session.client.fleet.apply(fleet, plan=True, prune=True)
        gone = [f"{step.kind} {step.name}" for step in planned.steps if step.action == "remove"]
        if gone and not render.ask(f"This removes {', '.join(gone[:5])}{', …' if len(gone) > 5 else ''}. Go on?"):
            raise typer.Exit(1)
    show_steps(session, await session.client.fleet.apply(fleet, plan=plan, prune=prune))


def _refuse_empty(file: str, *, plan: bool) -> None:
    """Refuse to prune by a file that names nothing; warn if it is only a plan."""
    where = "Standard input" if file == "-" else file
    if plan:
        render.say(f"WARNING: {where} is empty: with --prune it removes everything that earlier files have brought.\n")
        return
    raise InvalidRequest(
        f"{where} is empty, and with --prune that removes everything that earlier files have brought.",
        hint="Did `corral export` fail when it was written? If this is what you want, add --allow-empty.",
        code="empty_fleet",
    )


def show_steps(session: Session, answer: FleetOut) -> None:
    if session.as_json:
        render.write_json(answer.model_dump(mode="json"))
        return
    changed = [step for step in answer.steps if step.action != "same"]
    for step in changed:
        render.write(render.clean(f"{_SIGNS[step.action]} {step.kind} {step.name}"))
        for line in step.changes:
            render.write(render.clean(f"    {line}"))
        if step.stopped:
            render.write(f"    {step.stopped} {'replica ends' if step.stopped == 1 else 'replicas end'}")
    same = len(answer.steps) - len(changed)
    what = f"{len(changed)} {'change' if len(changed) == 1 else 'changes'}, {same} as they are."
    if answer.plan:
        render.say(f"{what} Nothing was done; without --plan it is.")
    elif changed:
        render.say(f"{what} Done.")
    else:
        render.say("Everything is like that already.")


async def export_fleet(session: Session) -> None:
    """Write the fleet as a file: models, rules, nodes, galleries. Applying it changes nothing."""
    fleet = await session.client.fleet.export()
    if session.as_json:
        render.write_json(fleet)
    elif fleet:
        render.write(as_yaml(fleet))
    else:
        render.say("There is nothing to write: no models, rules, labels, limits or galleries.")


apply = with_session(apply_fleet)
export = with_session(export_fleet)
