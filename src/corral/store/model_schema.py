"""The tables of models: their configurations and contents, the nodes with copies, and the users of replicas.

Rows of a model are deleted with it. What nodes hold (`staged_*`) and pending removals (`model_removals`) are not:
copies outlive the model until their workers have removed them.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from corral.store.schema import ID, NOW, TIME, make_node_id_column, metadata

models = Table(
    "models",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("run_hash", String(64), nullable=False),
    Column("config", JSONB, nullable=False),
    # The facts in the headers of the model's files; NULL: not fetched yet.
    Column("facts", JSONB),
    # The measured memory of a replica, by run hash: used instead of an estimate.
    Column("observed", JSONB),
    # What the model was made from, if a run has made it.
    Column("provenance", JSONB),
    # The LoRA adapters that its engines load, in the order of their numbers there; kept by `models/adapters.py`.
    Column("adapters", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
)

model_revisions = Table(
    "model_revisions",
    metadata,
    Column("model", String(255), ForeignKey("models.name", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("run_hash", String(64), nullable=False),
    Column("config", JSONB, nullable=False),
    Column("note", Text, nullable=False, server_default=""),
    Column("created_by", String(255), nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
)

# Every name of a model, its own included: a name means one model.
model_names = Table(
    "model_names",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("model", String(255), ForeignKey("models.name", ondelete="CASCADE"), nullable=False, index=True),
)

# What a fleet file has applied last: only this may be pruned when a later file no longer lists it.
fleet_items = Table(
    "fleet_items",
    metadata,
    Column("kind", String(16), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("applied_at", TIME, nullable=False, server_default=NOW),
)

# A content that the cluster knows: its size and the sha256 of each of its chunks, 32 bytes each.
blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("chunks", LargeBinary, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
)

# The contents of the current revision of a model. No rows: its files have not been fetched.
model_files = Table(
    "model_files",
    metadata,
    Column("model", String(255), ForeignKey("models.name", ondelete="CASCADE"), primary_key=True),
    Column("path", String(1024), primary_key=True),
    Column("sha256", String(64), ForeignKey("blobs.sha256"), nullable=False, index=True),
)

# Which frontends, or their shared storage, hold a content; nodes report their own below.
library_files = Table(
    "library_files",
    metadata,
    Column("sha256", String(64), ForeignKey("blobs.sha256", ondelete="CASCADE"), primary_key=True),
    # A frontend's id, or the name of the shared storage or folder.
    Column("holder", String(255), primary_key=True),
    Column("is_shared", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", TIME, nullable=False, server_default=NOW),
)

# What a node has on its disk, or is being sent, as it reports it.
staged_files = Table(
    "staged_files",
    metadata,
    make_node_id_column(primary_key=True),
    Column("sha256", String(64), primary_key=True, index=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("is_whole", Boolean, nullable=False, server_default=text("true")),
    Column("reported_at", TIME, nullable=False, server_default=NOW),
)

# Models whose files a node has or ever got: a deletion has to reach it.
staged_models = Table(
    "staged_models",
    metadata,
    make_node_id_column(primary_key=True),
    Column("model", String(255), primary_key=True, index=True),
    Column("revision", String(64), nullable=False, server_default=""),
    Column("reported_at", TIME, nullable=False, server_default=NOW),
)

# Pending removals of copies, also from nodes that are away; a row lives until its worker has confirmed the removal.
model_removals = Table(
    "model_removals",
    metadata,
    make_node_id_column(primary_key=True),
    Column("model", String(255), primary_key=True),
    Column("operation_id", ID),
    Column("due_at", TIME, nullable=False, server_default=NOW, index=True),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("problem", Text, nullable=False, server_default=""),
    Column("created_at", TIME, nullable=False, server_default=NOW),
)

# The users of a replica: one row per frontend that has lately sent it requests. The rows of a frontend that dies
# expire, so a count never leaks.
replica_use = Table(
    "replica_use",
    metadata,
    Column("replica_id", ID, ForeignKey("replicas.id", ondelete="CASCADE"), primary_key=True),
    Column("frontend_id", String(64), primary_key=True),
    Column("in_flight", Integer, nullable=False),
    Column("last_used_at", TIME),
    Column("expires_at", TIME, nullable=False),
    CheckConstraint("in_flight >= 0", name="in_flight"),
)

# Requests that wait for a model at a frontend, with the same kind of lease.
model_demand = Table(
    "model_demand",
    metadata,
    Column("model", String(255), primary_key=True),
    Column("frontend_id", String(64), primary_key=True),
    Column("waiting", Integer, nullable=False),
    Column("asked_at", TIME, nullable=False),
    Column("expires_at", TIME, nullable=False),
    CheckConstraint("waiting >= 0", name="waiting"),
)
