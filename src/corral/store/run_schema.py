"""The tables of runs, agents and tasks.

A run shares its id with an operation, which brings lease, fence and state of the work; it goes with the operation.
Everything that belongs to a person carries `owner` as text and, for the deletion with that person, the user or the key
as a foreign key. Texts that a caller wrote are bounded by their flows.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from corral.store.schema import ID, NOW, TIME, metadata

EMPTY_OBJECT = text("'{}'::jsonb")
RUN_STATES = "'queued', 'leased', 'running', 'waiting_approval', 'completed', 'failed', 'cancelled', 'lost'"
OPEN_RUN_STATES = "'queued', 'leased', 'running', 'waiting_approval'"


def _make_owner_columns() -> tuple[Column[str], Column[str], Column[str]]:
    return (
        Column("owner", String(64), nullable=False),
        Column("user_id", ID, ForeignKey("users.id", ondelete="CASCADE"), index=True),
        Column("owner_key_id", ID, ForeignKey("api_keys.id", ondelete="CASCADE"), index=True),
    )


def _make_owner_check() -> CheckConstraint:
    return CheckConstraint("num_nonnulls(user_id, owner_key_id) = 1", name="owner")


agents = Table(
    "agents",
    metadata,
    Column("id", ID, primary_key=True),
    *_make_owner_columns(),
    Column("name", String(100), nullable=False),
    # Every key of the cluster may talk to a shared agent; only its owner and admins may change it.
    Column("is_shared", Boolean, nullable=False, server_default=text("false")),
    Column("status", String(16), nullable=False, server_default="active"),
    Column("config", JSONB, nullable=False),
    Column("revision", Integer, nullable=False, server_default=text("1")),
    # When an autonomous agent runs next; NULL: never by itself.
    Column("next_run_at", TIME),
    # When a turn that is due and could not be started is tried again. It counts only if it is later than `next_run_at`.
    Column("next_look_at", TIME),
    Column("last_run_at", TIME),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("created_by", String(255), nullable=False),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    UniqueConstraint("owner", "name"),
    CheckConstraint("status IN ('active', 'paused')", name="status"),
    _make_owner_check(),
)
Index("agents_next_run_at_idx", agents.c.next_run_at, postgresql_where=text("next_run_at IS NOT NULL"))

Index("agents_shared_name_idx", agents.c.name, unique=True, postgresql_where=text("is_shared"))

# MCP servers that admins have declared, which agents choose by name.
mcp_servers = Table(
    "mcp_servers",
    metadata,
    Column("name", String(50), primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("created_by", String(255), nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
)

threads = Table(
    "threads",
    metadata,
    Column("id", ID, primary_key=True),
    Column("agent_id", ID, ForeignKey("agents.id", ondelete="CASCADE"), nullable=False),
    *_make_owner_columns(),
    Column("title", String(200), nullable=False, server_default=""),
    # The number of the last message.
    Column("last_seq", Integer, nullable=False, server_default=text("0")),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    Index("threads_agent_id_updated_at_idx", "agent_id", "owner", "updated_at"),
    _make_owner_check(),
)

thread_messages = Table(
    "thread_messages",
    metadata,
    Column("thread_id", ID, ForeignKey("threads.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("role", String(16), nullable=False),
    # A message in the form of OpenAI's chat API: content, tool_calls, tool_call_id.
    Column("message", JSONB, nullable=False),
    Column("run_id", ID),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    CheckConstraint("role IN ('user', 'assistant', 'tool', 'system')", name="role"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", ID, primary_key=True),
    *_make_owner_columns(),
    Column("name", String(100), nullable=False),
    Column("is_enabled", Boolean, nullable=False, server_default=text("true")),
    Column("config", JSONB, nullable=False),
    Column("revision", Integer, nullable=False, server_default=text("1")),
    # When the cron pattern of the task fires next; NULL: it has none, or is disabled.
    Column("next_run_at", TIME),
    # When a time that is due and could not be started is tried again. It counts only if it is later than `next_run_at`.
    Column("next_look_at", TIME),
    Column("last_run_at", TIME),
    # Why the last time of the pattern started nothing; empty if it did.
    Column("cron_note", Text, nullable=False, server_default=""),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("created_by", String(255), nullable=False),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    UniqueConstraint("owner", "name"),
    _make_owner_check(),
)
Index("tasks_next_run_at_idx", tasks.c.next_run_at, postgresql_where=text("next_run_at IS NOT NULL"))

runs = Table(
    "runs",
    metadata,
    Column("id", ID, ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", String(32), nullable=False),
    *_make_owner_columns(),
    Column("owner_name", String(255), nullable=False),
    # The key or session whose models, limits and usage count; a session's begins with `session:`.
    Column("key_id", String(64), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("trigger", String(16), nullable=False),
    Column("state", String(20), nullable=False, server_default="queued"),
    Column("request", JSONB, nullable=False),
    Column("budgets", JSONB, nullable=False),
    Column("selector", JSONB, nullable=False, server_default=EMPTY_OBJECT),
    Column("session_key", String(64), nullable=False, server_default=""),
    Column("agent_id", ID, ForeignKey("agents.id", ondelete="SET NULL"), index=True),
    Column("task_id", ID, ForeignKey("tasks.id", ondelete="SET NULL")),
    Column("thread_id", ID, ForeignKey("threads.id", ondelete="SET NULL"), index=True),
    Column("parent_id", ID),
    Column("depth", Integer, nullable=False, server_default=text("0")),
    # How often a worker has begun the run; `job_id` is the fence of the present attempt.
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("job_id", ID, unique=True),
    # The node that has or had the run; kept when the node is removed.
    Column("node", ID),
    Column("node_name", String(255), nullable=False, server_default=""),
    # Since when the worker of the present attempt does not respond; NULL: it does.
    Column("silent_since", TIME),
    # The trace so far: number of the last entry, and bytes of all.
    Column("last_seq", BigInteger, nullable=False, server_default=text("0")),
    Column("event_bytes", BigInteger, nullable=False, server_default=text("0")),
    # A list of the tool calls that the run is in; NULL: none.
    Column("open_call", JSONB, key="open_calls"),
    Column("approvals", JSONB, nullable=False, server_default=EMPTY_OBJECT),
    Column("usage", JSONB, nullable=False, server_default=EMPTY_OBJECT),
    # What the worker has reported as the end; the operation is concluded from it.
    Column("outcome", JSONB),
    Column("result", JSONB),
    Column("error_code", String(64)),
    Column("error_text", Text),
    Column("message", Text, nullable=False, server_default=""),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("started_at", TIME),
    # When a worker accepted the present attempt, or the last one; NULL: none has.
    Column("attempt_started_at", TIME),
    Column("finished_at", TIME),
    Index("runs_owner_created_at_idx", "owner", "created_at"),
    Index("runs_task_id_created_at_idx", "task_id", "created_at"),
    CheckConstraint(f"state IN ({RUN_STATES})", name="state"),
    CheckConstraint("trigger IN ('api', 'manual', 'cron', 'agent', 'schedule')", name="trigger"),
    _make_owner_check(),
)
Index("runs_open_idx", runs.c.node, postgresql_where=text(f"state IN ({OPEN_RUN_STATES})"))
Index("runs_finished_at_idx", runs.c.finished_at, postgresql_where=text("finished_at IS NOT NULL"))
Index("runs_session_key_idx", runs.c.session_key, runs.c.created_at, postgresql_where=text("session_key <> ''"))

Index("runs_parent_id_idx", runs.c.parent_id, postgresql_where=text("parent_id IS NOT NULL"))

run_events = Table(
    "run_events",
    metadata,
    Column("run_id", ID, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    # By the clock of the worker that did it.
    Column("at", TIME, nullable=False),
    Column("type", String(32), nullable=False),
    Column("tool", String(200), nullable=False, server_default=""),
    Column("data", JSONB, nullable=False, server_default=EMPTY_OBJECT),
)

# What was given to a run with its request, until the run has ended.
run_media = Table(
    "run_media",
    metadata,
    Column("run_id", ID, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("kind", String(8), nullable=False),
    Column("content_type", String(100), nullable=False),
    Column("name", String(255), nullable=False, server_default=""),
    Column("content", LargeBinary, nullable=False),
    CheckConstraint("kind IN ('image', 'video', 'audio', 'file')", name="kind"),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("id", ID, primary_key=True),
    *_make_owner_columns(),
    # The run that made it; NULL: the owner uploaded it.
    Column("run_id", ID, ForeignKey("runs.id", ondelete="CASCADE")),
    Column("kind", String(32), nullable=False),
    Column("name", String(255), nullable=False),
    Column("media_type", String(100), nullable=False, server_default=""),
    Column("purpose", String(32), nullable=False, server_default=""),
    # Empty until all bytes have arrived.
    Column("sha256", String(64), nullable=False, index=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("is_complete", Boolean, nullable=False, server_default=text("true")),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("expires_at", TIME),
    Index("artifacts_owner_created_at_idx", "owner", "created_at"),
    # Making the file of a run again finds the first one.
    Index("artifacts_run_id_name_idx", "run_id", "name", unique=True),
    _make_owner_check(),
)
Index("artifacts_expires_at_idx", artifacts.c.expires_at, postgresql_where=text("expires_at IS NOT NULL"))

# The bytes of artifacts, one piece behind the other.
artifact_chunks = Table(
    "artifact_chunks",
    metadata,
    Column("artifact_id", ID, ForeignKey("artifacts.id", ondelete="CASCADE"), primary_key=True),
    Column("start_byte", BigInteger, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

# A batch is a run with a cursor: which lines of its input are answered in its files.
batches = Table(
    "batches",
    metadata,
    Column("id", ID, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("input_file_id", ID, nullable=False),
    Column("output_file_id", ID),
    Column("error_file_id", ID),
    Column("endpoint", String(64), nullable=False),
    Column("completion_window", String(16), nullable=False),
    Column("metadata", JSONB, nullable=False, server_default=EMPTY_OBJECT),
    # While it is open, what it does; its end is written once its files are whole.
    Column("status", String(16), nullable=False, server_default="validating"),
    # What is wrong with its input.
    Column("errors", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    # The first byte and the number of lines of the input behind those that are answered.
    Column("next_byte", BigInteger, nullable=False, server_default=text("0")),
    Column("next_line", Integer, nullable=False, server_default=text("0")),
    Column("total", Integer, nullable=False, server_default=text("0")),
    Column("completed", Integer, nullable=False, server_default=text("0")),
    Column("failed", Integer, nullable=False, server_default=text("0")),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("expires_at", TIME, nullable=False),
    Column("in_progress_at", TIME),
    Column("finalizing_at", TIME),
    Column("ended_at", TIME),
    CheckConstraint(
        "status IN ('validating', 'in_progress', 'completed', 'failed', 'expired', 'cancelled')", name="status"
    ),
)
Index("batches_open_idx", batches.c.input_file_id, postgresql_where=text("ended_at IS NULL"))

# Git repositories that skills come from.
skill_repos = Table(
    "skill_repos",
    metadata,
    Column("id", ID, primary_key=True),
    *_make_owner_columns(),
    Column("url", String(500), nullable=False),
    # Empty: the branch that the repository calls its own.
    Column("branch", String(200), nullable=False, server_default=""),
    Column("is_enabled", Boolean, nullable=False, server_default=text("true")),
    Column("is_shared", Boolean, nullable=False, server_default=text("false")),
    # How a worker signs in: a user name, and a reference to a secret of the owner. Empty: the repository is public.
    Column("username", String(100), nullable=False, server_default=""),
    Column("secret", String(200), nullable=False, server_default=""),
    # How often it is synced by itself, and when next; NULL: when a person starts a sync.
    Column("sync_interval_s", Double),
    Column("next_sync_at", TIME, index=True),
    # The commit whose skills are stored, and what kept the last sync, or a part of it, from being stored.
    Column("commit", String(64), nullable=False, server_default=""),
    Column("synced_at", TIME),
    Column("problem", Text, nullable=False, server_default=""),
    # The run of the last sync, which may have been pruned.
    Column("run_id", ID),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("created_by", String(255), nullable=False),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    UniqueConstraint("owner", "url", "branch"),
    _make_owner_check(),
)

skills = Table(
    "skills",
    metadata,
    Column("id", ID, primary_key=True),
    *_make_owner_columns(),
    Column("name", String(64), nullable=False),
    Column("description", String(1024), nullable=False),
    # The fields of the document's front matter.
    Column("front_matter", JSONB, nullable=False),
    # The text of `SKILL.md`, and its hash.
    Column("document", Text, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("document_bytes", Integer, nullable=False),
    # Agents of every user may use a shared skill; only its owner may change it.
    Column("is_shared", Boolean, nullable=False, server_default=text("false")),
    # The repository and the commit that it came from; NULL: a person wrote it.
    Column("repo_id", ID, ForeignKey("skill_repos.id", ondelete="CASCADE"), index=True),
    Column("commit", String(64), nullable=False, server_default=""),
    Column("revision", Integer, nullable=False, server_default=text("1")),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("created_by", String(255), nullable=False),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    UniqueConstraint("owner", "name"),
    _make_owner_check(),
)
Index("skills_shared_name_idx", skills.c.name, unique=True, postgresql_where=text("is_shared"))

# The files of a skill beside `SKILL.md`, each whole in its row.
skill_files = Table(
    "skill_files",
    metadata,
    Column("skill_id", ID, ForeignKey("skills.id", ondelete="CASCADE"), primary_key=True),
    Column("path", String(120), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
)
quantizations = Table(
    "quantizations",
    metadata,
    Column("id", ID, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    # The model that is made smaller, as it was named then: the row outlives the model.
    Column("model", String(255), nullable=False),
    Column("backend", String(255), nullable=False),
    Column("weight_type", String(16), nullable=False),
    # The name under which the result is registered at the end; empty: it is not.
    Column("name", String(255), nullable=False, server_default=""),
    # The result, once it is in the library and its header was checked.
    Column("file_name", String(255), nullable=False, server_default=""),
    Column("sha256", String(64)),
    Column("size_bytes", BigInteger),
    # Where the result came from; it becomes the provenance of the model.
    Column("source", JSONB, nullable=False, server_default=EMPTY_OBJECT),
    # The configuration of the model that the result becomes, without its name.
    Column("config", JSONB),
    Column("registered_name", String(255), nullable=False, server_default=""),
    # Why the result could not be registered under `name`.
    Column("problem", Text, nullable=False, server_default=""),
    Column("stored_at", TIME),
)
Index("quantizations_sha256_idx", quantizations.c.sha256, postgresql_where=text("sha256 IS NOT NULL"))

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", ID, primary_key=True),
    Column("run_id", ID, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, index=True),
    # Which webhook of the task this is; its address and headers stand there.
    Column("position", Integer, nullable=False),
    Column("url", Text, nullable=False),
    Column("state", String(16), nullable=False, server_default="pending"),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("next_at", TIME),
    Column("last_status", Integer),
    Column("last_error", Text, nullable=False, server_default=""),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("delivered_at", TIME),
    UniqueConstraint("run_id", "position"),
    CheckConstraint("state IN ('pending', 'delivered', 'failed')", name="state"),
)
Index("webhook_deliveries_next_at_idx", webhook_deliveries.c.next_at, postgresql_where=text("state = 'pending'"))
