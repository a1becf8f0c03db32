"""Tasks as routes and loops use them: create, edit, delete and execute them, and read their runs.

Guarantees: a task and its event are written together; of two tasks of one owner with the same name only one exists. An
execution is checked, and its attachments are fetched, before anything is stored; then the run, its attachments and the
deliveries of its webhooks are written in one transaction. A run keeps its own copy of what it was made of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from corral.domain.access import Owner, Principal, can_use_model
from corral.domain.agent import RemoteMcpServer
from corral.domain.errors import Conflict, LimitReached, NotFound
from corral.domain.model import Model
from corral.domain.run import Run, RunId, RunKind, RunTrigger
from corral.domain.task import Media, MediaKind, Task, TaskId, TaskRun, TaskSpec
from corral.models.model_servers import ModelServerSelection, select_model_servers
from corral.policy import tasks as policy
from corral.policy.agents import make_declared_spec, make_remote_spec, make_session_key
from corral.policy.revisions import check_revision
from corral.policy.templates import render_template
from corral.ports.runtime import IdGenerator
from corral.runs.pool import RunEnding
from corral.runs.service import RunService
from corral.store import access as access_store
from corral.store import agents as agent_store
from corral.store import models as model_store
from corral.store import outbox
from corral.store import runs as run_store
from corral.store import tasks as store
from corral.store import webhooks as webhook_store
from corral.store.database import Database, Transaction
from corral.store.runs import NewRun, RunFilter
from corral.store.tasks import NewTask
from corral.store.webhooks import NewDelivery
from corral.tasks.media import MediaFetcher

# A person manages tasks by hand; more are a script out of control.
TASKS_OF_OWNER_MAX = 500
# Executions that are written at the same time on one frontend. The others wait here and not for a connection to the
# database, which would be refused after some seconds.
ADMISSIONS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskServiceDeps:
    """Dependencies of a frontend's service for users' tasks."""

    database: Database
    ids: IdGenerator
    runs: RunService
    media: MediaFetcher
    # How long a run may take if its task does not say.
    default_wall_s: float
    # Whether MCP servers may be in private networks; those that an admin has declared always may.
    allows_private_addresses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRequest:
    """A request to execute a user's task: parameters of the prompt, and attachments as texts."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    media: Mapping[MediaKind, Sequence[str]] = field(default_factory=dict)
    trigger: RunTrigger = RunTrigger.API


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedExecution:
    """A checked request to execute a user's task, with its attachments, ready to be admitted as a run."""

    task: Task
    request: ExecutionRequest
    media: Sequence[Media]
    owner_name: str
    key_id: str
    # Runs with the same scope wait for each other; empty: this one waits for no other.
    scope: str = ""
    # The model of the task, if it was read with it.
    model: Model | None = None


class TaskService:
    """Creates, edits, deletes and executes users' tasks, and reads their jobs.

    Implements `runs.service.RunKindHandler`.
    """

    def __init__(self, deps: TaskServiceDeps) -> None:
        self._deps = deps
        self.admissions = asyncio.Semaphore(ADMISSIONS_MAX)

    # --- tasks ---

    async def list_tasks(self, owner: str | None) -> list[Task]:
        async with self._deps.database.transaction() as tx:
            return await store.list_tasks(tx, owner)

    async def get(self, reference: str, owner: str | None) -> Task:
        """Return a task by id or name; with an owner, only if it is theirs."""
        async with self._deps.database.transaction() as tx:
            return await store.get_task(tx, reference, owner)

    async def create(self, tx: Transaction, caller: Principal, spec: TaskSpec) -> Task:
        """Create a task. It runs first at the next time of its pattern, never at its creation."""
        spec = self.normalise(spec)
        await _require_model(tx, caller, spec.model)
        await _list_servers(tx, spec.mcp_servers, spec.declared_servers)
        await store.lock_owner(tx, caller.owner)
        if await store.count_tasks(tx, caller.owner) >= TASKS_OF_OWNER_MAX:
            raise LimitReached(f"You have {TASKS_OF_OWNER_MAX} tasks, which is the limit.", code="too_many_tasks")
        await _require_free_name(tx, caller.owner, spec.name)
        task = await store.insert_task(
            tx,
            NewTask(
                id=TaskId(self._deps.ids.new_id()),
                owner=caller.owner,
                spec=spec,
                key_id=caller.key_id,
                next_run_at=policy.compute_next_run(spec, await store.read_now(tx)),
                created_by=caller.name,
            ),
        )
        await access_store.record_audit(tx, caller.name, "task.create", task.id, spec.name)
        await outbox.append(tx, "task.created", task.id)
        return task

    async def edit(
        self, reference: str, owner: str | None, caller: Principal, spec: TaskSpec, *, expects: int | None = None
    ) -> Task:
        """Replace the definition of a task; its id and its jobs stay. Its next time is computed again. `expects` is the
        revision that the author has read."""
        async with self._deps.database.transaction() as tx:
            return await self.edit_in(tx, reference, owner, caller, spec, expects=expects)

    async def edit_in(
        self,
        tx: Transaction,
        reference: str,
        owner: str | None,
        caller: Principal,
        spec: TaskSpec,
        *,
        expects: int | None = None,
    ) -> Task:
        """Replace the definition of a task inside a larger transaction."""
        spec = self.normalise(spec)
        task = await store.get_task(tx, reference, owner, is_locked=True)
        check_revision(task.spec.name, task.revision, expects)
        await _require_model(tx, caller, spec.model)
        await _list_servers(tx, spec.mcp_servers, spec.declared_servers)
        return await self._write(tx, task, spec, caller)

    def normalise(self, spec: TaskSpec) -> TaskSpec:
        """Return a task as it is stored. Raises for the first thing that is wrong about it."""
        return policy.normalise_spec(spec, allows_private=self._deps.allows_private_addresses)

    async def set_enabled(self, reference: str, owner: str | None, caller: Principal, *, is_enabled: bool) -> Task:
        """Enable or disable a task: a disabled one does not run, neither by itself nor on request."""
        async with self._deps.database.transaction() as tx:
            task = await store.get_task(tx, reference, owner, is_locked=True)
            if task.spec.is_enabled == is_enabled:
                return task
            return await self._write(tx, task, replace(task.spec, is_enabled=is_enabled), caller)

    async def _write(self, tx: Transaction, task: Task, spec: TaskSpec, caller: Principal) -> Task:
        await store.lock_owner(tx, task.owner)
        await _require_free_name(tx, task.owner, spec.name, other_than=task.id)
        # An admin who edits the task of another user does not lend it their own rights.
        key_id = caller.key_id if caller.owner == task.owner else task.key_id
        next_run_at = policy.compute_next_run(spec, await store.read_now(tx))
        written = await store.update_task(tx, task.id, spec, key_id=key_id, next_run_at=next_run_at)
        await access_store.record_audit(tx, caller.name, "task.change", task.id, spec.name)
        await outbox.append(tx, "task.changed", task.id)
        return written

    async def delete(self, reference: str, owner: str | None, caller: Principal) -> None:
        """Delete a task. Runs that it has started go on, and stay readable."""
        async with self._deps.database.transaction() as tx:
            await self.delete_in(tx, reference, owner, caller)

    async def delete_in(self, tx: Transaction, reference: str, owner: str | None, caller: Principal) -> None:
        """Delete a task inside a larger transaction."""
        task = await store.get_task(tx, reference, owner, is_locked=True)
        await store.delete_task(tx, task.id)
        await access_store.record_audit(tx, caller.name, "task.delete", task.id, task.spec.name)
        await outbox.append(tx, "task.deleted", task.id)

    # --- executions ---

    async def prepare(self, reference: str, caller: Principal, request: ExecutionRequest) -> PreparedExecution:
        """Check an execution and fetch its attachments. Nothing is stored."""
        async with self._deps.database.transaction() as tx:
            task = await store.get_task(tx, reference, str(caller.owner))
            model = await _require_model(tx, caller, task.spec.model)
        if not task.spec.is_enabled:
            raise Conflict(
                f"The task {task.spec.name} is disabled.",
                hint=f"Enable it: corral tasks enable {task.spec.name}",
                code="task_disabled",
            )
        prepared = await self.prepare_for(task, request, owner_name=caller.name, key_id=caller.key_id)
        return replace(prepared, model=model)

    async def prepare_for(
        self, task: Task, request: ExecutionRequest, *, owner_name: str, key_id: str
    ) -> PreparedExecution:
        """Check an execution of a task that was read before, and fetch its attachments."""
        policy.check_parameters(request.parameters)
        render_template(task.spec.prompt, request.parameters)
        media = await self._deps.media.fetch(task.owner, request.media, task.spec.media_sources)
        return PreparedExecution(task=task, request=request, media=media, owner_name=owner_name, key_id=key_id)

    async def admit(self, tx: Transaction, prepared: PreparedExecution) -> RunId:
        """Write a run with its attachments and the deliveries of its webhooks, and return its id."""
        task, spec = prepared.task, prepared.task.spec
        if not await store.hold_task(tx, task.id):
            raise NotFound(f"There is no task {spec.name!r} any more.", code="task_not_found")
        request = _make_request(prepared)
        selection = await self._select_servers(tx, str(task.owner), request, prepared.model)
        new = NewRun(
            kind=RunKind.TASK,
            owner=task.owner,
            owner_name=prepared.owner_name,
            key_id=prepared.key_id,
            subject=spec.name,
            trigger=prepared.request.trigger,
            request=request,
            budgets=policy.make_budgets(spec.budgets, self._deps.default_wall_s),
            selector=spec.labels,
            session_key=selection.session_key,
            task_id=task.id,
        )
        run_id = await self._deps.runs.admission.start(tx, new, scope=prepared.scope)
        await store.insert_media(tx, run_id, prepared.media)
        deliveries = [
            NewDelivery(id=self._deps.ids.new_id(), position=position, url=policy.redact_address(webhook.url))
            for position, webhook in enumerate(spec.webhooks)
        ]
        await webhook_store.insert_deliveries(tx, run_id, deliveries)
        return run_id

    # --- runs ---

    async def get_run(self, run_id: str, owner: str | None) -> TaskRun:
        """Return one run of a task; with an owner, only if it is theirs."""
        found = await self.find_run(run_id, owner)
        if found is None:
            raise NotFound(
                f"There is no job {run_id[:80]!r}.", hint="`corral jobs list` shows your jobs.", code="job_not_found"
            )
        return found

    async def find_run(self, run_id: str, owner: str | None = None) -> TaskRun | None:
        async with self._deps.database.transaction() as tx:
            run = await run_store.find_run(tx, run_id, owner=owner)
            if run is None or run.kind is not RunKind.TASK:
                return None
            deliveries = await webhook_store.list_deliveries(tx, [run.id])
        return TaskRun(run=run, deliveries=deliveries.get(run.id, ()))

    async def list_runs(self, matching: RunFilter, limit: int) -> list[TaskRun]:
        """Return runs of tasks, newest first."""
        async with self._deps.database.transaction() as tx:
            found = await run_store.list_runs(tx, replace(matching, kind=RunKind.TASK), limit)
            deliveries = await webhook_store.list_deliveries(tx, [run.id for run in found])
        return [TaskRun(run=run, deliveries=deliveries.get(run.id, ())) for run in found]

    # --- what workers get ---

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        request = run.request
        prompt = render_template(str(request["prompt"]), request["parameters"])
        selection = await self._select_servers(tx, run.owner, request)
        return {
            "model": request["model"],
            "messages": [policy.make_message(prompt, await store.list_media(tx, run.id))],
            "mcp_servers": selection.servers,
            # The prompt is all that there is: a summary of it would be another task.
            "options": {"max_attempts": request["max_attempts"], "compaction_tokens": 0},
            # Computed again: an admin may have changed a server since the run was requested.
            "session_key": selection.session_key,
        }

    async def _select_servers(
        self, tx: Transaction, owner: str, request: Mapping[str, Any], model: Model | None = None
    ) -> ModelServerSelection:
        """Return the MCP servers of a run: those of its task, and those of its model that have another name. The model
        is read unless it is known."""
        remote = [RemoteMcpServer(**server) for server in request["mcp_servers"]]
        own = await _list_servers(
            tx, remote, request["declared_servers"], allows_private=self._deps.allows_private_addresses
        )
        # Runs of earlier versions have servers of their own only. Without its model a run fails at its first step.
        if not request.get("uses_model_servers"):
            model = None
        elif model is None:
            model = await model_store.find_model(tx, request["model"])
        if model is not None and not own:
            return await select_model_servers(tx, model.config, owner)
        if model is not None:
            names = {server["name"] for server in own}
            of_model = (await select_model_servers(tx, model.config, owner)).servers
            own += [server for server in of_model if server["name"] not in names]
        return ModelServerSelection(servers=own, session_key=make_session_key(owner, own))

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        """Do nothing: webhooks become due when their run has ended, however it has."""
        del tx, ending


async def _require_model(tx: Transaction, caller: Principal, name: str) -> Model:
    model = await model_store.find_model(tx, name)
    if model is None or not can_use_model(caller, model.name, model.config.aliases):
        raise await model_store.make_unknown_error(tx, name, caller)
    return model


async def _list_servers(
    tx: Transaction, remote: Sequence[RemoteMcpServer], declared: Sequence[str], *, allows_private: bool = False
) -> list[dict[str, Any]]:
    """Return MCP servers in the form for workers, with references in place of secrets. Raises if one of them is not
    declared any more."""
    found = {server.name: server for server in await agent_store.list_servers(tx, declared)} if declared else {}
    missing = [name for name in declared if name not in found]
    if missing:
        raise NotFound(
            f"There is no declared MCP server {missing[0][:80]!r}.",
            hint="`corral mcp servers list` shows them.",
            code="mcp_server_not_found",
        )
    return [make_remote_spec(server, allows_private=allows_private) for server in remote] + [
        make_declared_spec(found[name]) for name in declared
    ]


async def _require_free_name(tx: Transaction, owner: Owner, name: str, *, other_than: TaskId | None = None) -> None:
    if await store.has_name(tx, owner, name, other_than=other_than):
        raise Conflict(f"There is a task {name!r} already.", hint="Choose another name.", code="task_exists")


def _make_request(prepared: PreparedExecution) -> dict[str, Any]:
    """Return the request of a run. Secrets are references in it."""
    spec = prepared.task.spec
    return {
        "task_id": prepared.task.id,
        "model": spec.model,
        "prompt": spec.prompt,
        "parameters": dict(prepared.request.parameters),
        "media": [
            {
                "kind": str(one.kind),
                "type": one.content_type,
                "name": one.name,
                "address": one.address,
                "size_bytes": len(one.content),
            }
            for one in prepared.media
        ],
        "webhooks": [asdict(webhook) for webhook in spec.webhooks],
        "webhook_secret": spec.webhook_secret,
        "mcp_servers": [asdict(server) for server in spec.mcp_servers],
        "declared_servers": list(spec.declared_servers),
        "uses_model_servers": spec.uses_model_servers,
        "max_attempts": spec.max_attempts,
    }
