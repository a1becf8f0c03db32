"""Stores skills with their files, and the git repositories that they come from.

A skill is a row with its `SKILL.md` as text; each of its files is a row with its bytes, deleted with the skill. Writers
of one owner wait for each other, so that names and sums stay within their limits. Lock order: the owner, then the
repository, then the skill.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, case, delete, func, insert, or_, select, text, tuple_, update

from corral.domain.access import Owner
from corral.domain.errors import Conflict, NotFound
from corral.domain.skill import DOCUMENT_NAME, Skill, SkillContent, SkillFile, SkillId, SkillRepo, SkillRepoId
from corral.store.access import has_active_owner
from corral.store.database import Transaction, as_uuid, is_storable
from corral.store.run_schema import skill_files, skill_repos, skills
from corral.store.schema import NOW, api_keys, users

LISTED_MAX = 1000

_LOCK_OWNER = text("SELECT pg_advisory_xact_lock(hashtextextended('skills of ' || :owner, 3))")
# Skills of all owners that are shared have different names.
_LOCK_SHARED = text("SELECT pg_advisory_xact_lock(hashtextextended('shared skills', 3))")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSkill:
    """Values with which a skill is inserted into PostgreSQL."""

    id: SkillId
    owner: Owner
    content: SkillContent
    created_by: str
    is_shared: bool = False
    repo_id: SkillRepoId | None = None
    commit: str = ""


async def lock_owner(tx: Transaction, owner: Owner) -> None:
    """Make changes of an owner's skills and repositories wait for each other."""
    await tx.execute(_LOCK_OWNER, {"owner": str(owner)})


# --- skills ---


def _select_skills(*, with_document: bool) -> Select[Any]:
    owner_name = func.coalesce(users.c.name, api_keys.c.name, "").label("owner_name")
    files = (
        select(
            skill_files.c.skill_id,
            func.count().label("file_count"),
            func.sum(skill_files.c.size_bytes).label("files_bytes"),
        )
        .where(skill_files.c.skill_id == skills.c.id)
        .group_by(skill_files.c.skill_id)
        .lateral("files")
    )
    joined = (
        skills.outerjoin(users, users.c.id == skills.c.user_id)
        .outerjoin(api_keys, api_keys.c.id == skills.c.owner_key_id)
        .outerjoin(skill_repos, skill_repos.c.id == skills.c.repo_id)
        .outerjoin(files, files.c.skill_id == skills.c.id)
    )
    columns = [column for column in skills.c if with_document or column.name != "document"]
    more = (owner_name, skill_repos.c.url.label("repo_url"), files.c.file_count, files.c.files_bytes)
    return select(*columns, *more).select_from(joined)


def _to_owner(row: Any) -> Owner:
    return Owner(user_id=row.user_id) if row.user_id else Owner(key_id=row.owner_key_id)


def _to_skill(row: Any) -> Skill:
    return Skill(
        id=SkillId(row.id),
        owner=_to_owner(row),
        owner_name=row.owner_name,
        name=row.name,
        description=row.description,
        front_matter=row.front_matter,
        document=getattr(row, "document", ""),
        sha256=row.sha256,
        document_bytes=row.document_bytes,
        is_shared=row.is_shared,
        repo_id=None if row.repo_id is None else SkillRepoId(row.repo_id),
        repo_url=row.repo_url or "",
        commit=row.commit,
        revision=row.revision,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        file_count=row.file_count or 0,
        files_bytes=int(row.files_bytes or 0),
    )


def _is_usable(owner: str) -> ColumnElement[bool]:
    return or_(skills.c.owner == owner, skills.c.is_shared)


async def list_skills(tx: Transaction, owner: str, query: str = "") -> list[Skill]:
    """Return the skills that an owner may use, their own first, without documents and files. With a query: those that
    have it in the name, the description or the document."""
    statement = _select_skills(with_document=False).where(_is_usable(owner))
    if query:
        if not is_storable(query):
            return []
        found = [column.icontains(query, autoescape=True) for column in (skills.c.name, skills.c.description)]
        statement = statement.where(or_(*found, skills.c.document.icontains(query, autoescape=True)))
    is_own = skills.c.owner == owner
    statement = statement.order_by(case((is_own, 0), else_=1), skills.c.name).limit(LISTED_MAX)
    return [_to_skill(row) for row in await tx.execute(statement)]


async def find_skill(tx: Transaction, name: str, owner: str, *, own_only: bool = False) -> Skill | None:
    """Return the skill of this name with the names of its files: the owner's own, else a shared one."""
    if not is_storable(name):
        return None
    is_own = skills.c.owner == owner
    statement = _select_skills(with_document=True).where(
        skills.c.name == name, is_own if own_only else _is_usable(owner)
    )
    statement = statement.order_by(case((is_own, 0), else_=1)).limit(1)
    row = (await tx.execute(statement)).one_or_none()
    if row is None:
        return None
    found = _to_skill(row)
    return replace(found, files=(await list_files(tx, [found.id])).get(found.id, ()))


async def get_skill(tx: Transaction, name: str, owner: str) -> Skill:
    found = await find_skill(tx, name, owner)
    if found is None:
        raise make_not_found_error(name)
    return found


def make_not_found_error(name: str) -> NotFound:
    """Return the same error for a skill that does not exist and for one of another owner."""
    return NotFound(
        f"There is no skill {name[:80]!r}.", hint="`corral skills list` shows your skills.", code="skill_not_found"
    )


def make_name_taken_error(name: str) -> Conflict:
    return Conflict(
        f"You have a skill {name!r} already.", hint="Choose another name, or change that skill.", code="skill_exists"
    )


def make_shared_name_taken_error(name: str) -> Conflict:
    return Conflict(
        f"Another skill is shared under the name {name!r}.", hint="Choose another name.", code="skill_exists"
    )


async def list_files(tx: Transaction, skill_ids: Collection[SkillId]) -> dict[SkillId, tuple[SkillFile, ...]]:
    """Return the names of the files of skills, by skill."""
    columns = (skill_files.c.skill_id, skill_files.c.path, skill_files.c.sha256, skill_files.c.size_bytes)
    statement = select(*columns).where(skill_files.c.skill_id.in_(skill_ids)).order_by(skill_files.c.path)
    found: dict[SkillId, tuple[SkillFile, ...]] = {}
    for row in await tx.execute(statement):
        file = SkillFile(path=row.path, sha256=row.sha256, size_bytes=row.size_bytes)
        found[SkillId(row.skill_id)] = (*found.get(SkillId(row.skill_id), ()), file)
    return found


async def list_documents(tx: Transaction, skill_ids: Collection[SkillId]) -> dict[SkillId, str]:
    """Return the texts of `SKILL.md` of skills."""
    statement = select(skills.c.id, skills.c.document).where(skills.c.id.in_(skill_ids))
    return {SkillId(row.id): row.document for row in await tx.execute(statement)}


async def read_file(tx: Transaction, skill_id: SkillId, path: str) -> bytes | None:
    """Return the bytes of one file of a skill; of `SKILL.md`, too."""
    if path == DOCUMENT_NAME:
        document = (await list_documents(tx, [skill_id])).get(skill_id)
        return None if document is None else document.encode()
    statement = select(skill_files.c.content).where(skill_files.c.skill_id == skill_id, skill_files.c.path == path)
    content: bytes | None = (await tx.execute(statement)).scalar_one_or_none()
    return content


async def read_content(tx: Transaction, skill_ids: Collection[SkillId], sha256: str) -> bytes | None:
    """Return the bytes with this hash of a file of these skills; None if none of them has it, or not any more."""
    statement = select(skills.c.document).where(skills.c.id.in_(skill_ids), skills.c.sha256 == sha256).limit(1)
    document: str | None = (await tx.execute(statement)).scalar_one_or_none()
    if document is not None:
        return document.encode()
    of_file = select(skill_files.c.content).where(skill_files.c.skill_id.in_(skill_ids), skill_files.c.sha256 == sha256)
    content: bytes | None = (await tx.execute(of_file.limit(1))).scalar_one_or_none()
    return content


async def count_skills(tx: Transaction, owner: Owner) -> tuple[int, int]:
    """Return how many skills an owner has, and how many bytes they have with their files."""
    own = skills.c.owner == str(owner)
    totals = select(
        func.count().label("number"), func.coalesce(func.sum(skills.c.document_bytes), 0).label("size_bytes")
    ).where(own)
    row = (await tx.execute(totals)).one()
    of_files = (
        select(func.coalesce(func.sum(skill_files.c.size_bytes), 0))
        .join(skills, skills.c.id == skill_files.c.skill_id)
        .where(own)
    )
    return int(row.number), int(row.size_bytes) + int((await tx.execute(of_files)).scalar_one())


async def list_names(
    tx: Transaction, owner: Owner, names: Collection[str], *, shared: bool, without: SkillRepoId | None = None
) -> set[str]:
    """Return those of the names that another skill of the owner has; with `shared`, or a shared one of any owner.
    `without`: skills of this repository do not count."""
    if shared:
        await tx.execute(_LOCK_SHARED)
    rivals = or_(skills.c.owner == str(owner), skills.c.is_shared) if shared else skills.c.owner == str(owner)
    statement = select(skills.c.name).where(skills.c.name.in_(names), rivals)
    if without is not None:
        statement = statement.where(skills.c.repo_id.is_distinct_from(without))
    return set((await tx.execute(statement)).scalars())


async def insert_skills(tx: Transaction, new: Sequence[NewSkill]) -> None:
    """Insert skills with their files. Names were found to be free, under the lock of the owner."""
    if not new:
        return
    await tx.execute(insert(skills), [_make_row(one) for one in new])
    await _insert_files(tx, [(one.id, one.content.files) for one in new])


def _make_row(new: NewSkill) -> dict[str, Any]:
    return {
        "id": new.id,
        "owner": str(new.owner),
        "user_id": new.owner.user_id,
        "owner_key_id": new.owner.key_id,
        "is_shared": new.is_shared,
        "repo_id": new.repo_id,
        "commit": new.commit,
        "created_by": new.created_by[:255],
        **_make_document_values(new.content),
    }


def _make_document_values(content: SkillContent) -> dict[str, Any]:
    document = content.document.encode()
    return {
        "name": content.name,
        "description": content.description,
        "front_matter": dict(content.front_matter),
        "document": content.document,
        "sha256": hashlib.sha256(document).hexdigest(),
        "document_bytes": len(document),
    }


async def _insert_files(tx: Transaction, files: Iterable[tuple[SkillId, Mapping[str, bytes]]]) -> None:
    for skill_id, contents in files:
        rows = [_make_file_row(skill_id, path, content) for path, content in contents.items()]
        if rows:
            await tx.execute(insert(skill_files), rows)


def _make_file_row(skill_id: SkillId, path: str, content: bytes) -> dict[str, Any]:
    return {
        "skill_id": skill_id,
        "path": path,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
        "content": content,
    }


async def update_skill(tx: Transaction, skill: Skill, content: SkillContent, *, is_shared: bool) -> None:
    """Replace the document of a skill; its files stay. `Conflict` if its new name is taken."""
    if (content.name, is_shared) != (skill.name, skill.is_shared):
        await _require_free(tx, skill, content.name, is_shared=is_shared)
    values = _make_document_values(content) | {"is_shared": is_shared, "revision": skills.c.revision + 1}
    await tx.execute(update(skills).where(skills.c.id == skill.id).values(**values, updated_at=NOW))


async def _require_free(tx: Transaction, skill: Skill, name: str, *, is_shared: bool) -> None:
    statement = select(skills.c.id).where(skills.c.name == name, skills.c.id != skill.id)
    if (await tx.execute(statement.where(skills.c.owner == str(skill.owner)))).first() is not None:
        raise make_name_taken_error(name)
    if is_shared:
        await tx.execute(_LOCK_SHARED)
        if (await tx.execute(statement.where(skills.c.is_shared))).first() is not None:
            raise make_shared_name_taken_error(name)


async def _record_files_changed(tx: Transaction, skill_id: SkillId) -> None:
    """Record when a file was changed. The revision is that of the document, whose author is not to be
    refused for it."""
    await tx.execute(update(skills).where(skills.c.id == skill_id).values(updated_at=NOW))


async def put_file(tx: Transaction, skill_id: SkillId, path: str, content: bytes) -> None:
    """Store a file of a skill in the place of the one at this path."""
    await tx.execute(delete(skill_files).where(skill_files.c.skill_id == skill_id, skill_files.c.path == path))
    await _insert_files(tx, [(skill_id, {path: content})])
    await _record_files_changed(tx, skill_id)


async def replace_files(tx: Transaction, skill_id: SkillId, files: Mapping[str, bytes]) -> None:
    """Store these files of a skill in the place of all that it has."""
    await tx.execute(delete(skill_files).where(skill_files.c.skill_id == skill_id))
    await _insert_files(tx, [(skill_id, files)])


async def delete_file(tx: Transaction, skill_id: SkillId, path: str) -> bool:
    """Delete a file of a skill and return whether there was one."""
    statement = delete(skill_files).where(skill_files.c.skill_id == skill_id, skill_files.c.path == path)
    if not (await tx.execute(statement)).rowcount:
        return False
    await _record_files_changed(tx, skill_id)
    return True


async def delete_skill(tx: Transaction, skill_id: SkillId) -> None:
    await tx.execute(delete(skills).where(skills.c.id == skill_id))


# --- repositories ---


def _select_repos() -> Select[Any]:
    owner_name = func.coalesce(users.c.name, api_keys.c.name, "").label("owner_name")
    count = (
        select(func.count())
        .where(skills.c.repo_id == skill_repos.c.id)
        .correlate(skill_repos)
        .scalar_subquery()
        .label("skill_count")
    )
    joined = skill_repos.outerjoin(users, users.c.id == skill_repos.c.user_id).outerjoin(
        api_keys, api_keys.c.id == skill_repos.c.owner_key_id
    )
    return select(skill_repos, owner_name, count).select_from(joined)


def _to_repo(row: Any) -> SkillRepo:
    return SkillRepo(
        id=SkillRepoId(row.id),
        owner=_to_owner(row),
        owner_name=row.owner_name,
        url=row.url,
        branch=row.branch,
        is_enabled=row.is_enabled,
        is_shared=row.is_shared,
        username=row.username,
        secret=row.secret,
        sync_interval_s=row.sync_interval_s,
        next_sync_at=row.next_sync_at,
        commit=row.commit,
        synced_at=row.synced_at,
        problem=row.problem,
        run_id=row.run_id or "",
        skill_count=row.skill_count,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
    )


async def list_repos(tx: Transaction, owner: str) -> list[SkillRepo]:
    statement = _select_repos().where(skill_repos.c.owner == owner)
    statement = statement.order_by(skill_repos.c.url, skill_repos.c.branch).limit(LISTED_MAX)
    return [_to_repo(row) for row in await tx.execute(statement)]


async def find_repo(
    tx: Transaction, repo_id: str, *, owner: str | None = None, is_locked: bool = False
) -> SkillRepo | None:
    """Return a repository; with `owner`, only if it is theirs. `is_locked` keeps it from changing until the transaction
    ends."""
    known = as_uuid(repo_id)
    if known is None:
        return None
    statement = _select_repos().where(skill_repos.c.id == known)
    if owner is not None:
        statement = statement.where(skill_repos.c.owner == owner)
    if is_locked:
        statement = statement.with_for_update(of=skill_repos)
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_repo(row)


async def find_repo_of_run(tx: Transaction, run_id: str) -> SkillRepo | None:
    """Return the repository whose last sync is this run, and keep it from changing until the transaction ends."""
    statement = _select_repos().where(skill_repos.c.run_id == run_id).with_for_update(of=skill_repos)
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_repo(row)


async def get_repo(tx: Transaction, repo_id: str, owner: str, *, is_locked: bool = False) -> SkillRepo:
    found = await find_repo(tx, repo_id, owner=owner, is_locked=is_locked)
    if found is None:
        raise NotFound(
            f"There is no repository {repo_id[:80]!r}.",
            hint="`corral skills repos list` shows your repositories.",
            code="skill_repo_not_found",
        )
    return found


async def has_repo(
    tx: Transaction, owner: Owner, url: str, branch: str, *, other_than: SkillRepoId | None = None
) -> bool:
    statement = select(skill_repos.c.id).where(
        skill_repos.c.owner == str(owner), skill_repos.c.url == url, skill_repos.c.branch == branch
    )
    if other_than is not None:
        statement = statement.where(skill_repos.c.id != other_than)
    return (await tx.execute(statement)).first() is not None


async def count_repos(tx: Transaction, owner: Owner) -> int:
    statement = select(func.count()).select_from(skill_repos).where(skill_repos.c.owner == str(owner))
    return int((await tx.execute(statement)).scalar_one())


async def insert_repo(tx: Transaction, owner: Owner, values: Mapping[str, Any]) -> None:
    columns = {"owner": str(owner), "user_id": owner.user_id, "owner_key_id": owner.key_id}
    await tx.execute(insert(skill_repos).values(**columns, **values))


async def update_repo(tx: Transaction, repo_id: SkillRepoId, **values: Any) -> None:
    await tx.execute(update(skill_repos).where(skill_repos.c.id == repo_id).values(**values, updated_at=NOW))


async def record_sync(tx: Transaction, repo_id: SkillRepoId, commit: str, problem: str) -> None:
    """Record that the skills of a repository are those of a commit now."""
    await update_repo(tx, repo_id, commit=commit, problem=problem, synced_at=NOW)


def _is_due() -> ColumnElement[bool]:
    is_active = has_active_owner(skill_repos.c.user_id, skill_repos.c.owner_key_id)
    return (skill_repos.c.next_sync_at <= NOW) & skill_repos.c.is_enabled & is_active


async def list_due_repos(
    tx: Transaction, limit: int, after: tuple[datetime, str] | None = None
) -> list[tuple[datetime, SkillRepoId]]:
    """Return repositories that are due for a sync by themselves, with their times: those that are due longest first,
    those behind `after`."""
    statement = select(skill_repos.c.next_sync_at, skill_repos.c.id).where(_is_due())
    if after is not None:
        statement = statement.where(tuple_(skill_repos.c.next_sync_at, skill_repos.c.id) > after)
    ordered = statement.order_by(skill_repos.c.next_sync_at, skill_repos.c.id).limit(limit)
    return [(row.next_sync_at, SkillRepoId(row.id)) for row in await tx.execute(ordered)]


async def is_repo_due(tx: Transaction, repo_id: SkillRepoId) -> bool:
    statement = select(skill_repos.c.id).where(skill_repos.c.id == repo_id, _is_due())
    return (await tx.execute(statement)).first() is not None


async def schedule_sync(tx: Transaction, repo_id: SkillRepoId, next_at: datetime) -> None:
    """Record when a repository is synced by itself next."""
    await tx.execute(update(skill_repos).where(skill_repos.c.id == repo_id).values(next_sync_at=next_at))


async def defer_sync(tx: Transaction, repo_id: SkillRepoId, due_at: datetime, next_at: datetime) -> None:
    """Let a sync be tried again later, unless its repository was changed since it was due."""
    is_same = (skill_repos.c.id == repo_id) & (skill_repos.c.next_sync_at == due_at)
    await tx.execute(update(skill_repos).where(is_same).values(next_sync_at=next_at))


async def delete_repo_skills(tx: Transaction, repo_id: SkillRepoId) -> None:
    """Delete all skills of a repository."""
    await tx.execute(delete(skills).where(skills.c.repo_id == repo_id))


async def list_repo_skill_names(tx: Transaction, repo_id: SkillRepoId) -> list[str]:
    """Return the names of the skills of a repository."""
    return list((await tx.execute(select(skills.c.name).where(skills.c.repo_id == repo_id))).scalars())


async def share_repo_skills(tx: Transaction, repo_id: SkillRepoId, *, is_shared: bool) -> None:
    """Share the skills of a repository with everybody, or no more."""
    statement = update(skills).where(skills.c.repo_id == repo_id, skills.c.is_shared != is_shared)
    await tx.execute(statement.values(is_shared=is_shared, updated_at=NOW))


async def delete_repo(tx: Transaction, repo_id: SkillRepoId) -> None:
    """Delete a repository with its skills."""
    await tx.execute(delete(skill_repos).where(skill_repos.c.id == repo_id))
