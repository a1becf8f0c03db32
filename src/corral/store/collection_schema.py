"""The tables of collections that every PostgreSQL server can have.

The chunks with their embeddings need an extension, and so are not among them: `store/chunks.py` makes that table where
the extension is.
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
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from corral.store.schema import ID, NOW, TIME, metadata

collections = Table(
    "collections",
    metadata,
    Column("id", ID, primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("user_id", ID, ForeignKey("users.id", ondelete="CASCADE"), index=True),
    Column("owner_key_id", ID, ForeignKey("api_keys.id", ondelete="CASCADE"), index=True),
    Column("name", String(100), nullable=False),
    Column("embedding_model", String(255), nullable=False),
    # The length of the embeddings; NULL until the first chunk is stored.
    Column("dimension", Integer),
    Column("chunk_size", Integer, nullable=False),
    Column("chunk_overlap", Integer, nullable=False),
    # A text search configuration, or auto: each document has its own.
    Column("language", String(63), nullable=False, server_default="auto"),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    UniqueConstraint("owner", "name"),
    CheckConstraint("num_nonnulls(user_id, owner_key_id) = 1", name="owner"),
)

collection_sources = Table(
    "collection_sources",
    metadata,
    Column("id", ID, primary_key=True),
    Column("collection_id", ID, ForeignKey("collections.id", ondelete="CASCADE"), nullable=False),
    Column("url", Text, nullable=False),
    Column("interval_s", Double, nullable=False),
    Column("next_read_at", TIME, nullable=False, server_default=NOW, index=True),
    Column("last_read_at", TIME),
    # Why it could not be read the last time; empty if it could.
    Column("problem", Text, nullable=False, server_default=""),
    # The key or session whose models and limits count.
    Column("key_id", String(64), nullable=False),
    Column("owner_name", String(255), nullable=False),
    UniqueConstraint("collection_id", "url"),
)

collection_entries = Table(
    "collection_entries",
    metadata,
    Column("id", ID, primary_key=True),
    Column("collection_id", ID, ForeignKey("collections.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("media_type", String(100), nullable=False, server_default=""),
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("artifact_id", ID, ForeignKey("artifacts.id", ondelete="SET NULL"), index=True),
    Column("source_id", ID, ForeignKey("collection_sources.id", ondelete="SET NULL"), index=True),
    Column("state", String(16), nullable=False, server_default="queued"),
    Column("message", Text, nullable=False, server_default=""),
    # Grows with each time that it is read; searches find the chunks of `ready_version`.
    Column("version", Integer, nullable=False, server_default=text("1")),
    Column("ready_version", Integer),
    # The text search configuration of the chunks of `ready_version`; empty before the first.
    Column("language", String(63), nullable=False, server_default=""),
    Column("chunks", Integer, nullable=False, server_default=text("0")),
    # Whether an agent has remembered it; then it has a retention.
    Column("is_memory", Boolean, nullable=False, server_default=text("false")),
    # The run that reads it; NULL: none was started yet.
    Column("run_id", ID, index=True),
    Column("key_id", String(64), nullable=False),
    Column("owner_name", String(255), nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    UniqueConstraint("collection_id", "name"),
    CheckConstraint("state IN ('queued', 'reading', 'ready', 'failed')", name="state"),
)
Index("collection_entries_memories_idx", collection_entries.c.updated_at, postgresql_where=text("is_memory"))
Index(
    "collection_entries_waiting_idx",
    collection_entries.c.updated_at,
    postgresql_where=text("state = 'queued' AND run_id IS NULL"),
)
