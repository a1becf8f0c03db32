"""`/api/agents/skills` and `/api/agents/git-repos`: the caller's skills and the shared ones, their files, archives of
them, and the git repositories that skills come from.

A skill or repository of another owner does not exist for the caller, unless the skill is shared. A shared one is
changed by its owner and by admins.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response

from corral.api.deps import ApiDeps, DepsIn, OwnerIn
from corral.api.downloads import FILE_RESPONSES, make_attachment_headers, make_file_name
from corral.api.idempotency import create_once
from corral.api.intervals import parse_interval_s
from corral.api.openai.file_form import FileFormReader, parse_boundary
from corral.api.revisions import IfMatch, parse_expected_revision
from corral.backends.sources import refuse_private
from corral.domain.access import Principal
from corral.domain.errors import InvalidRequest
from corral.domain.skill import Skill, SkillContent, SkillFile, SkillRepo
from corral.policy import skills as policy
from corral.skills.archives import ARCHIVE_BYTES_MAX, pack_files, read_skills
from corral.skills.repos import SkillRepoSpec
from corral.skills.skill_document import make_content, parse_document, read_body
from corral.store.database import Transaction
from corral.wire.skills import (
    SkillDetailOut,
    SkillFileOut,
    SkillImportOut,
    SkillIn,
    SkillLimitsOut,
    SkillOut,
    SkillRepoIn,
    SkillRepoOut,
    SkillRepoToggleIn,
)

router = APIRouter(prefix="/api/agents", tags=["skills"])
_FORM = "multipart/form-data"
_FORMATS = ("tar.gz", "tar", "zip")
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FORM_SCHEMA = {
    "schema": {"type": "object", "required": ["file"], "properties": {"file": _BINARY["schema"]}},
}
_BYTES_BODY: dict[str, Any] = {"requestBody": {"required": True, "content": {"application/octet-stream": _BINARY}}}
_UPLOAD_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/octet-stream": _BINARY, _FORM: _FORM_SCHEMA}}
}
_FILE_FIELDS: dict[str, Any] = {"path": {"type": "string"}, "file": _BINARY["schema"]}
_FILE_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {_FORM: {"schema": {"type": "object", "required": ["path", "file"], "properties": _FILE_FIELDS}}},
    }
}
NameIn = Annotated[str, Path(description="The name of a skill: your own, else a shared one.")]
FilePathIn = Annotated[str, Path(description="Relative to the folder of the skill, such as references/fields.md.")]
QueryIn = Annotated[str, Query(max_length=200, description="A part of the name, the description or the text.")]
RepoIdIn = Annotated[str, Path(description="The id of a repository.")]


# --- skills ---


@router.get("/skills")
async def list_skills(deps: DepsIn, caller: OwnerIn) -> list[SkillOut]:
    """List your skills by name, then those that are shared with everybody."""
    return [_to_wire(skill, caller) for skill in await deps.skills.list_skills(caller)]


@router.get("/skills/config")
async def show_skill_limits(caller: OwnerIn) -> SkillLimitsOut:
    """Show what skills may have, and what one owner may keep."""
    del caller
    return SkillLimitsOut(
        document_bytes_max=policy.DOCUMENT_BYTES_MAX,
        file_bytes_max=policy.FILE_BYTES_MAX,
        files_max=policy.FILES_MAX,
        skill_bytes_max=policy.SKILL_BYTES_MAX,
        archive_bytes_max=ARCHIVE_BYTES_MAX,
        skills_max=policy.SKILLS_OF_OWNER_MAX,
        bytes_max=policy.OWNER_BYTES_MAX,
        repos_max=policy.REPOS_OF_OWNER_MAX,
        formats=list(_FORMATS),
    )


@router.get("/skills/search")
async def search_skills(deps: DepsIn, caller: OwnerIn, q: QueryIn = "") -> list[SkillOut]:
    """List the skills that have a text in their name, description or instructions, in any case."""
    return [_to_wire(skill, caller) for skill in await deps.skills.list_skills(caller, q)]


@router.post("/skills", status_code=201, response_model=SkillDetailOut)
async def create_skill(request: Request, deps: DepsIn, caller: OwnerIn, body: SkillIn) -> Response:
    """Create a skill of its fields, or of a whole SKILL.md as `document`. 409 if you have one of that name. Files are
    added with `PUT /api/agents/skills/{name}/resources/{path}`, or come with an archive."""
    content = _make_content(body)

    async def work(tx: Transaction) -> SkillDetailOut:
        skill = await deps.skills.create_in(tx, caller, content, is_shared=bool(body.shared))
        return _to_detail(skill, caller)

    return await create_once(request, deps.database, caller, work)


@router.get("/skills/export/{name}", response_class=Response, responses=FILE_RESPONSES)
async def export_skill(deps: DepsIn, caller: OwnerIn, name: NameIn) -> Response:
    """Return a skill with all its files as a tar.gz that `POST /api/agents/skills/import` takes."""
    skill, contents = await deps.skills.read_all(caller, name)
    sizes = [(path, len(content)) for path, content in contents.items()]
    _, archive = await deps.compute.run(partial(pack_files, skill.name, sizes), b"".join(contents.values()))
    headers = make_attachment_headers(make_file_name(skill.name, ".tar.gz"))
    return Response(archive, media_type="application/gzip", headers=headers)


@router.post("/skills/import", status_code=201, response_model=SkillImportOut, openapi_extra=_UPLOAD_BODY)
async def import_skills(
    request: Request,
    deps: DepsIn,
    caller: OwnerIn,
    *,
    replace: Annotated[bool, Query(description="Your skills of the same names are replaced with their files.")] = False,
    shared: Annotated[bool, Query(description="Every user's agents may use them. For admins.")] = False,
) -> Response:
    """Create skills from a tar.gz, tar or zip, as the body or as `file` of a form: each outermost folder with a
    SKILL.md is one. All of them are stored or none. Archives with links, paths that lead out of them, or too much in
    them are refused."""
    data, _ = await _receive_file(request)
    contents, _ = await deps.compute.run(read_skills, data)

    async def work(tx: Transaction) -> SkillImportOut:
        made = await deps.skills.import_in(tx, caller, contents, is_shared=shared, replaces=replace)
        return SkillImportOut(items=[_to_detail(skill, caller) for skill in made])

    return await create_once(request, deps.database, caller, work)


@router.get("/skills/{name}")
async def show_skill(deps: DepsIn, caller: OwnerIn, name: NameIn) -> SkillDetailOut:
    """Show one skill with its instructions and the names of its files."""
    return _to_detail(await deps.skills.get(caller, name), caller)


@router.put("/skills/{name}")
async def put_skill(
    deps: DepsIn, caller: OwnerIn, name: NameIn, body: SkillIn, if_match: IfMatch = None
) -> SkillDetailOut:
    """Replace the fields and instructions of a skill; a field that is left out is cleared, and its files stay. A skill
    of a repository is refused with 409."""
    present = await deps.skills.get(caller, name)
    content = _make_content(body, present)
    expects = parse_expected_revision(if_match)
    return _to_detail(await deps.skills.update(caller, name, content, is_shared=body.shared, expects=expects), caller)


@router.delete("/skills/{name}", status_code=204)
async def delete_skill(deps: DepsIn, caller: OwnerIn, name: NameIn) -> None:
    """Delete a skill with its files. A skill of a repository is refused with 409."""
    await deps.skills.delete(caller, name)


# --- files ---


@router.get("/skills/{name}/resources")
async def list_skill_files(deps: DepsIn, caller: OwnerIn, name: NameIn) -> list[SkillFileOut]:
    """List the files of a skill beside its SKILL.md."""
    return [_file_to_wire(file) for file in (await deps.skills.get(caller, name)).files]


@router.post("/skills/{name}/resources", status_code=201, openapi_extra=_FILE_FORM)
async def upload_skill_file(request: Request, deps: DepsIn, caller: OwnerIn, name: NameIn) -> SkillFileOut:
    """Store a file of a skill from a form with `path` and `file`, in the place of the one at that path."""
    content, path = await _receive_file(request)
    if not path:
        raise InvalidRequest("The form has no path.", hint="Send path and file.", code="bad_path")
    return _file_to_wire(await deps.skills.put_file(caller, name, path, content))


@router.get("/skills/{name}/resources/{path:path}", response_class=Response, responses=FILE_RESPONSES)
async def read_skill_file(deps: DepsIn, caller: OwnerIn, name: NameIn, path: FilePathIn) -> Response:
    """Return the bytes of a file of a skill, or of its SKILL.md."""
    content = await deps.skills.read_file(caller, name, path)
    headers = make_attachment_headers(path.rpartition("/")[2])
    return Response(content, media_type="application/octet-stream", headers=headers)


@router.put("/skills/{name}/resources/{path:path}", openapi_extra=_BYTES_BODY)
async def put_skill_file(
    request: Request, deps: DepsIn, caller: OwnerIn, name: NameIn, path: FilePathIn
) -> SkillFileOut:
    """Store the body as a file of a skill, in the place of the one at this path. At most 1 MiB."""
    return _file_to_wire(await deps.skills.put_file(caller, name, path, await request.body()))


@router.delete("/skills/{name}/resources/{path:path}", status_code=204)
async def delete_skill_file(deps: DepsIn, caller: OwnerIn, name: NameIn, path: FilePathIn) -> None:
    """Delete a file of a skill."""
    await deps.skills.delete_file(caller, name, path)


# --- repositories ---


@router.get("/git-repos")
async def list_skill_repos(deps: DepsIn, caller: OwnerIn) -> list[SkillRepoOut]:
    """List your git repositories of skills."""
    return [_repo_to_wire(repo) for repo in await deps.skill_repos.list_repos(caller)]


@router.post("/git-repos", status_code=201, response_model=SkillRepoOut)
async def add_skill_repo(request: Request, deps: DepsIn, caller: OwnerIn, body: SkillRepoIn) -> Response:
    """Add a git repository of skills, and start its first sync: a run that `run_id` names. Its skills are read-only.
    503 `no_agent_worker` if no node could execute the sync."""
    spec = await _check_repo(deps, body)

    async def work(tx: Transaction) -> SkillRepoOut:
        return _repo_to_wire(await deps.skill_repos.add_in(tx, caller, spec))

    return await create_once(request, deps.database, caller, work)


@router.get("/git-repos/{repo_id}")
async def show_skill_repo(deps: DepsIn, caller: OwnerIn, repo_id: RepoIdIn) -> SkillRepoOut:
    """Show one of your git repositories of skills."""
    return _repo_to_wire(await deps.skill_repos.get(caller, repo_id))


@router.put("/git-repos/{repo_id}")
async def put_skill_repo(deps: DepsIn, caller: OwnerIn, repo_id: RepoIdIn, body: SkillRepoIn) -> SkillRepoOut:
    """Replace the definition of a repository; a field that is left out is cleared. At another address or branch its
    skills stay until the sync that begins now has replaced them."""
    spec = await _check_repo(deps, body)
    return _repo_to_wire(await deps.skill_repos.change(caller, repo_id, spec))


@router.delete("/git-repos/{repo_id}", status_code=204)
async def delete_skill_repo(deps: DepsIn, caller: OwnerIn, repo_id: RepoIdIn) -> None:
    """Delete a repository with its skills."""
    await deps.skill_repos.delete(caller, repo_id)


@router.post("/git-repos/{repo_id}/sync", status_code=201, response_model=SkillRepoOut)
async def sync_skill_repo(request: Request, deps: DepsIn, caller: OwnerIn, repo_id: RepoIdIn) -> Response:
    """Start a sync of a repository; `run_id` names its run. One that has not ended is joined. 409 if the repository is
    disabled."""

    async def work(tx: Transaction) -> SkillRepoOut:
        return _repo_to_wire(await deps.skill_repos.start_sync_in(tx, caller, repo_id))

    return await create_once(request, deps.database, caller, work)


@router.post("/git-repos/{repo_id}/toggle")
async def toggle_skill_repo(
    deps: DepsIn, caller: OwnerIn, repo_id: RepoIdIn, body: Annotated[SkillRepoToggleIn | None, Body()] = None
) -> SkillRepoOut:
    """Enable or disable a repository. The skills of a disabled one are gone; one that is enabled gets them by a sync
    that begins now."""
    is_enabled = None if body is None else body.enabled
    return _repo_to_wire(await deps.skill_repos.set_enabled(caller, repo_id, is_enabled=is_enabled))


async def _check_repo(deps: ApiDeps, body: SkillRepoIn) -> SkillRepoSpec:
    """Return the definition of a repository. Raises if its address leads into a private network, by its name or by the
    name service."""
    spec = SkillRepoSpec(
        url=body.url,
        branch=body.branch,
        is_shared=body.shared,
        secret=body.secret.strip(),
        username=body.username.strip(),
        sync_interval_s=None
        if body.sync_interval in (None, "")
        else parse_interval_s("sync_interval", body.sync_interval),
    )
    checked = deps.skill_repos.parse_spec(spec)
    if not deps.allows_private_sources:
        address = policy.parse_repo_address(checked.url, allows_private=False)
        await refuse_private(address.fetched, deps.fetcher)
    return checked


# --- bodies ---


async def _receive_file(request: Request) -> tuple[bytes, str]:
    """Return the file that a request brings, as the body or as `file` of a form, and the field `path` of the form."""
    content_type, content = request.headers.get("content-type", ""), await request.body()
    if not content_type.lower().startswith(_FORM):
        return content, ""

    async def iter_once() -> AsyncIterator[bytes]:
        yield content

    form = FileFormReader(parse_boundary(content_type), iter_once())
    file = b"".join([piece async for piece in form.iter_file()])
    return file, form.fields.get("path", "")


def _make_content(body: SkillIn, present: Skill | None = None) -> SkillContent:
    """Return the skill that a body describes. Fields of the front matter that Corral does not know stay as they
    were."""
    if body.document is not None:
        content = parse_document(body.document)
        if body.name and policy.normalise_name(body.name) != content.name:
            raise policy.make_error(
                f"The document names the skill {content.name}, and `name` says {body.name[:80]!r}.",
                "Leave one of them out.",
            )
        return content
    kept = policy.list_other_fields(present.front_matter) if present else {}
    fields = {
        "name": body.name or (present.name if present else ""),
        "description": body.description,
        "license": body.license,
        "compatibility": body.compatibility,
        "allowed-tools": body.allowed_tools,
        "metadata": body.metadata,
    }
    return make_content(kept | fields, body.content)


def _to_wire(skill: Skill, caller: Principal) -> SkillOut:
    return SkillOut(**_list_fields(skill, caller))


def _to_detail(skill: Skill, caller: Principal) -> SkillDetailOut:
    return SkillDetailOut(
        **_list_fields(skill, caller),
        content=read_body(skill.document),
        document=skill.document,
        sha256=skill.sha256,
        files=[_file_to_wire(file) for file in skill.files],
    )


def _list_fields(skill: Skill, caller: Principal) -> dict[str, Any]:
    front = skill.front_matter
    return {
        "name": skill.name,
        "description": skill.description,
        "license": front.get("license", ""),
        "compatibility": front.get("compatibility", ""),
        "allowed_tools": front.get("allowed-tools", ""),
        "metadata": front.get("metadata", {}),
        "source": "git" if skill.is_read_only else "inline",
        "repo_id": skill.repo_id,
        "repo_url": skill.repo_url,
        "commit": skill.commit,
        "read_only": skill.is_read_only,
        "shared": skill.is_shared,
        "owner": str(skill.owner),
        "owner_name": skill.owner_name,
        "is_own": skill.owner == caller.owner,
        "revision": skill.revision,
        "file_count": skill.file_count,
        "size_bytes": skill.document_bytes + skill.files_bytes,
        "created_at": skill.created_at,
        "created_by": skill.created_by,
        "updated_at": skill.updated_at,
    }


def _file_to_wire(file: SkillFile) -> SkillFileOut:
    return SkillFileOut(path=file.path, size_bytes=file.size_bytes, sha256=file.sha256)


def _repo_to_wire(repo: SkillRepo) -> SkillRepoOut:
    return SkillRepoOut(
        id=repo.id,
        url=repo.url,
        branch=repo.branch,
        enabled=repo.is_enabled,
        shared=repo.is_shared,
        commit=repo.commit,
        synced_at=repo.synced_at,
        problem=repo.problem,
        secret=repo.secret,
        username=repo.username,
        sync_interval=None if repo.sync_interval_s is None else repo.sync_interval_s / 60,
        next_sync_at=repo.next_sync_at,
        run_id=repo.run_id,
        skills=repo.skill_count,
        owner=str(repo.owner),
        owner_name=repo.owner_name,
        created_at=repo.created_at,
        updated_at=repo.updated_at,
    )
