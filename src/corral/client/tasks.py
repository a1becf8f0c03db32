"""Calls about tasks and jobs: manage tasks, execute them, and read, follow, cancel and delete their jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

from corral.client.runs import RunCalls
from corral.client.transport import ApiRequest, ApiTransport, make_owner_parameters, make_revision_headers
from corral.wire.runs import RunEventOut
from corral.wire.tasks import (
    JobCreatedOut,
    JobIn,
    JobOut,
    SchedulePreviewOut,
    TaskCreatedOut,
    TaskOut,
    WebhookSecretOut,
)

# Aliases, because inside a class with a method `list` that name means the method.
Tasks = list[TaskOut]
Jobs = list[JobOut]


class TaskCalls:
    """Client-side calls of the HTTP API about users' tasks. A task is named by its id or its name."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self, *, all_users: bool = False) -> Tasks:
        call = ApiRequest(method="GET", path="/api/agent/tasks", parameters=make_owner_parameters(all_users=all_users))
        return await self._transport.fetch(call, Tasks)

    async def get(self, task: str) -> TaskOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=_format_path("tasks", task)), TaskOut)

    async def create(self, body: Mapping[str, Any]) -> TaskCreatedOut:
        call = ApiRequest(method="POST", path="/api/agent/tasks", body=body, creates=True)
        return await self._transport.fetch(call, TaskCreatedOut)

    async def edit(self, task: str, body: Mapping[str, Any], *, revision: int | None = None) -> TaskOut:
        """Replace the definition of a task. `revision` is the one that was read: a newer one is a conflict."""
        headers = make_revision_headers(revision)
        call = ApiRequest(method="PUT", path=_format_path("tasks", task), body=body, headers=headers)
        return await self._transport.fetch(call, TaskOut)

    async def set_enabled(self, task: str, *, is_enabled: bool) -> TaskOut:
        verb = "enable" if is_enabled else "disable"
        return await self._transport.fetch(ApiRequest(method="POST", path=_format_path("tasks", task, verb)), TaskOut)

    async def delete(self, task: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=_format_path("tasks", task)))

    async def show_webhook_secret(self, task: str) -> str:
        """Return the secret that receivers check the signatures of a task's webhooks with."""
        call = ApiRequest(method="GET", path=_format_path("tasks", task, "webhook-secret"))
        return (await self._transport.fetch(call, WebhookSecretOut)).secret

    async def execute(self, body: JobIn) -> JobCreatedOut:
        call = ApiRequest(method="POST", path="/api/agent/jobs/execute", body=body, creates=True)
        return await self._transport.fetch(call, JobCreatedOut)

    async def preview_schedule(self, cron: str, time_zone: str) -> SchedulePreviewOut:
        """Return what a cron pattern means, and its next times."""
        parameters = {"cron": cron, "time_zone": time_zone}
        call = ApiRequest(method="GET", path="/api/agent/schedule", parameters=parameters)
        return await self._transport.fetch(call, SchedulePreviewOut)


class JobCalls:
    """Client-side calls of the HTTP API about jobs, the executions of users' tasks."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self, *, task: str = "", status: str = "", limit: int = 50, all_users: bool = False) -> Jobs:
        given = {"task_id": task, "status": status, "limit": str(limit)}
        parameters = {name: value for name, value in given.items() if value} | make_owner_parameters(
            all_users=all_users
        )
        call = ApiRequest(method="GET", path="/api/agent/jobs", parameters=parameters)
        return await self._transport.fetch(call, Jobs)

    async def get(self, job_id: str, *, all_users: bool = False) -> JobOut:
        path, parameters = _format_path("jobs", job_id), make_owner_parameters(all_users=all_users)
        return await self._transport.fetch(ApiRequest(method="GET", path=path, parameters=parameters), JobOut)

    async def cancel(self, job_id: str, *, all_users: bool = False) -> JobOut:
        path, parameters = _format_path("jobs", job_id, "cancel"), make_owner_parameters(all_users=all_users)
        return await self._transport.fetch(ApiRequest(method="POST", path=path, parameters=parameters), JobOut)

    async def delete(self, job_id: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=_format_path("jobs", job_id)))

    def follow(self, job_id: str, *, all_users: bool = False) -> AsyncGenerator[RunEventOut, None]:
        """Yield the entries of a job's trace until its end, over restarts of frontends. A job is a run."""
        return RunCalls(self._transport).follow(job_id, all_users=all_users)


def _format_path(*parts: str) -> str:
    return "/".join(["/api/agent", *(quote(part, safe="") for part in parts)])
