"""Bodies about tasks and jobs. Names of fields are those of LocalAI where it has them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from corral.domain.task import MediaKind, TaskCatchUp, TaskOverlap, TaskRunStatus
from corral.wire.agents import McpServerIn
from corral.wire.base import LenientModel, StrictModel
from corral.wire.localai import TASK_FIELDS_WITHOUT_EFFECT, LocalAiBody

# Limits of what is read at all; the flows have tighter ones, with better sentences.
_TEXT_MAX = 100_000
_Text = Annotated[str, StringConstraints(max_length=_TEXT_MAX)]
_Short = Annotated[str, StringConstraints(max_length=4000)]
_Headers = dict[str, _Short]
# Shown with a task, and ignored when it is sent back.
_READ_ONLY = frozenset(
    {
        "id",
        "owner",
        "user_id",
        "revision",
        "next_run_at",
        "last_run_at",
        "cron_words",
        "cron_note",
        "parameters",
        "created_at",
    }
    | {"created_by", "updated_at", "warnings"}
)


class TaskWebhookBody(StrictModel):
    """One webhook of a task: the HTTP request that a frontend sends when a job of the task has ended."""

    url: _Short = Field(description="http:// or https://, or a reference to a secret that holds it.")
    method: Annotated[str, StringConstraints(max_length=8)] = Field(default="POST", description="POST, PUT or PATCH.")
    headers: _Headers = Field(
        default_factory=dict, description="Values may refer to secrets: `Bearer secret:NAME`.", repr=False
    )
    payload_template: _Text = Field(
        default="",
        description="The body as a template with job, task, status, result, error, parameters; empty: JSON with them.",
    )


class MediaSourceBody(StrictModel):
    """An address in a task, from which a frontend fetches an attachment for each job of the task."""

    type: MediaKind
    url: _Short
    headers: _Headers = Field(
        default_factory=dict, description="Values may refer to secrets: `Bearer secret:NAME`.", repr=False
    )


class TaskBudgetsBody(StrictModel):
    """Limits of each job (one execution) of a task, such as tokens and seconds."""

    wall_s: float | None = Field(default=None, gt=0, le=86400, description="Absent: `run_timeout_s` of the frontends.")
    steps: int | None = Field(default=3, ge=1, le=1000, description="Calls of the model.")
    tool_calls: int | None = Field(default=None, ge=0, le=10_000)
    tokens: int | None = Field(default=None, ge=1)


class TaskEntry(StrictModel):
    """A task as fleet files hold it: a prompt template of a user that runs on demand or by cron."""

    name: _Short = Field(description="Unique among your tasks.")
    description: _Text = ""
    model: _Short = Field(description="Name or alias of a model.")
    prompt: _Text = Field(description="A template: {{ name }} is replaced by the parameter of that name.")
    enabled: bool = Field(default=True, description="A disabled task does not run, neither by cron nor on request.")
    cron: _Short = Field(default="", description="Five fields, or @hourly, @daily, …; empty: only on request.")
    time_zone: _Short = Field(default="UTC", description="IANA name of the zone that the pattern is meant in.")
    cron_parameters: dict[str, Any] = Field(default_factory=dict, description="Parameters of jobs that cron starts.")
    overlap: TaskOverlap = Field(
        default=TaskOverlap.SKIP, description="What a cron time does while an earlier cron job is open."
    )
    catch_up: TaskCatchUp = Field(
        default=TaskCatchUp.NONE, description="What happens to cron times that passed while no frontend ran."
    )
    webhooks: list[TaskWebhookBody] = Field(default_factory=list, max_length=100)
    webhook_secret: _Short = Field(
        default="", description="Reference to the secret that webhooks are signed with; empty: the task's own key."
    )
    multimedia_sources: list[MediaSourceBody] = Field(default_factory=list, max_length=100)
    labels: dict[str, _Short] = Field(default_factory=dict, description="Labels that the node of a job must have.")
    mcp_servers: list[McpServerIn] = Field(
        default_factory=list,
        max_length=50,
        description="MCP servers at addresses, whose tools jobs may use beside those of their model. An empty list in "
        "the body: not those of the model.",
    )
    mcp_stdio_servers: list[Annotated[str, StringConstraints(max_length=100)]] = Field(
        default_factory=list,
        max_length=50,
        description="Names of MCP servers that an admin has declared. An empty list: as above.",
    )
    budgets: TaskBudgetsBody = Field(default_factory=TaskBudgetsBody)
    max_attempts: int = Field(
        default=3, ge=1, le=10, description="How often the model may replace an answer that cannot be used."
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_read_only(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {name: item for name, item in value.items() if name not in _READ_ONLY}


class TaskIn(TaskEntry, LocalAiBody):
    """Body that creates or replaces a task, a prompt template of a user that runs on demand or by cron.

    The body of a `GET` is accepted, too. Fields of LocalAI that have no effect here are left out, and named in the
    warnings of the response.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "weather",
                    "model": "llama",
                    "prompt": "What should I wear in {{ city }} today?",
                    "cron": "0 9 * * *",
                    "time_zone": "Europe/Rome",
                    "cron_parameters": {"city": "Rome"},
                }
            ]
        }
    )
    fields_without_effect = TASK_FIELDS_WITHOUT_EFFECT


class TaskOut(LenientModel):
    """A task in responses: a user's named prompt template, bound to a model, with its cron pattern and webhooks."""

    id: str
    name: str
    description: str = ""
    model: str
    prompt: str
    parameters: list[str] = Field(
        default_factory=list, description="Names that the prompt uses; only for a single task."
    )
    enabled: bool
    cron: str = ""
    cron_words: str = Field(default="", description="The pattern in words: `every day at 09:00`.")
    time_zone: str = "UTC"
    cron_parameters: dict[str, Any] = Field(default_factory=dict)
    cron_note: str = Field(default="", description="Why the last cron time started nothing; empty if it did.")
    overlap: str
    catch_up: str
    webhooks: list[TaskWebhookBody] = Field(default_factory=list)
    webhook_secret: str = ""
    multimedia_sources: list[MediaSourceBody] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    mcp_servers: list[McpServerIn] = Field(default_factory=list)
    mcp_stdio_servers: list[str] = Field(default_factory=list)
    budgets: TaskBudgetsBody
    max_attempts: int
    revision: int
    next_run_at: datetime | None = Field(default=None, description="When cron starts it next; absent: never.")
    last_run_at: datetime | None = Field(default=None, description="The last cron time that became a job.")
    created_at: datetime
    created_by: str
    updated_at: datetime
    warnings: list[str] = Field(default_factory=list, description="After a change only: which fields were ignored.")


class SchedulePreviewOut(LenientModel):
    """Response that explains the cron pattern of a task: in words, and with its next times."""

    cron: str = Field(description="The pattern as it is stored: descriptors such as @daily are written out.")
    time_zone: str
    words: str = Field(description="The pattern in words, `every day at 09:00`; the pattern itself if that is shorter.")
    next_runs: list[datetime] = Field(description="Its next times on the clock of its zone, the earliest first.")


class TaskCreatedOut(LenientModel):
    """Response of `POST /api/agent/tasks`: the id of the task that was created."""

    id: str
    warnings: list[str] = Field(default_factory=list, description="Which fields were ignored.")


class WebhookSecretOut(LenientModel):
    """Response of `GET /api/agent/tasks/{task_id}/webhook-secret`.

    With this secret a receiver checks the signatures of the task's webhooks.
    """

    secret: str = Field(repr=False, description="`whsec_…`, as libraries of Standard Webhooks take it.")


class JobIn(StrictModel):
    """Body of `POST /api/agent/jobs/execute`: the task to execute, with values for its prompt and attachments."""

    task_id: _Short = Field(description="Id or name of the task.")
    parameters: dict[str, Any] = Field(default_factory=dict)
    images: list[str] = Field(default_factory=list, description="Addresses or data URIs.", repr=False)
    videos: list[str] = Field(default_factory=list, repr=False)
    audios: list[str] = Field(default_factory=list, repr=False)
    files: list[str] = Field(default_factory=list, repr=False)
    triggered_by: Literal["api", "manual"] | None = Field(
        default=None, description="manual: a person started it. Absent: as a session or a key tells."
    )


class JobCreatedOut(LenientModel):
    """Response to a request to execute a task: the id of the job, and where to read its state."""

    job_id: str
    status: str
    url: str


class JobTraceOut(LenientModel):
    """One entry in the trace of a job (one execution of a task), such as a tool call.

    The fields behind `data` say the same for LocalAI's page.
    """

    seq: int
    time: datetime
    type: str
    tool: str = ""
    data: dict[str, Any] = Field(default_factory=dict)
    timestamp: datetime | None = None
    tool_name: str = ""
    content: str = Field(default="", description="The text of the entry: of the model, of a result or of a state.")
    arguments: Any = Field(default=None, description="The arguments of a tool call.")


class JobMediaOut(LenientModel):
    """An attachment that a job (one execution of a task) was given. Its content is kept until the job has ended."""

    kind: str
    type: str
    name: str = ""
    address: str = Field(default="", description="Where it was fetched from; empty: it came with the request.")
    size_bytes: int


class JobWebhookOut(LenientModel):
    """The delivery of one webhook of a job (one execution of a task): whether the receiver accepted it."""

    url: str
    state: str = Field(description="pending, delivered or failed.")
    attempts: int
    last_status: int | None = None
    last_error: str = ""
    delivered_at: datetime | None = None


class JobOut(LenientModel):
    """A job in responses: one execution of a task, with its state and result."""

    id: str
    task_id: str | None = Field(description="Absent if the task was deleted.")
    task: str = Field(description="Name of the task when it was executed.")
    model: str
    owner_name: str
    status: TaskRunStatus
    message: str = Field(description="A sentence about the state.")
    parameters: dict[str, Any] = Field(default_factory=dict)
    attachments: list[JobMediaOut] = Field(default_factory=list)
    images: list[str] = Field(
        default_factory=list,
        description="The addresses of images; the type stands for one that came with the request.",
    )
    videos: list[str] = Field(default_factory=list, description="The same of videos.")
    audios: list[str] = Field(default_factory=list, description="The same of sounds.")
    files: list[str] = Field(default_factory=list, description="The same of files.")
    result: str = Field(default="", description="The answer, once the job has completed.")
    error: str = Field(default="", description="Why the job has failed.")
    error_code: str | None = None
    triggered_by: str = Field(description="api, manual or cron.")
    node: str = Field(default="", description="The node that has or had it.")
    attempt: int = Field(description="How often a worker has begun it.")
    webhooks: list[JobWebhookOut] = Field(default_factory=list)
    webhook_sent: bool = Field(default=False, description="Whether all webhooks were delivered, and there are some.")
    webhook_sent_at: datetime | None = Field(default=None, description="When the last of them was delivered.")
    webhook_error: str = Field(default="", description="The last error of a webhook.")
    traces: list[JobTraceOut] = Field(default_factory=list, description="The first entries; only for a single job.")
    has_more_traces: bool = Field(default=False, description="`/api/runs/{id}/trace` has the rest.")
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
