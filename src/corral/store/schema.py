"""The tables, with `model_schema.py`. `migrations/` creates them; a test compares both.

Every table that depends on a node has a foreign key with ON DELETE CASCADE: removing a node leaves nothing behind.
`operations`, their targets and events are history instead: they outlive the nodes that they were about, so they keep
a node's id and name as plain values. Usage outlives keys and users in the same way. The last number of a spool marks
what it has delivered, so that a batch that is written twice counts once.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Sequence,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP, UUID
from sqlalchemy.types import UserDefinedType

NOW = text("corral_now()")
TIME = TIMESTAMP(timezone=True)
ID = UUID(as_uuid=False)

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "ck": "%(table_name)s_%(constraint_name)s_check",
    }
)

users = Table(
    "users",
    metadata,
    Column("id", ID, primary_key=True),
    # The name in lower case.
    Column("name", String(255), nullable=False, unique=True),
    Column("scope", String(16), nullable=False),
    # NULL: the user signs in by another way, or not at all.
    Column("password_hash", Text),
    Column("issuer", String(255)),
    Column("subject", String(255)),
    Column("disabled_at", TIME),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("created_by", String(255), nullable=False),
    UniqueConstraint("issuer", "subject"),
    CheckConstraint("scope IN ('admin', 'operate', 'infer')", name="scope"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", String(64), primary_key=True),
    # The owner: a user who signed in with a password or by a provider, or a key that was used in a browser.
    Column("user_id", ID, ForeignKey("users.id", ondelete="CASCADE"), index=True),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("expires_at", TIME, nullable=False),
    Column("user_agent", String(255), nullable=False, server_default=""),
    Column("key_id", ID, ForeignKey("api_keys.id", ondelete="CASCADE"), index=True),
    CheckConstraint("num_nonnulls(user_id, key_id) = 1", name="owner"),
)

# Secrets of keys that were replaced, or deleted with their users. Never pruned: 64 characters for each rotation.
retired_secrets = Table(
    "retired_secrets",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("retired_at", TIME, nullable=False, server_default=NOW),
)

key_limits = Table(
    "key_limits",
    metadata,
    Column("key_id", ID, ForeignKey("api_keys.id", ondelete="CASCADE"), primary_key=True),
    # Empty: all models together.
    Column("model", String(255), primary_key=True),
    Column("requests_per_minute", Integer),
    Column("tokens_per_minute", BigInteger),
    Column("tokens_per_day", BigInteger),
    Column("tokens_per_month", BigInteger),
)

usage = Table(
    "usage",
    metadata,
    # The hour in which the requests began.
    Column("hour", TIME, primary_key=True),
    Column("key_id", String(64), primary_key=True),
    Column("model", String(255), primary_key=True),
    Column("call", String(32), primary_key=True),
    # The node's name when it answered; empty: none was reached, or it was counted before there was this column.
    Column("node", String(255), primary_key=True, server_default=""),
    Column("key_name", String(100), nullable=False, server_default=""),
    Column("user_name", String(255), nullable=False, server_default=""),
    Column("requests", BigInteger, nullable=False, server_default=text("0")),
    Column("errors", BigInteger, nullable=False, server_default=text("0")),
    Column("prompt_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("cached_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("completion_tokens", BigInteger, nullable=False, server_default=text("0")),
    # How many of the completion tokens were counted by events instead of reported by the engine.
    Column("estimated_tokens", BigInteger, nullable=False, server_default=text("0")),
    Index("usage_key_id_hour_idx", "key_id", "hour"),
)

usage_spools = Table(
    "usage_spools",
    metadata,
    Column("id", String(64), primary_key=True),
    # The last counted batch of the spool.
    Column("batch", BigInteger, nullable=False),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
)


class Xid8(UserDefinedType[str]):
    """SQLAlchemy column type of PostgreSQL's 64-bit transaction id, which is read as text."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "xid8"


def make_node_id_column(*, primary_key: bool = False) -> Column[str]:
    return Column("node_id", ID, ForeignKey("nodes.id", ondelete="CASCADE"), nullable=False, primary_key=primary_key)


nodes = Table(
    "nodes",
    metadata,
    Column("id", ID, primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("node_type", String(16), nullable=False),
    Column("credential_hash", String(64), nullable=False),
    Column("bus_public_key", String(64)),
    Column("boot_id", String(64), nullable=False),
    Column("version", String(64), nullable=False, server_default=""),
    Column("address", String(255), nullable=False, server_default=""),
    Column("http_address", String(255), nullable=False, server_default=""),
    # The host that the node's last registration came from.
    Column("seen_address", String(255), nullable=False, server_default=""),
    # approval: an admin's decision
    Column("approved_at", TIME),
    Column("approved_by", String(255)),
    # drain: an admin's intent, and apart from it the worker's own
    Column("drained_at", TIME),
    Column("drained_by", String(255)),
    Column("self_drained_at", TIME),
    # liveness and bus: observations
    Column("liveness", String(8), nullable=False),
    Column("liveness_since", TIME, nullable=False, server_default=NOW),
    Column("lease_expires_at", TIME, nullable=False),
    Column("last_heartbeat_at", TIME),
    Column("bus_ok", Boolean),
    Column("bus_since", TIME),
    # When the node was first on the bus after its approval.
    Column("bus_joined_at", TIME),
    # what the worker reports; NULL is unknown, 0 is a reading
    Column("total_vram", BigInteger),
    Column("available_vram", BigInteger),
    Column("total_ram", BigInteger),
    Column("available_ram", BigInteger),
    Column("total_disk", BigInteger),
    Column("available_disk", BigInteger),
    Column("gpu_vendor", String(64)),
    Column("gpu_compute_capability", String(64)),
    Column("capability", String(64)),
    Column("cpu_cores", Integer),
    Column("cpu_threads", Integer),
    Column("architecture", String(64)),
    Column("system", String(64)),
    Column("unified_memory", Boolean),
    Column("gpus", JSONB),
    # policy: the worker's flag and the admin's override
    Column("slots_reported", Integer, nullable=False, server_default=text("1")),
    Column("slots_override", Integer),
    # How many runs the worker takes at a time; NULL: none.
    Column("max_runs", Integer),
    # The kinds of runs that the worker executes, as a list; NULL: it does not say.
    Column("run_kinds", JSONB),
    Column("budget_reported", String(64)),
    Column("budget_override", String(64)),
    # Labels of the worker that count, as an object: an admin has approved exactly these pairs.
    Column("approved_labels", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    # When the node last reported its backends; NULL: never, which is not the same as having none.
    Column("backends_at", TIME),
    # The same for its processes and files.
    Column("holdings_at", TIME),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    CheckConstraint("node_type IN ('backend', 'agent')", name="node_type"),
    CheckConstraint("liveness IN ('alive', 'lost', 'left')", name="liveness"),
    CheckConstraint("slots_reported >= 1 AND (slots_override IS NULL OR slots_override >= 1)", name="slots"),
    # Heartbeats rewrite these rows all the time; room in the page keeps the rewrite in place.
    postgresql_with={"fillfactor": "60"},
)

node_labels = Table(
    "node_labels",
    metadata,
    make_node_id_column(primary_key=True),
    Column("key", String(128), primary_key=True),
    Column("source", String(8), primary_key=True),
    Column("value", String(255), nullable=False),
    CheckConstraint("source IN ('auto', 'worker', 'admin')", name="source"),
)

# Every key that a node has a token for. The last one stays, so that no other node gets a token for it.
bus_keys = Table(
    "bus_keys",
    metadata,
    Column("public_key", String(64), primary_key=True),
    make_node_id_column(),
    Column("expires_at", TIME, nullable=False),
    Index("bus_keys_node_id_idx", "node_id"),
)

replicas = Table(
    "replicas",
    metadata,
    Column("id", ID, primary_key=True),
    make_node_id_column(),
    Column("model", String(255), nullable=False, index=True),
    Column("replica_index", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("address", String(255), nullable=False, server_default=""),
    # The model's run hash when the replica was loaded; if the model has another one now, it gets no requests.
    Column("revision", String(64), nullable=False, server_default=""),
    Column("engine_key", Text, nullable=False, server_default=""),
    Column("backend", String(255), nullable=False, server_default=""),
    Column("version", String(128), nullable=False, server_default=""),
    Column("operation_id", ID),
    Column("vram_bytes", BigInteger),
    Column("ram_bytes", BigInteger),
    Column("threads", Integer, nullable=False, server_default=text("1")),
    Column("load_s", Float),
    Column("loaded_at", TIME),
    # When the worker last listed the process, and how often in a row it did not.
    Column("confirmed_at", TIME),
    Column("misses", Integer, nullable=False, server_default=text("0")),
    # For an unloading replica: why, when to tell the worker next, and the last problem.
    Column("stop_reason", Text, nullable=False, server_default=""),
    Column("stop_due_at", TIME),
    Column("stop_attempts", Integer, nullable=False, server_default=text("0")),
    Column("stop_problem", Text, nullable=False, server_default=""),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    UniqueConstraint("node_id", "model", "replica_index"),
    CheckConstraint("state IN ('staging', 'loading', 'loaded', 'unloading')", name="state"),
    CheckConstraint("replica_index >= 0 AND threads >= 0", name="not_negative"),
)
Index("replicas_stop_idx", replicas.c.stop_due_at, postgresql_where=text("state = 'unloading'"))

reservations = Table(
    "reservations",
    metadata,
    Column("id", ID, primary_key=True),
    make_node_id_column(),
    # The load that holds the reservation, once per node; the reservation lives as long as the load.
    Column("holder", String(255), nullable=False),
    Column("vram_bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("ram_bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("disk_bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    UniqueConstraint("node_id", "holder"),
    CheckConstraint("vram_bytes >= 0 AND ram_bytes >= 0 AND disk_bytes >= 0", name="not_negative"),
    CheckConstraint("vram_bytes + ram_bytes + disk_bytes > 0", name="something"),
)

rules = Table(
    "rules",
    metadata,
    Column("model", String(255), primary_key=True),
    Column("selector", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("min_replicas", Integer, nullable=False, server_default=text("0")),
    Column("max_replicas", Integer, nullable=False, server_default=text("0")),
    Column("spreads", Boolean, nullable=False, server_default=text("false")),
    Column("windows", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("time_zone", String(64), nullable=False, server_default="UTC"),
    Column("route_policy", String(32), nullable=False, server_default=""),
    Column("unsatisfiable_until", TIME),
    Column("unsatisfiable_ticks", Integer, nullable=False, server_default=text("0")),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    CheckConstraint("jsonb_typeof(selector) = 'object'", name="selector"),
    CheckConstraint("min_replicas >= 0 AND max_replicas >= 0", name="not_negative"),
    CheckConstraint("NOT spreads OR (min_replicas = 0 AND max_replicas = 0)", name="spreads"),
)

join_tokens = Table(
    "join_tokens",
    metadata,
    Column("id", ID, primary_key=True),
    Column("name", String(100), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("prefix", String(16), nullable=False),
    Column("uses", Integer, nullable=False, server_default=text("0")),
    Column("max_uses", Integer),
    Column("approves", Boolean, nullable=False, server_default=text("false")),
    Column("expires_at", TIME),
    Column("revoked_at", TIME),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("created_by", String(255), nullable=False),
    CheckConstraint("max_uses IS NULL OR uses <= max_uses", name="uses"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", ID, primary_key=True),
    Column("name", String(100), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("prefix", String(16), nullable=False),
    # The previous secret, for as long as it still works.
    Column("previous_hash", String(64), index=True),
    Column("previous_until", TIME),
    # A key of an agent node is deleted with it and is no admin's.
    Column("node_id", ID, ForeignKey("nodes.id", ondelete="CASCADE")),
    Column("user_id", ID, ForeignKey("users.id", ondelete="CASCADE")),
    Column("scope", String(16), nullable=False, server_default="admin"),
    # Patterns of names; NULL: every model.
    Column("models", JSONB),
    Column("expires_at", TIME),
    Column("revoked_at", TIME),
    # Written with the key's usage by `store/usage.py`, and for other calls by `store/access.py`; NULL: never.
    Column("last_used_at", TIME),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("created_by", String(255), nullable=False),
    CheckConstraint("scope IN ('admin', 'operate', 'infer')", name="scope"),
)

# Nodes that an admin has removed: their workers learn it when they call. A database from before the removal knows
# nothing of it, and tells no worker to end anything.
removed_nodes = Table(
    "removed_nodes",
    metadata,
    Column("id", ID, primary_key=True),
    Column("removed_at", TIME, nullable=False, server_default=NOW),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("acquired_at", TIME, nullable=False),
    Column("expires_at", TIME, nullable=False),
    Column("unbroken_since", TIME, nullable=False),
)

frontends = Table(
    "frontends",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("port", Integer, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", String(64), nullable=False),
    Column("started_at", TIME, nullable=False, server_default=NOW),
    Column("seen_at", TIME, nullable=False, server_default=NOW),
    # Whether the frontend was connected to NATS when it was last seen; NULL for frontends that do not report it.
    Column("bus_ok", Boolean),
)

outbox = Table(
    "outbox",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("transaction", Xid8, nullable=False, server_default=text("pg_current_xact_id()")),
    Column("kind", String(64), nullable=False),
    Column("key", String(255), nullable=False),
    Column("data", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("at", TIME, nullable=False, server_default=NOW),
)
Index("outbox_position_idx", outbox.c.transaction, outbox.c.number)

# One row: how far the outbox has been pruned. A reader from before it has to read the whole state again.
outbox_horizon = Table(
    "outbox_horizon",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("transaction", Xid8, nullable=False),
    Column("number", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="single_row"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("request_hash", String(64), nullable=False),
    Column("status", Integer, nullable=False),
    # Sealed with the key itself, which is not stored: the answer may hold a secret that is shown once.
    Column("answer", LargeBinary, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW, index=True),
)

audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", TIME, nullable=False, server_default=NOW, index=True),
    Column("actor", String(255), nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(255), nullable=False),
    Column("detail", Text, nullable=False, server_default=""),
)

operations = Table(
    "operations",
    metadata,
    Column("id", ID, primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("scope_key", String(512), nullable=False),
    Column("scope_node", ID),
    Column("scope_node_name", String(255), nullable=False, server_default=""),
    Column("request", JSONB, nullable=False),
    Column("state", String(32), nullable=False),
    Column("phase", String(32)),
    Column("percent", Float, nullable=False, server_default=text("0")),
    Column("current_bytes", BigInteger),
    Column("total_bytes", BigInteger),
    Column("file_name", String(255), nullable=False, server_default=""),
    Column("message", Text, nullable=False, server_default=""),
    Column("error_code", String(64)),
    Column("error_text", Text),
    # The owner, the end of its lease, and the fence that makes an older owner's writes fail.
    Column("owner", String(64)),
    Column("lease_until", TIME),
    Column("fence", BigInteger, nullable=False, server_default=text("0")),
    # When there is something to do next; NULL: nothing until it is set.
    Column("due_at", TIME),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("reaped", Boolean, nullable=False, server_default=text("false")),
    Column("after_id", ID, ForeignKey("operations.id", ondelete="SET NULL")),
    Column("retry_of", ID),
    Column("created_by", String(255), nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("started_at", TIME),
    Column("finished_at", TIME),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    Column("deadline_at", TIME),
    Column("dismissed_at", TIME),
    Column("dismissed_by", String(255)),
    Column("rev", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint(
        "state IN ('queued', 'running', 'waiting_on_nodes', 'completed', 'completed_with_pending', 'failed',"
        " 'cancelled', 'paused', 'superseded')",
        name="state",
    ),
    CheckConstraint(
        "kind IN ('backend_install', 'backend_upgrade', 'backend_reinstall', 'backend_rollback', 'backend_delete',"
        " 'model_install', 'model_load', 'model_stage', 'model_unload', 'model_delete',"
        " 'run_agent_turn', 'run_task', 'run_chat', 'run_batch', 'run_skill_sync', 'run_quantize', 'run_ingest',"
        " 'run_fine_tune', 'run_fine_tune_export')",
        name="kind",
    ),
    CheckConstraint("percent >= 0 AND percent <= 100", name="percent"),
)
# The one thing that removes duplicates: two active operations never share a scope.
Index(
    "operations_active_scope_idx",
    operations.c.scope_key,
    unique=True,
    postgresql_where=text("state IN ('queued', 'running', 'waiting_on_nodes') AND after_id IS NULL"),
)
Index("operations_due_idx", operations.c.due_at, postgresql_where=text("due_at IS NOT NULL"))
Index(
    "operations_listed_idx",
    operations.c.created_at,
    postgresql_where=text(
        "state IN ('queued', 'running', 'waiting_on_nodes', 'completed_with_pending', 'failed', 'paused')"
        " AND dismissed_at IS NULL"
    ),
)
Index("operations_finished_idx", operations.c.finished_at, operations.c.id)
Index("operations_after_idx", operations.c.after_id, postgresql_where=text("after_id IS NOT NULL"))

operation_targets = Table(
    "operation_targets",
    metadata,
    Column("operation_id", ID, ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True),
    Column("node", ID, primary_key=True),
    Column("node_name", String(255), nullable=False),
    Column("wave", Integer, nullable=False, server_default=text("0")),
    Column("state", String(16), nullable=False),
    Column("phase", String(32)),
    Column("percent", Float, nullable=False, server_default=text("0")),
    Column("current_bytes", BigInteger),
    Column("total_bytes", BigInteger),
    Column("file_name", String(255), nullable=False, server_default=""),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("job_id", ID, nullable=False, unique=True),
    Column("seq", BigInteger, nullable=False, server_default=text("0")),
    Column("generation", BigInteger, nullable=False, server_default=text("0")),
    Column("build", JSONB),
    Column("previous", JSONB),
    Column("error_code", String(64)),
    Column("error_text", Text),
    Column("stop_wanted", Boolean, nullable=False, server_default=text("false")),
    Column("keeps_partial", Boolean, nullable=False, server_default=text("false")),
    Column("is_rollback", Boolean, nullable=False, server_default=text("false")),
    Column("contacted_at", TIME),
    Column("heard_at", TIME),
    Column("finished_at", TIME),
    CheckConstraint(
        "state IN ('queued', 'working', 'unconfirmed', 'success', 'error', 'cancelled', 'superseded', 'skipped')",
        name="state",
    ),
    CheckConstraint("percent >= 0 AND percent <= 100", name="percent"),
)
# Open targets by node, for when the node comes back, is drained or is removed.
Index(
    "operation_targets_open_idx",
    operation_targets.c.node,
    postgresql_where=text("state IN ('queued', 'working', 'unconfirmed') OR stop_wanted"),
)

operation_events = Table(
    "operation_events",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("operation_id", ID, ForeignKey("operations.id", ondelete="CASCADE"), nullable=False),
    Column("at", TIME, nullable=False, server_default=NOW),
    Column("node_name", String(255), nullable=False, server_default=""),
    Column("level", String(8), nullable=False),
    Column("text", Text, nullable=False),
    CheckConstraint("level IN ('info', 'warning', 'error')", name="level"),
)
Index("operation_events_operation_idx", operation_events.c.operation_id, operation_events.c.id)

# One counter for all: a newer assignment always has the larger number, also after the older row is gone.
assignment_generations = Sequence("assignment_generations", metadata=metadata)

assignments = Table(
    "assignments",
    metadata,
    make_node_id_column(primary_key=True),
    Column("backend", String(255), primary_key=True),
    Column("desired", String(16), nullable=False),
    Column(
        "generation", BigInteger, nullable=False, server_default=text("nextval('assignment_generations'::regclass)")
    ),
    Column("operation_id", ID, ForeignKey("operations.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("build", JSONB),
    Column("state", String(8), nullable=False, server_default=text("'open'::character varying")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("next_retry_at", TIME),
    Column("error_code", String(64)),
    Column("error_text", Text),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    CheckConstraint("desired IN ('present', 'replaced', 'absent', 'rolled_back')", name="desired"),
    CheckConstraint("state IN ('open', 'dead')", name="state"),
    CheckConstraint("backend <> ''", name="backend"),
)

installed_backends = Table(
    "installed_backends",
    metadata,
    make_node_id_column(primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("meta", String(255), nullable=False, server_default=""),
    Column("alias", String(255), nullable=False, server_default=""),
    Column("version", String(128), nullable=False, server_default=""),
    Column("digest", String(128), nullable=False, server_default=""),
    Column("uri", Text, nullable=False, server_default=""),
    Column("gallery", String(255), nullable=False, server_default=""),
    Column("generation", BigInteger, nullable=False, server_default=text("0")),
    Column("size_bytes", BigInteger),
    Column("previous_version", String(128), nullable=False, server_default=""),
    Column("is_system", Boolean, nullable=False, server_default=text("false")),
    Column("installed_at", TIME),
    Column("reported_at", TIME, nullable=False, server_default=NOW),
)

# Galleries that came with a fleet file, beside those of the settings.
galleries = Table(
    "galleries",
    metadata,
    Column("kind", String(16), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("url", Text, nullable=False),
    Column("mirrors", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    CheckConstraint("kind IN ('backends', 'models')", name="kind"),
)

# The last valid copy of each gallery's index: the same for every frontend, also when its source is gone.
gallery_copies = Table(
    "gallery_copies",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("url", Text, nullable=False),
    Column("content", Text, nullable=False, server_default=""),
    Column("sha256", String(64), nullable=False, server_default=""),
    Column("etag", Text, nullable=False, server_default=""),
    Column("fetched_at", TIME),
    Column("tried_at", TIME),
    Column("problem", Text, nullable=False, server_default=""),
)

# The digest that a tag of a registry pointed to at the last query.
gallery_digests = Table(
    "gallery_digests",
    metadata,
    Column("uri", Text, primary_key=True),
    Column("digest", String(128), nullable=False),
    Column("checked_at", TIME, nullable=False, server_default=NOW),
)

# Curves of the last hour, one row a minute; see store/history.py.
history_moments = Table(
    "history_moments",
    metadata,
    Column("at", TIME, primary_key=True, server_default=NOW),
    Column("cluster", JSONB, nullable=False),
    # The names of the values of each node, in their order.
    Column("names", JSONB, nullable=False),
    Column("nodes", JSONB, nullable=False),
)

# Values such as tokens of other services, sealed. They go with their user or key; those of the cluster have neither.
secrets = Table(
    "secrets",
    metadata,
    Column("id", ID, primary_key=True),
    # The owner as text: `user:<id>`, `key:<id>` or `cluster`.
    Column("owner", String(64), nullable=False),
    Column("user_id", ID, ForeignKey("users.id", ondelete="CASCADE"), index=True),
    Column("key_ref", ID, ForeignKey("api_keys.id", ondelete="CASCADE"), index=True),
    Column("name", String(100), nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    # Which key of the key file has sealed the value.
    Column("key_id", String(16), nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    Column("changed_by", String(255), nullable=False),
    Column("last_used_at", TIME),
    UniqueConstraint("owner", "name"),
    CheckConstraint("num_nonnulls(user_id, key_ref) <= 1", name="one_owner"),
    CheckConstraint("owner = coalesce('user:' || user_id::text, 'key:' || key_ref::text, 'cluster')", name="owner"),
)

# Settings that admins changed while the cluster runs; there are as many as there are live settings.
cluster_settings = Table(
    "cluster_settings",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
    Column("changed_by", String(255), nullable=False),
    Column("changed_at", TIME, nullable=False, server_default=NOW),
)
