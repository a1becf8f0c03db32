"""Who may do what: join tokens for machines, API keys for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

# A secret says by its first letters what it is, so that a mix-up gets a helpful answer and a log can mask it.
ADMIN_KEY_PREFIX = "ck_"
JOIN_TOKEN_PREFIX = "cj_"  # noqa: S105 - a prefix, not a secret
NODE_CREDENTIAL_PREFIX = "cn_"


class SecretState(StrEnum):
    ACTIVE = "active"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    id: str
    name: str
    prefix: str
    uses: int
    max_uses: int | None
    approves: bool
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime
    created_by: str
    state: SecretState


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    id: str
    name: str
    prefix: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    node_id: str | None  # the agent node that it was made for
    state: SecretState


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is asking. `node_id` is set for a key that belongs to an agent node: it is no admin."""

    key_id: str
    name: str
    node_id: str | None = None

    @property
    def is_admin(self) -> bool:
        return self.node_id is None
