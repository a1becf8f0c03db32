"""Creates, changes, finds, imports and deletes skills and their files.

Guarantees: a change is one transaction with its audit line and its event, and is there at every frontend at once; an
import stores all of its skills or none. What belongs to others does not exist for a caller, except shared skills, which
only their owner and admins change. Skills of a repository are changed in the repository alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corral.domain.access import Owner, Principal
from corral.domain.errors import Conflict, LimitReached, NotAllowed, NotFound
from corral.domain.skill import DOCUMENT_NAME, Skill, SkillContent, SkillFile, SkillId
from corral.policy import skills as policy
from corral.policy.revisions import check_revision
from corral.ports.runtime import IdGenerator
from corral.store import access as access_store
from corral.store import outbox
from corral.store import skills as store
from corral.store.database import Database, Transaction
from corral.store.skills import NewSkill


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillServiceDeps:
    """Dependencies of a frontend's service for the skills of LLM agents."""

    database: Database
    ids: IdGenerator


class SkillService:
    """Creates, changes, finds, imports and deletes the skills that LLM agents read, with their files."""

    def __init__(self, deps: SkillServiceDeps) -> None:
        self._deps = deps

    # --- finding ---

    async def list_skills(self, principal: Principal, query: str = "") -> list[Skill]:
        """Return the caller's skills, then shared ones, by name; with a query, those that contain it."""
        async with self._deps.database.transaction() as tx:
            return await store.list_skills(tx, str(principal.owner), query.strip())

    async def get(self, principal: Principal, name: str) -> Skill:
        async with self._deps.database.transaction() as tx:
            return await store.get_skill(tx, name, str(principal.owner))

    async def read_file(self, principal: Principal, name: str, path: str) -> bytes:
        """Return the bytes of a file of a skill, or of its `SKILL.md`."""
        async with self._deps.database.transaction() as tx:
            skill = await store.get_skill(tx, name, str(principal.owner))
            content = await store.read_file(tx, skill.id, policy.normalise_path(path))
        if content is None:
            raise _make_no_file_error(skill, path)
        return content

    async def read_all(self, principal: Principal, name: str) -> tuple[Skill, dict[str, bytes]]:
        """Return a skill with the bytes of all its files, `SKILL.md` among them."""
        async with self._deps.database.transaction() as tx:
            skill = await store.get_skill(tx, name, str(principal.owner))
            contents = {DOCUMENT_NAME: skill.document.encode()}
            for file in skill.files:
                content = await store.read_file(tx, skill.id, file.path)
                assert content is not None, "files go with their skill, which this transaction has read"
                contents[file.path] = content
        return skill, contents

    # --- changing ---

    async def create_in(
        self, tx: Transaction, principal: Principal, content: SkillContent, *, is_shared: bool = False
    ) -> Skill:
        """Create a skill inside a larger transaction. `Conflict` if its name is taken."""
        owner = principal.owner
        require_may_share(principal, is_shared=is_shared)
        await store.lock_owner(tx, owner)
        await _require_free(tx, owner, content.name, is_shared=is_shared)
        await require_room(tx, owner, [content])
        new = NewSkill(
            id=SkillId(self._deps.ids.new_id()),
            owner=owner,
            content=content,
            created_by=principal.name,
            is_shared=is_shared,
        )
        await store.insert_skills(tx, [new])
        await _record(tx, principal, "create", new.id, content.name)
        return await store.get_skill(tx, content.name, str(owner))

    async def import_in(
        self,
        tx: Transaction,
        principal: Principal,
        contents: Sequence[SkillContent],
        *,
        is_shared: bool = False,
        replaces: bool = False,
    ) -> list[Skill]:
        """Create several skills inside a larger transaction. `replaces`: the caller's skills of the same names get the
        imported documents and files; otherwise such a name is a `Conflict`."""
        found = []
        for content in contents:
            existing = None
            if replaces:
                existing = await store.find_skill(tx, content.name, str(principal.owner), own_only=True)
            if existing is None:
                found.append(await self.create_in(tx, principal, content, is_shared=is_shared))
            else:
                found.append(await self._replace(tx, principal, existing, content, is_shared=is_shared))
        return found

    async def _replace(
        self, tx: Transaction, principal: Principal, skill: Skill, content: SkillContent, *, is_shared: bool
    ) -> Skill:
        require_may_share(principal, is_shared=is_shared)
        locked = await _lock_editable(tx, principal, skill.name)
        await store.replace_files(tx, locked.id, {})
        await require_room(tx, locked.owner, [content], is_new=False)
        await store.replace_files(tx, locked.id, content.files)
        await store.update_skill(tx, locked, content, is_shared=is_shared or locked.is_shared)
        await _record(tx, principal, "update", locked.id, content.name)
        return await store.get_skill(tx, content.name, str(principal.owner))

    async def update(
        self,
        principal: Principal,
        name: str,
        content: SkillContent,
        *,
        is_shared: bool | None = None,
        expects: int | None = None,
    ) -> Skill:
        """Replace the document of a skill; its files stay, and another name in it renames the skill. `is_shared` None:
        as before. `expects` is the revision that the author has read."""
        async with self._deps.database.transaction() as tx:
            skill = await _lock_editable(tx, principal, name)
            check_revision(skill.name, skill.revision, expects)
            shares = skill.is_shared if is_shared is None else is_shared
            if shares != skill.is_shared:
                require_may_share(principal, is_shared=shares)
            sizes = {file.path: file.size_bytes for file in skill.files}
            policy.check_files(sizes, len(content.document.encode()))
            await store.update_skill(tx, skill, content, is_shared=shares)
            await _record(tx, principal, "update", skill.id, content.name)
            found = await store.find_skill(tx, content.name, str(skill.owner), own_only=True)
        assert found is not None, "the skill was just written"
        return found

    async def put_file(self, principal: Principal, name: str, path: str, content: bytes) -> SkillFile:
        """Store a file of a skill in the place of the one at this path."""
        path = policy.normalise_file_path(path)
        policy.check_file_size(path, len(content))
        async with self._deps.database.transaction() as tx:
            skill = await _lock_editable(tx, principal, name)
            sizes = {file.path: file.size_bytes for file in skill.files} | {path: len(content)}
            policy.check_files(sizes, skill.document_bytes)
            await store.put_file(tx, skill.id, path, content)
            await require_room(tx, skill.owner, [], is_new=False)
            await _record(tx, principal, "update", skill.id, skill.name)
            written = (await store.list_files(tx, [skill.id]))[skill.id]
        return next(file for file in written if file.path == path)

    async def delete_file(self, principal: Principal, name: str, path: str) -> None:
        path = policy.normalise_file_path(path)
        async with self._deps.database.transaction() as tx:
            skill = await _lock_editable(tx, principal, name)
            if not await store.delete_file(tx, skill.id, path):
                raise _make_no_file_error(skill, path)
            await _record(tx, principal, "update", skill.id, skill.name)

    async def delete(self, principal: Principal, name: str) -> None:
        """Delete a skill with its files. Turns that have begun and have not read it yet find it gone."""
        async with self._deps.database.transaction() as tx:
            skill = await _lock_editable(tx, principal, name)
            await store.delete_skill(tx, skill.id)
            await access_store.record_audit(tx, principal.name, "skill.delete", skill.id, skill.name)
            await outbox.append(tx, "skill.deleted", skill.id)


def require_may_share(principal: Principal, *, is_shared: bool) -> None:
    """Raise `NotAllowed` if a caller shares something with everybody and is no admin."""
    if is_shared and not principal.is_admin:
        raise NotAllowed("Only admins may share skills with everybody.", hint="Leave `shared` out.")


async def require_room(tx: Transaction, owner: Owner, contents: Sequence[SkillContent], *, is_new: bool = True) -> None:
    """Raise `LimitReached` if an owner would have too many skills, or too many bytes in them, with these."""
    count, size_bytes = await store.count_skills(tx, owner)
    if is_new and count + len(contents) > policy.SKILLS_OF_OWNER_MAX:
        raise LimitReached(
            f"You would have more than {policy.SKILLS_OF_OWNER_MAX} skills, which is the limit.",
            hint="Delete some: corral skills delete NAME",
            code="too_many_skills",
        )
    more = sum(len(one.document.encode()) + sum(map(len, one.files.values())) for one in contents)
    if size_bytes + more > policy.OWNER_BYTES_MAX:
        raise LimitReached(
            f"Your skills would have more than {policy.OWNER_BYTES_MAX >> 20} MiB, which is the limit.",
            hint="Delete some: corral skills delete NAME",
            code="too_many_skills",
        )


async def _require_free(tx: Transaction, owner: Owner, name: str, *, is_shared: bool) -> None:
    if await store.list_names(tx, owner, [name], shared=False):
        raise store.make_name_taken_error(name)
    if is_shared and await store.list_names(tx, owner, [name], shared=True):
        raise store.make_shared_name_taken_error(name)


async def _lock_editable(tx: Transaction, principal: Principal, name: str) -> Skill:
    """Return a skill that the caller may change, and make other changes of its owner's skills wait."""
    own = str(principal.owner)
    found = await store.get_skill(tx, name, own)
    await store.lock_owner(tx, found.owner)
    skill = await store.find_skill(tx, name, str(found.owner), own_only=True)
    if skill is None:
        raise store.make_not_found_error(name)
    if str(skill.owner) != own and not principal.is_admin:
        raise NotAllowed(
            "Only its owner and admins change a shared skill.",
            hint=f"Make one of your own: corral skills export {skill.name}, then import it under another name.",
        )
    if skill.is_read_only:
        raise Conflict(
            f"The skill {skill.name} comes from the repository {skill.repo_url}, and is changed there.",
            hint="Commit the change in the repository, then: corral skills repos sync",
            code="skill_read_only",
        )
    return skill


def _make_no_file_error(skill: Skill, path: str) -> NotFound:
    return NotFound(
        f"The skill {skill.name} has no file {path[:120]!r}.",
        hint=f"`corral skills show {skill.name}` lists its files.",
        code="skill_file_not_found",
    )


async def _record(tx: Transaction, principal: Principal, action: str, skill_id: SkillId, name: str) -> None:
    await access_store.record_audit(tx, principal.name, f"skill.{action}", skill_id, name)
    await outbox.append(tx, "skill.changed", skill_id)
