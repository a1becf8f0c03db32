"""Settings of frontends about work on behalf of people: runs, conversations and files."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from corral.app.settings.base import make_shown_default
from corral.app.settings.values import Duration, SizeBytes


class RunSettings(BaseModel):
    """Part of `FrontendSettings`: limits of runs, and how long their traces and files are kept."""

    model_config = ConfigDict(defer_build=True)

    run_retention_s: Duration = Field(
        default=30 * 86400.0,
        description="How long runs of agents and tasks are kept after their end, with their traces.",
    )
    thread_retention_s: Duration = Field(
        default=365 * 86400.0,
        description="How long conversations with agents are kept after their last message.",
    )
    memory_retention_s: Duration = Field(
        default=365 * 86400.0,
        description="How long agents keep what they have remembered. Documents that people upload stay.",
    )
    artifact_retention_s: Duration = Field(
        default=30 * 86400.0, description="How long files of users and of their runs are kept."
    )
    artifact_bytes_max: SizeBytes = Field(
        default=10 * 1024**3,
        gt=0,
        description="How many bytes the files of one user may take together; uploads above the limit get 429.",
    )
    run_timeout_s: Duration | None = Field(
        default=None,
        description="How long a job of a task, a turn of an agent and a chat with MCP servers may take. A task with "
        "`budgets.wall_s` and an agent with `budgets.wall` have their own.",
        json_schema_extra=make_shown_default("10m for jobs of tasks, 5m for turns and chats"),
    )
    embedding_model: str = Field(
        default="",
        max_length=255,
        description="Model that embeds the documents of collections which name none.",
        json_schema_extra=make_shown_default("the only model that serves embeddings"),
    )
    allow_inline_rewards: bool = Field(
        default=False,
        description="Let fine-tunings have reward functions that are code. It runs on nodes, in a process with few "
        "rights.",
    )
    allow_private_webhooks: bool = Field(
        default=False, description="Let webhooks of tasks lead to addresses in private networks."
    )
