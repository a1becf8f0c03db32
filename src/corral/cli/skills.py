"""`corral skills …`: commands for skills, their files, and the git repositories that they come from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.completion import complete_skill_names
from corral.cli.new_file import open_new_file
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from corral.wire.skills import SkillDetailOut, SkillOut, SkillRepoOut

app = make_group("Skills, instructions that agents read when a task needs them: write, import and sync them.")
files = make_group("Files of a skill beside its SKILL.md: put, read and delete them.")
repos = make_group("Git repositories that skills come from: add, sync, enable, disable and delete them.")
app.add_typer(files, name="files")
app.add_typer(repos, name="repos")
SkillArgument = Annotated[
    str, typer.Argument(metavar="SKILL", help="Name of the skill.", autocompletion=complete_skill_names)
]
PathArgument = Annotated[str, typer.Argument(metavar="PATH", help="Path in the skill, such as references/a.md.")]
RepoArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the repository, its beginning or end.")]
SourceArgument = Annotated[
    Path, typer.Argument(metavar="PATH", help="A folder with a SKILL.md, a SKILL.md, or a tar.gz, tar or zip.")
]
DescriptionOption = Annotated[
    str | None, typer.Option("--description", "-d", help="What it does and when to use it; agents choose by it.")
]
ContentOption = Annotated[
    str | None, typer.Option("--content", "-c", help="The instructions. @FILE reads a file, @- standard input.")
]
FileOption = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="A whole SKILL.md in place of the other options.")
]
SharedOption = Annotated[
    bool, typer.Option("--shared", help="For admins: agents of every user may use what is imported.")
]
SecretOption = Annotated[
    str | None,
    typer.Option("--secret", metavar="secret:NAME", help="For a private repository: the secret with its token."),
]
UsernameOption = Annotated[
    str | None, typer.Option("--username", help="The user name beside the secret. Most hosts take any.  [git]")
]
EveryOption = Annotated[
    str | None, typer.Option("--every", metavar="DURATION", help="Sync it by itself, such as 1h; never: only by hand.")
]
_NEVER = "never"
_SHORT_COMMIT = 10


@register_command(app, "list")
async def list_skills(session: CommandSession) -> None:
    """List your skills and the shared ones."""
    await _print_list(session, await session.client.skills.list(), "You have no skills. Import one: ")


@register_command(app, "search")
async def search_skills(
    session: CommandSession,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A part of the name, description or instructions.")],
) -> None:
    """List the skills that contain a text."""
    await _print_list(session, await session.client.skills.list(text), "No skill contains that. Import one: ")


@register_command(app, "show")
async def show_skill(session: CommandSession, skill: SkillArgument) -> None:
    """Show a skill: where it comes from, its files, and its SKILL.md."""
    found = await session.client.skills.get(skill)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
        return
    render.print_data(render.clean_text(_format_facts(found), keep="\n"))
    render.print_data("")
    render.print_data(render.clean_text(found.document, keep="\n\t"))


@register_command(app, "create")
async def create_skill(
    session: CommandSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and single hyphens.")],
    *,
    description: DescriptionOption = None,
    content: ContentOption = None,
    file: FileOption = None,
    shared: SharedOption = False,
) -> None:
    """Create a skill of a description and instructions, or of a SKILL.md. `corral skills import` takes folders."""
    _refuse_file_as_name(name, file)
    body = _make_body(name, description, content, file) | ({"shared": True} if shared else {})
    made = await session.client.skills.create(body)
    _print_saved(session, made, f"Created skill {made.name}.")


@register_command(app, "edit")
async def edit_skill(
    session: CommandSession,
    skill: SkillArgument,
    *,
    name: Annotated[str | None, typer.Option("--name", help="A new name.")] = None,
    description: DescriptionOption = None,
    content: ContentOption = None,
    file: FileOption = None,
    shared: Annotated[
        bool | None, typer.Option("--shared/--private", help="For admins: agents of every user may use it, or not.")
    ] = None,
) -> None:
    """Change a skill. What is not given stays as it was; with --file, all of it is that file."""
    found = await session.client.skills.get(skill)
    if file is not None:
        body = _make_body("", description, content, file)
    else:
        kept = ("name", "description", "license", "compatibility", "allowed_tools", "metadata", "content")
        body = {field: getattr(found, field) for field in kept}
        given = {"name": name, "description": description, "content": None if content is None else _read(content)}
        body |= {field: value for field, value in given.items() if value is not None}
    if shared is not None:
        body["shared"] = shared
    made = await session.client.skills.edit(skill, body, revision=found.revision)
    _print_saved(session, made, f"Changed skill {made.name}. Turns of agents that begin now use it.")


@register_command(app, "import")
async def import_skills(
    session: CommandSession,
    path: SourceArgument,
    *,
    replace: Annotated[bool, typer.Option("--replace", help="Replace your skills of the same names.")] = False,
    shared: SharedOption = False,
) -> None:
    """Create skills of a folder, a SKILL.md or an archive, with their files. All of them are stored or none."""
    made = (await session.client.skills.import_path(path, replaces=replace, is_shared=shared)).items
    if session.as_json:
        render.print_json([skill.model_dump(mode="json") for skill in made])
        return
    for skill in made:
        render.print_data(skill.name)
    render.print_notice(f"Imported {len(made)} skill{'' if len(made) == 1 else 's'}.")


@register_command(app, "export")
async def export_skill(
    session: CommandSession,
    skill: SkillArgument,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The tar.gz to write, which must not exist.  [SKILL.tar.gz]")
    ] = None,
) -> None:
    """Write a skill with its files to a tar.gz."""
    target = file or Path(f"{skill}.tar.gz")
    content = await session.client.skills.export(skill)
    with open_new_file(target) as opened:
        opened.write(content)
    if session.as_json:
        render.print_json({"path": str(target), "size_bytes": len(content)})
    else:
        render.print_notice(f"Wrote {len(content)} bytes to {target}.")


@register_command(app, "delete")
async def delete_skill(session: CommandSession, skill: SkillArgument) -> None:
    """Delete a skill with its files."""
    await session.client.skills.delete(skill)
    if not session.as_json:
        render.print_notice(render.clean_text(f"Deleted skill {skill}."))


# --- files ---


@register_command(files, "put")
async def put_skill_file(
    session: CommandSession,
    skill: SkillArgument,
    path: PathArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to store there.")],
) -> None:
    """Store a file of a skill, in the place of the one at that path."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}.") from error
    stored = await session.client.skills.put_file(skill, path, content)
    if session.as_json:
        render.print_json(stored.model_dump(mode="json"))
    else:
        render.print_notice(render.clean_text(f"Stored {stored.path}, {render.format_size(stored.size_bytes)}."))


@register_command(files, "read")
async def read_skill_file(session: CommandSession, skill: SkillArgument, path: PathArgument) -> None:
    """Print a file of a skill as it is."""
    content = await session.client.skills.read_file(skill, path)
    if session.as_json:
        render.print_json({"path": path, "size_bytes": len(content)})
    elif sys.stdout.isatty():
        render.print_data(render.clean_text(content.decode(errors="replace"), keep="\n\t"))
    else:
        sys.stdout.buffer.write(content)


@register_command(files, "delete")
async def delete_skill_file(session: CommandSession, skill: SkillArgument, path: PathArgument) -> None:
    """Delete a file of a skill."""
    await session.client.skills.delete_file(skill, path)
    if not session.as_json:
        render.print_notice(render.clean_text(f"Deleted {path} of skill {skill}."))


# --- repositories ---


@register_command(repos, "list")
async def list_repos(session: CommandSession) -> None:
    """List your repositories."""
    found = await session.client.skills.list_repos()
    if session.as_json:
        render.print_json([repo.model_dump(mode="json") for repo in found])
    elif found:
        render.print_data(_format_repos(found, session.read_time(), colour=render.has_colour(sys.stdout)))
        for repo in found:
            if repo.problem:
                render.print_notice(render.clean_text(f"{repo.url}: {repo.problem}"))
    else:
        render.print_notice("You have no repositories. Add one: corral skills repos add URL")


@register_command(repos, "add")
async def add_repo(
    session: CommandSession,
    url: Annotated[str, typer.Argument(metavar="URL", help="https://…, http://… or git@host:path.")],
    *,
    branch: Annotated[str, typer.Option("--branch", "-b", help="Its name.  [the repository's own]")] = "",
    secret: SecretOption = None,
    username: UsernameOption = None,
    every: EveryOption = None,
    shared: SharedOption = False,
) -> None:
    """Add a git repository, and begin to fetch its skills."""
    body = {"url": url, "branch": branch, "shared": shared} | _list_repo_options(secret, username, every)
    made = await session.client.skills.add_repo(body)
    _print_repo(session, made, f"Added the repository. Follow the sync: corral runs watch {made.run_id}")


@register_command(repos, "edit")
async def edit_repo(
    session: CommandSession,
    repo: RepoArgument,
    *,
    url: Annotated[str | None, typer.Option("--url", help="Another address.")] = None,
    branch: Annotated[str | None, typer.Option("--branch", "-b", help="Another branch.")] = None,
    secret: SecretOption = None,
    username: UsernameOption = None,
    every: EveryOption = None,
    shared: Annotated[
        bool | None, typer.Option("--shared/--private", help="For admins: agents of every user may use its skills.")
    ] = None,
) -> None:
    """Change a repository. What is not given stays as it was; `--secret ''` makes it a public one."""
    repo_id = await _find_repo_id(session, repo)
    found = next(one for one in await session.client.skills.list_repos() if one.id == repo_id)
    kept = ("url", "branch", "secret", "username", "sync_interval", "shared")
    body = {field: getattr(found, field) for field in kept}
    given = {"url": url, "branch": branch, "shared": shared}
    body |= {field: value for field, value in given.items() if value is not None}
    if secret == "":
        body["username"] = ""
    body |= _list_repo_options(secret, username, every)
    changed = await session.client.skills.edit_repo(repo_id, body)
    _print_repo(session, changed, "Changed the repository.")


@register_command(repos, "sync")
async def sync_repo(session: CommandSession, repo: RepoArgument) -> None:
    """Bring the skills of a repository to the newest commit of its branch."""
    started = await session.client.skills.sync_repo(await _find_repo_id(session, repo))
    _print_repo(session, started, f"Started the sync. Follow it: corral runs watch {started.run_id}")


@register_command(repos, "enable")
async def enable_repo(session: CommandSession, repo: RepoArgument) -> None:
    """Enable a repository, and begin to fetch its skills."""
    changed = await session.client.skills.set_repo_enabled(await _find_repo_id(session, repo), is_enabled=True)
    _print_repo(session, changed, "Enabled the repository. Its skills come back with a sync.")


@register_command(repos, "disable")
async def disable_repo(session: CommandSession, repo: RepoArgument) -> None:
    """Disable a repository: its skills are gone until it is enabled."""
    changed = await session.client.skills.set_repo_enabled(await _find_repo_id(session, repo), is_enabled=False)
    _print_repo(session, changed, "Disabled the repository. Its skills are gone.")


@register_command(repos, "delete")
async def delete_repo(session: CommandSession, repo: RepoArgument) -> None:
    """Delete a repository with its skills."""
    await session.client.skills.delete_repo(await _find_repo_id(session, repo))
    if not session.as_json:
        render.print_notice("Deleted the repository with its skills.")


def _list_repo_options(secret: str | None, username: str | None, every: str | None) -> dict[str, Any]:
    """Return the fields of a repository that were given as options."""
    interval = None if every == _NEVER else every
    given: dict[str, Any] = {"secret": secret, "username": username}
    fields = {field: value for field, value in given.items() if value is not None}
    return fields if every is None else fields | {"sync_interval": interval}


async def _find_repo_id(session: CommandSession, text: str) -> str:
    """Return the full id for a short one."""
    from corral.cli.operation_views import resolve_id

    return resolve_id([repo.id for repo in await session.client.skills.list_repos()], text)


# --- bodies and views ---


def _refuse_file_as_name(name: str, file: Path | None) -> None:
    """Raise `InvalidRequest` for a file in the place of the name."""
    if file is None and (name.endswith((".md", ".zip")) or "/" in name):
        raise InvalidRequest(
            f"{name} is a file, and the name of the skill is expected here.",
            hint=f"corral skills create NAME --file {name}, or corral skills import {name}",
        )


def _make_body(name: str, description: str | None, content: str | None, file: Path | None) -> dict[str, Any]:
    if file is None:
        return {"name": name, "description": description or "", "content": _read(content or "")}
    if description is not None or content is not None:
        raise InvalidRequest("--file has the whole skill.", hint="Leave --description and --content out.")
    document = _read(f"@{file}")
    return {"document": document} | ({"name": name} if name else {})


def _read(text: str) -> str:
    """Return the text of an option, or of the file that it names with @."""
    if not text.startswith("@"):
        return text
    if text == "@-":
        return sys.stdin.read()
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{text[1:]} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{text[1:]} is not UTF-8 text.") from error


def _print_saved(session: CommandSession, skill: SkillDetailOut, sentence: str) -> None:
    if session.as_json:
        render.print_json(skill.model_dump(mode="json"))
    else:
        render.print_notice(render.clean_text(sentence))


def _print_repo(session: CommandSession, repo: SkillRepoOut, sentence: str) -> None:
    if session.as_json:
        render.print_json(repo.model_dump(mode="json"))
    else:
        render.print_data(repo.id)
        render.print_notice(sentence)


async def _print_list(session: CommandSession, found: Sequence[SkillOut], empty: str) -> None:
    if session.as_json:
        render.print_json([skill.model_dump(mode="json") for skill in found])
    elif found:
        render.print_data(_format_list(found, colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice(f"{empty}corral skills import PATH")


def _format_list(found: Sequence[SkillOut], *, colour: bool) -> str:
    rows = [
        [
            skill.name,
            _format_source(skill),
            "you" if skill.is_own else skill.owner_name,
            render.format_yes_no(skill.shared),
            str(skill.file_count),
            " ".join(skill.description.split())[:80],
        ]
        for skill in found
    ]
    headers = ["NAME", "SOURCE", "OWNER", "SHARED", "FILES", "DESCRIPTION"]
    return render.format_table(headers, rows, colour=colour)


def _format_source(skill: SkillOut) -> str:
    return f"git {skill.commit[:_SHORT_COMMIT]}" if skill.read_only else "inline"


def _format_facts(skill: SkillDetailOut) -> str:
    facts = {
        "name": skill.name,
        "source": f"{skill.repo_url} at {skill.commit[:_SHORT_COMMIT]}" if skill.read_only else "written here",
        "owner": "you" if skill.is_own else skill.owner_name,
        "shared": render.format_yes_no(skill.shared),
        "revision": str(skill.revision),
        "size": render.format_size(skill.size_bytes),
        "files": ", ".join(file.path for file in skill.files) or "none",
    }
    return render.format_facts(facts)


def _format_repos(found: Sequence[SkillRepoOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            repo.id,
            repo.url,
            repo.branch or "default",
            render.format_yes_no(repo.enabled),
            render.format_yes_no(repo.shared),
            _NEVER if repo.sync_interval is None else f"{repo.sync_interval:g} min",
            str(repo.skills),
            repo.commit[:_SHORT_COMMIT] or "none",
            render.format_age(repo.synced_at, now),
        ]
        for repo in found
    ]
    headers = ["ID", "URL", "BRANCH", "ENABLED", "SHARED", "EVERY", "SKILLS", "COMMIT", "SYNCED"]
    return render.format_table(headers, rows, colour=colour)
