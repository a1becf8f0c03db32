"""The tables of users and of what they use.

Usage outlives keys and users: it keeps their ids and names as plain values. What a spool has delivered is known by its
last number, so that a batch that is written twice counts once.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
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

users = Table(
    "users",
    metadata,
    Column("id", ID, primary_key=True),
    # In lower case.
    Column("name", String(255), nullable=False, unique=True),
    Column("scope", String(16), nullable=False),
    # NULL: they come in by another way, or not at all.
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
    # Whose it is: a user who came in with a password or by a provider, or a key that was shown.
    Column("user_id", ID, ForeignKey("users.id", ondelete="CASCADE"), index=True),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("expires_at", TIME, nullable=False),
    Column("user_agent", String(255), nullable=False, server_default=""),
    Column("key_id", ID, ForeignKey("api_keys.id", ondelete="CASCADE"), index=True),
    CheckConstraint("num_nonnulls(user_id, key_id) = 1", name="owner"),
)

# Secrets of keys that were replaced, or that went with their users. Never pruned: 64 characters for each rotation.
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
    # Its name when it answered; empty: none was reached, or it was counted before there was this column.
    Column("node", String(255), primary_key=True, server_default=""),
    Column("key_name", String(100), nullable=False, server_default=""),
    Column("user_name", String(255), nullable=False, server_default=""),
    Column("requests", BigInteger, nullable=False, server_default=text("0")),
    Column("errors", BigInteger, nullable=False, server_default=text("0")),
    Column("prompt_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("cached_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("completion_tokens", BigInteger, nullable=False, server_default=text("0")),
    # How many of the completion tokens were counted by events instead of told by the engine.
    Column("estimated_tokens", BigInteger, nullable=False, server_default=text("0")),
    Index("usage_key_id_hour_idx", "key_id", "hour"),
)

usage_spools = Table(
    "usage_spools",
    metadata,
    Column("id", String(64), primary_key=True),
    # The last batch of it that is counted.
    Column("batch", BigInteger, nullable=False),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
)
