"""Keeps skills in step with git repositories: adds, changes, enables, syncs and deletes repositories.

A sync is a run of the owner: a worker fetches the commit that the branch is at and delivers the skills in it.

Guarantee: the skills of one commit replace those of the one before in one transaction, fenced by the worker's
attempt; a sync that fails, is repeated or is lost changes no skill. A repository that is disabled or deleted has no
skills, and no sync that could bring them back. Lock order: run, then owner, then repository.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corral.domain.access import Owner, Principal, parse_owner
from corral.domain.errors import Conflict, LimitReached, NotFound
from corral.domain.node import NodeId
from corral.domain.run import Run, RunBudgets, RunId, RunKind, RunState
from corral.domain.skill import SkillContent, SkillId, SkillRepo, SkillRepoId
from corral.operations import actions
from corral.policy import skills as policy
from corral.policy.secret_references import parse_secret_reference
from corral.ports.runtime import IdGenerator
from corral.runs.held_runs import lock_held, require_held
from corral.runs.pool import RunEnding
from corral.runs.service import RunService
from corral.skills.service import require_may_share, require_room
from corral.store import access as access_store
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store import runs as run_store
from corral.store import secrets as secret_store
from corral.store import skills as store
from corral.store.database import Database, Transaction, read_now
from corral.store.runs import NewRun
from corral.store.skills import NewSkill

# A repository of texts is fetched within seconds; one that takes longer is none of texts.
SYNC_WALL_S = 180.0
RUN_SUBJECT_MAX = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRepoServiceDeps:
    """Dependencies of a frontend's service for git repositories of skills."""

    database: Database
    ids: IdGenerator
    runs: RunService
    # Whether a user may name a repository in a private network.
    allows_private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRepoSpec:
    """Definition of a git repository of skills as a person sends it."""

    url: str
    branch: str = ""
    is_shared: bool = False
    # A reference to a secret of the owner, and the user name beside it; empty: the repository is public.
    secret: str = ""
    username: str = ""
    # None: a person starts each sync.
    sync_interval_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOwner:
    """Owner of a sync of a git repository, with the credential whose limits count for its run."""

    owner: Owner
    name: str
    key_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncDelivery:
    """What a worker has found in a git repository of skills: the commit, its skills, and what was left out."""

    commit: str
    skills: Sequence[SkillContent] = ()
    problems: Sequence[str] = ()
    # The branch is still at the commit that is stored.
    is_unchanged: bool = False


class SkillRepoService:
    """Adds, changes, syncs and deletes the git repositories that skills of LLM agents come from.

    Implements `runs.service.RunKindHandler`.
    """

    def __init__(self, deps: SkillRepoServiceDeps) -> None:
        self._deps = deps

    # --- owners ---

    async def list_repos(self, principal: Principal) -> list[SkillRepo]:
        async with self._deps.database.transaction() as tx:
            return await store.list_repos(tx, str(principal.owner))

    async def get(self, principal: Principal, repo_id: str) -> SkillRepo:
        async with self._deps.database.transaction() as tx:
            return await store.get_repo(tx, repo_id, str(principal.owner))

    def parse_spec(self, spec: SkillRepoSpec) -> SkillRepoSpec:
        """Return a definition as it is stored. Raises for the first thing that is wrong about it."""
        address = policy.parse_repo_address(spec.url, allows_private=self._deps.allows_private)
        allows_private = self._deps.allows_private
        secret, username = policy.check_repo_secret(spec.secret, spec.username, address, allows_private=allows_private)
        return SkillRepoSpec(
            url=address.written,
            branch=policy.check_branch(spec.branch),
            is_shared=spec.is_shared,
            secret=secret,
            username=username,
            sync_interval_s=policy.check_sync_interval(spec.sync_interval_s),
        )

    async def add_in(self, tx: Transaction, principal: Principal, spec: SkillRepoSpec) -> SkillRepo:
        """Add a repository inside a larger transaction, and start its first sync."""
        spec, owner = self.parse_spec(spec), principal.owner
        require_may_share(principal, is_shared=spec.is_shared)
        await store.lock_owner(tx, owner)
        await _require_free(tx, principal, spec)
        await _require_secret(tx, owner, spec.secret)
        if await store.count_repos(tx, owner) >= policy.REPOS_OF_OWNER_MAX:
            raise LimitReached(
                f"You have {policy.REPOS_OF_OWNER_MAX} repositories, which is the limit.",
                hint="Delete one: corral skills repos delete ID",
                code="too_many_skill_repos",
            )
        repo_id = SkillRepoId(self._deps.ids.new_id())
        values = {
            "id": repo_id,
            "created_by": principal.name[:255],
            **await _make_values(tx, spec),
        }
        await store.insert_repo(tx, owner, values)
        await _record(tx, principal, "create", repo_id, spec.url)
        return await self._start_sync(tx, _make_sync_owner(principal), await store.get_repo(tx, repo_id, str(owner)))

    async def change(self, principal: Principal, repo_id: str, spec: SkillRepoSpec) -> SkillRepo:
        """Change the definition of a repository. At another place, or with another secret, its skills stay until the
        sync that begins now has replaced them."""
        spec = self.parse_spec(spec)
        async with self._deps.database.transaction() as tx:
            cancelled, repo = await self._lock(tx, principal, repo_id)
            if spec.is_shared and not repo.is_shared:
                require_may_share(principal, is_shared=True)
                await _require_sharable(tx, repo)
            await _require_free(tx, principal, spec, other_than=repo.id)
            await _require_secret(tx, principal.owner, spec.secret)
            is_moved = (spec.url, spec.branch) != (repo.url, repo.branch)
            has_other_secret = (spec.secret, spec.username) != (repo.secret, repo.username)
            values = await _make_values(tx, spec, repo)
            if is_moved:
                values |= {"commit": "", "problem": ""}
            await store.update_repo(tx, repo.id, **values)
            await store.share_repo_skills(tx, repo.id, is_shared=spec.is_shared)
            await _record(tx, principal, "update", repo.id, spec.url)
            changed = await store.get_repo(tx, repo.id, str(principal.owner))
            if (is_moved or has_other_secret or cancelled) and changed.is_enabled:
                changed = await self._start_sync(tx, _make_sync_owner(principal), changed)
        await self._deps.runs.announce_cancelled(cancelled)
        return changed

    async def set_enabled(self, principal: Principal, repo_id: str, *, is_enabled: bool | None = None) -> SkillRepo:
        """Enable or disable a repository; None: the other one. A disabled one has no skills; one that is enabled gets
        them by a sync that begins now."""
        async with self._deps.database.transaction() as tx:
            cancelled, repo = await self._lock(tx, principal, repo_id)
            enables = not repo.is_enabled if is_enabled is None else is_enabled
            if enables != repo.is_enabled:
                await store.update_repo(tx, repo.id, is_enabled=enables, commit="", problem="")
                await store.delete_repo_skills(tx, repo.id)
                await _record(tx, principal, "enable" if enables else "disable", repo.id, repo.url)
                repo = await store.get_repo(tx, repo.id, str(principal.owner))
            if repo.is_enabled and (cancelled or not repo.commit):
                repo = await self._start_sync(tx, _make_sync_owner(principal), repo)
        await self._deps.runs.announce_cancelled(cancelled)
        return repo

    async def delete(self, principal: Principal, repo_id: str) -> None:
        """Delete a repository with its skills."""
        async with self._deps.database.transaction() as tx:
            cancelled, repo = await self._lock(tx, principal, repo_id)
            await store.delete_repo(tx, repo.id)
            await access_store.record_audit(tx, principal.name, "skill_repo.delete", repo.id, repo.url)
            await outbox.append(tx, "skill_repo.deleted", repo.id)
        await self._deps.runs.announce_cancelled(cancelled)

    async def start_sync_in(self, tx: Transaction, principal: Principal, repo_id: str) -> SkillRepo:
        """Start a sync inside a larger transaction. One that has not ended is joined."""
        repo = await self._lock_for_sync(tx, await store.get_repo(tx, repo_id, str(principal.owner)))
        if not repo.is_enabled:
            raise Conflict(
                f"The repository {repo.url} is disabled.",
                hint=f"Enable it: corral skills repos enable {repo.id}",
                code="skill_repo_disabled",
            )
        if repo.run_id and await run_store.is_open(tx, repo.run_id):
            return repo
        return await self._start_sync(tx, _make_sync_owner(principal), repo)

    async def sync_due_in(self, tx: Transaction, repo_id: SkillRepoId) -> bool:
        """Start the sync of a repository that is due by itself, and move its time on. Return whether one was started:
        none while the last one is open, or if the repository is not due any more."""
        found = await store.find_repo(tx, repo_id)
        if found is None:
            return False
        repo = await self._lock_for_sync(tx, found)
        now = await read_now(tx)
        if repo.next_sync_at is None or repo.sync_interval_s is None or not await store.is_repo_due(tx, repo.id):
            return False
        await store.schedule_sync(tx, repo.id, policy.compute_next_sync(repo.next_sync_at, repo.sync_interval_s, now))
        if repo.run_id and await run_store.is_open(tx, repo.run_id):
            return False
        owner = SyncOwner(owner=repo.owner, name=repo.owner_name, key_id=repo.owner.credential_id)
        await self._start_sync(tx, owner, repo)
        return True

    async def _lock_for_sync(self, tx: Transaction, repo: SkillRepo) -> SkillRepo:
        """Keep a repository and its syncs from changing until the transaction ends, and return it as it is then."""
        await _lock_scope(tx, repo.id)
        await store.lock_owner(tx, repo.owner)
        return await store.get_repo(tx, repo.id, str(repo.owner), is_locked=True)

    async def _start_sync(self, tx: Transaction, sync_owner: SyncOwner, repo: SkillRepo) -> SkillRepo:
        new = NewRun(
            kind=RunKind.SKILL_SYNC,
            owner=sync_owner.owner,
            owner_name=sync_owner.name,
            key_id=sync_owner.key_id,
            subject=repo.url[:RUN_SUBJECT_MAX],
            request={"repo_id": repo.id},
            budgets=RunBudgets(wall_s=SYNC_WALL_S, steps=None),
        )
        run_id = await self._deps.runs.admission.start(tx, new, scope=_make_scope(repo.id))
        await store.update_repo(tx, repo.id, run_id=run_id)
        return await store.get_repo(tx, repo.id, str(repo.owner))

    async def _lock(self, tx: Transaction, principal: Principal, repo_id: str) -> tuple[list[RunId], SkillRepo]:
        """Cancel the sync of a repository, then keep the repository from changing. Return the cancelled runs."""
        repo = await store.get_repo(tx, repo_id, str(principal.owner))
        await _lock_scope(tx, repo.id)
        repo = await store.get_repo(tx, repo.id, str(principal.owner))
        is_open = bool(repo.run_id) and await run_store.is_open(tx, repo.run_id)
        is_cancelled = is_open and await actions.cancel_run_in(tx, repo.run_id, principal.name)
        await store.lock_owner(tx, principal.owner)
        locked = await store.get_repo(tx, repo.id, str(principal.owner), is_locked=True)
        return [RunId(repo.run_id)] if is_cancelled else [], locked

    # --- workers ---

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        repo = await _find_repo_of_run(tx, run.id)
        address = policy.parse_repo_address(repo.url, allows_private=self._deps.allows_private)
        return {
            "model": "",
            # The route puts the value in the place of the reference.
            "repo_password": repo.secret,
            "extra": {
                "url": address.fetched,
                "username": repo.username,
                "branch": repo.branch,
                # With a problem the skills are read again: what kept one out may be gone.
                "commit": "" if repo.problem else repo.commit,
                "is_public_only": not self._deps.allows_private,
            },
        }

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        """Record why a sync has failed. One that has completed was recorded with its delivery."""
        repo = await store.find_repo_of_run(tx, ending.run.id)
        if repo is None:
            return
        if ending.state in (RunState.FAILED, RunState.LOST):
            text = ending.fault.text if ending.fault is not None else "The sync has failed."
            await store.update_repo(tx, repo.id, problem=policy.join_problems([text]))
        await outbox.append(tx, "skill_repo.changed", repo.id)

    async def require_held(self, node_id: NodeId, run_id: str, job_id: str) -> None:
        """Raise `Conflict` unless the worker holds this sync, before an archive is read."""
        async with self._deps.database.transaction() as tx:
            run = await run_store.find_run(tx, run_id, reads_request=False)
        require_held(run, node_id, job_id, kind=RunKind.SKILL_SYNC)

    async def store_delivery(self, node_id: NodeId, run_id: str, job_id: str, delivery: SyncDelivery) -> SkillRepo:
        """Store what the worker that holds a sync has found. Repeating it changes nothing."""
        async with self._deps.database.transaction() as tx:
            run = await lock_held(tx, run_id, node_id, job_id, kind=RunKind.SKILL_SYNC)
            await store.lock_owner(tx, parse_owner(run.owner))
            repo = await _find_repo_of_run(tx, run.id)
            if delivery.is_unchanged:
                await store.record_sync(tx, repo.id, delivery.commit, "")
            else:
                await self._replace_skills(tx, repo, delivery)
            await outbox.append(tx, "skill_repo.changed", repo.id)
            return await store.get_repo(tx, repo.id, str(repo.owner))

    async def _replace_skills(self, tx: Transaction, repo: SkillRepo, delivery: SyncDelivery) -> None:
        names = [content.name for content in delivery.skills]
        taken = await store.list_names(tx, repo.owner, names, shared=repo.is_shared, without=repo.id)
        problems = [*delivery.problems]
        problems += [f"{name}: another skill has this name." for name in sorted(taken)]
        kept = [content for content in delivery.skills if content.name not in taken]
        await store.delete_repo_skills(tx, repo.id)
        await require_room(tx, repo.owner, kept)
        rows = [
            NewSkill(
                id=SkillId(self._deps.ids.new_id()),
                owner=repo.owner,
                content=content,
                created_by=repo.created_by,
                is_shared=repo.is_shared,
                repo_id=repo.id,
                commit=delivery.commit,
            )
            for content in kept
        ]
        await store.insert_skills(tx, rows)
        await store.record_sync(tx, repo.id, delivery.commit, policy.join_problems(problems))


def _make_sync_owner(principal: Principal) -> SyncOwner:
    return SyncOwner(owner=principal.owner, name=principal.name, key_id=principal.key_id)


async def _make_values(tx: Transaction, spec: SkillRepoSpec, repo: SkillRepo | None = None) -> dict[str, Any]:
    """Return a definition as columns. The time of the next sync stays where the interval does."""
    values: dict[str, Any] = {
        "url": spec.url,
        "branch": spec.branch,
        "is_shared": spec.is_shared,
        "secret": spec.secret,
        "username": spec.username,
        "sync_interval_s": spec.sync_interval_s,
    }
    if repo is None or repo.sync_interval_s != spec.sync_interval_s:
        seconds = spec.sync_interval_s
        now = await read_now(tx)
        values["next_sync_at"] = None if seconds is None else policy.compute_next_sync(now, seconds, now)
    return values


async def _require_secret(tx: Transaction, owner: Owner, reference: str) -> None:
    """Raise `InvalidRequest` if an owner does not have the secret that a repository names."""
    if not reference:
        return
    name = parse_secret_reference(reference).name
    if not await secret_store.list_sealed(tx, owner, [name]):
        raise policy.make_error(
            f"You have no secret {name}.", f"Store it: corral secrets set {name}", code="secret_not_found"
        )


def _make_scope(repo_id: SkillRepoId) -> str:
    """Return the scope of the syncs of a repository, which follow one another."""
    return f"skills:{repo_id}"


async def _lock_scope(tx: Transaction, repo_id: SkillRepoId) -> None:
    """Make syncs of a repository and its changes wait for each other, before any row is locked."""
    await operation_store.lock_scope(tx, f"run:{_make_scope(repo_id)}")


async def _find_repo_of_run(tx: Transaction, run_id: RunId) -> SkillRepo:
    """Return the repository that a sync is for, locked. `NotFound` if the sync has nothing to bring any more."""
    repo = await store.find_repo_of_run(tx, run_id)
    if repo is None or not repo.is_enabled:
        raise NotFound("The repository of this sync was changed, disabled or deleted.", code="skill_repo_not_found")
    return repo


async def _require_free(
    tx: Transaction, principal: Principal, spec: SkillRepoSpec, *, other_than: SkillRepoId | None = None
) -> None:
    if await store.has_repo(tx, principal.owner, spec.url, spec.branch, other_than=other_than):
        raise Conflict(
            "You have this repository with this branch already.",
            hint="`corral skills repos list` shows it; sync it again, or name another branch.",
            code="skill_repo_exists",
        )


async def _require_sharable(tx: Transaction, repo: SkillRepo) -> None:
    names = await store.list_repo_skill_names(tx, repo.id)
    taken = await store.list_names(tx, repo.owner, names, shared=True, without=repo.id)
    if taken:
        raise store.make_shared_name_taken_error(min(taken))


async def _record(tx: Transaction, principal: Principal, action: str, repo_id: SkillRepoId, url: str) -> None:
    await access_store.record_audit(tx, principal.name, f"skill_repo.{action}", repo_id, url)
    await outbox.append(tx, "skill_repo.changed", repo_id)
