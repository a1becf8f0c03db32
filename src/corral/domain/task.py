"""A task: a named template of a prompt, bound to a model, which people, programs and cron patterns execute.

Each execution is a run of kind `task`; users call it a job. A run keeps what it was made of, so that editing or
deleting its task changes nothing in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from corral.domain.access import Owner
from corral.domain.agent import RemoteMcpServer
from corral.domain.run import Run, RunState

TaskId = NewType("TaskId", str)


class TaskOverlap(StrEnum):
    """Names what a due cron time of a task does while an earlier job of that task is still open."""

    SKIP = "skip"  # nothing is started
    QUEUE = "queue"  # the new run waits behind the earlier one
    REPLACE = "replace"  # the earlier one is cancelled


class TaskCatchUp(StrEnum):
    """Names what happens with cron times of a task that passed while no frontend ran."""

    NONE = "none"
    ONCE = "once"  # all of them together become one run


class MediaKind(StrEnum):
    """Names the kind of an attachment of a task's job: image, video, audio or file."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWebhook:
    """Describes an HTTP request that a frontend sends when a job of a task ends. Headers may refer to secrets."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    # The body as a template; empty: JSON with the job and its result.
    payload_template: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSource:
    """Describes an address from which an attachment is fetched for each job of a task.

    Values of headers may refer to secrets.
    """

    kind: MediaKind
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """Holds one attachment of a task's job, such as an image, with its bytes."""

    kind: MediaKind
    # Such as `image/png`.
    content_type: str
    name: str = ""
    # Where it was fetched from, without the query, which may hold a secret; empty: it came with the request.
    address: str = ""
    content: bytes = field(repr=False)


# How long a job may take if neither its task nor the settings say.
TASK_WALL_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBudgets:
    """Limits each job of a task. None: the default of the frontends, or no limit."""

    wall_s: float | None = None
    steps: int | None = 3
    tool_calls: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """Holds the definition of a user's task as written: prompt template, model, cron pattern and webhooks."""

    name: str
    model: str
    prompt: str
    description: str = ""
    is_enabled: bool = True
    # Empty: the task runs only on request.
    cron: str = ""
    time_zone: str = "UTC"
    cron_parameters: Mapping[str, Any] = field(default_factory=dict)
    overlap: TaskOverlap = TaskOverlap.SKIP
    catch_up: TaskCatchUp = TaskCatchUp.NONE
    webhooks: Sequence[TaskWebhook] = ()
    # A reference to the secret that webhooks are signed with; empty: the task's own key.
    webhook_secret: str = ""
    media_sources: Sequence[MediaSource] = ()
    # Labels that the node of a run must have.
    labels: Mapping[str, str] = field(default_factory=dict)
    mcp_servers: Sequence[RemoteMcpServer] = ()
    # Names of MCP servers that an admin has declared.
    declared_servers: Sequence[str] = ()
    # Whether jobs use the MCP servers of the model beside these.
    uses_model_servers: bool = True
    budgets: TaskBudgets = field(default_factory=TaskBudgets)
    # How often the model may replace an answer that cannot be used.
    max_attempts: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Describes a user's task (a prompt template that runs on demand or by cron) as stored in PostgreSQL."""

    id: TaskId
    owner: Owner
    spec: TaskSpec
    # The key or session that saved the task last: runs that cron starts count for it.
    key_id: str
    revision: int
    next_run_at: datetime | None
    last_run_at: datetime | None
    # Why the last cron time started nothing; empty if it did.
    cron_note: str
    created_at: datetime
    created_by: str
    updated_at: datetime
    # When a cron time that is due and could not be started is tried again.
    next_look_at: datetime | None = None

    @property
    def is_deferred(self) -> bool:
        """Return whether the start of the cron time that is due has failed before. A look for an earlier time does not
        count."""
        if self.next_look_at is None or self.next_run_at is None:
            return False
        return self.next_look_at > self.next_run_at


class WebhookState(StrEnum):
    """Names whether a webhook of a task's job is still to be delivered, was delivered, or has failed."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """Describes the delivery of one webhook for one job of a task: its state and attempts."""

    id: str
    position: int
    url: str
    state: WebhookState
    attempts: int
    last_status: int | None
    last_error: str
    delivered_at: datetime | None


class TaskRunStatus(StrEnum):
    """Names the state of a task's job in the words of LocalAI."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self not in (TaskRunStatus.PENDING, TaskRunStatus.RUNNING)

    def list_run_states(self) -> frozenset[RunState]:
        """Return the states of runs that this status stands for."""
        return frozenset(state for state, status in _STATUSES.items() if status is self)


_STATUSES = {
    RunState.QUEUED: TaskRunStatus.PENDING,
    RunState.LEASED: TaskRunStatus.PENDING,
    RunState.RUNNING: TaskRunStatus.RUNNING,
    RunState.WAITING_APPROVAL: TaskRunStatus.RUNNING,
    RunState.COMPLETED: TaskRunStatus.COMPLETED,
    RunState.FAILED: TaskRunStatus.FAILED,
    RunState.LOST: TaskRunStatus.FAILED,
    RunState.CANCELLED: TaskRunStatus.CANCELLED,
}


def to_task_run_status(state: RunState) -> TaskRunStatus:
    return _STATUSES[state]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One job of a task: the run that executes the task, with the deliveries of its webhooks."""

    run: Run
    deliveries: Sequence[WebhookDelivery] = ()

    @property
    def status(self) -> TaskRunStatus:
        return to_task_run_status(self.run.state)
