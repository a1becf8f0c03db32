"""Tasks of a fleet file. They belong to the caller who applies it, and pruning deletes tasks of the caller only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corral.domain.access import Principal
from corral.domain.task import Task, TaskSpec
from corral.models.fleet import FleetAction, FleetChange, FleetItem, FleetPartResult, make_change, name_entry
from corral.store import tasks as store
from corral.store.database import Transaction
from corral.tasks.service import TaskService

TASK = "task"


class TaskFleetPart:
    """Applies the users' tasks of a fleet file in the name of its caller. Implements `models.fleet.FleetPart`."""

    def __init__(
        self,
        service: TaskService,
        caller: Principal,
        desired: Sequence[TaskSpec],
        render: Callable[[TaskSpec], Mapping[str, Any]],
    ) -> None:
        """`render` returns a task as it is written in a file."""
        self._service = service
        self._caller = caller
        self._desired = desired
        self._render = render

    async def apply_in(self, tx: Transaction, previous: set[FleetItem], *, prunes: bool) -> FleetPartResult:
        own = f"{self._caller.owner}/"
        listed = {(TASK, f"{own}{spec.name.strip()}") for spec in self._desired}
        removed = {item for item in previous - listed if prunes and item[0] == TASK and item[1].startswith(own)}
        known = {task.spec.name: task for task in await store.list_tasks(tx, str(self._caller.owner))}
        steps = []
        for _, key in sorted(removed):
            name = key.removeprefix(own)
            if name in known:
                await self._service.delete_in(tx, known[name].id, str(self._caller.owner), self._caller)
                steps.append(FleetChange(kind=TASK, name=name, action=FleetAction.REMOVE))
        for spec in sorted(self._desired, key=lambda one: one.name):
            with name_entry("tasks", spec.name):
                normal = self._service.normalise(spec)
                steps.append(await self._apply_task(tx, normal, known.get(normal.name)))
        return FleetPartResult(steps=steps, listed=listed, removed=removed)

    async def finish(self) -> None:
        """Do nothing: the scheduler reads tasks from the registry."""

    async def _apply_task(self, tx: Transaction, spec: TaskSpec, known: Task | None) -> FleetChange:
        before = None if known is None else self._render(known.spec)
        change = make_change(TASK, spec.name, before, self._render(spec))
        if known is None:
            await self._service.create(tx, self._caller, spec)
        elif change.action is FleetAction.CHANGE:
            await self._service.edit_in(tx, known.id, str(self._caller.owner), self._caller, spec)
        return change
