"""Who may do what: users, API keys for people and programs, join tokens for machines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

# A secret says by its first letters what it is, so that a mix-up gets a helpful answer and a log can mask it.
ADMIN_KEY_PREFIX = "ck_"
JOIN_TOKEN_PREFIX = "cj_"  # noqa: S105 - a prefix, not a secret
NODE_CREDENTIAL_PREFIX = "cn_"
SESSION_PREFIX = "cs_"
# What stands for a key's id where a user has come in without one.
SESSION_KEY_PREFIX = "user:"


class SecretState(StrEnum):
    ACTIVE = "active"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"
    DISABLED = "disabled"  # as its user is


class Scope(StrEnum):
    """What a key or a user may do. Each includes those after it."""

    ADMIN = "admin"  # keys, users, tokens and settings, too
    OPERATE = "operate"  # nodes, engines, models, operations
    INFER = "infer"  # ask models

    def covers(self, other: Scope) -> bool:
        """Whether who may this may the other, too."""
        return _WIDEST_FIRST.index(self) <= _WIDEST_FIRST.index(other)

    def within(self, other: Scope) -> Scope:
        """The narrower of the two."""
        return other if self.covers(other) else self


_WIDEST_FIRST = tuple(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimit:
    """How much one key may ask of a model; None: as much as it likes. `model` empty: of all models together."""

    model: str = ""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    # Of a calendar day and month in UTC.
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None

    @property
    def has_quota(self) -> bool:
        return self.tokens_per_day is not None or self.tokens_per_month is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What of a limit can still be used, and how long until it is whole again."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a key may still ask of a model; None: as much as it likes."""

    requests: Left | None = None
    tokens: Left | None = None


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
class User:
    id: str
    name: str
    scope: Scope
    # Who vouches for them instead of a password; empty: nobody.
    issuer: str = ""
    subject: str = ""
    has_password: bool
    created_at: datetime
    created_by: str
    disabled_at: datetime | None = None


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
    scope: Scope = Scope.ADMIN
    user_id: str | None = None
    user_name: str | None = None
    # Patterns such as `llama-*`; None: every model.
    models: tuple[str, ...] | None = None
    limits: tuple[KeyLimit, ...] = ()
    # Until when the secret before this one works; None: there is none that does.
    previous_until: datetime | None = None
    # None: never.
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is asking. `node_id` is set for a key that belongs to an agent node: it may ask models and no more."""

    key_id: str
    name: str
    node_id: str | None = None
    scope: Scope = Scope.ADMIN
    user_id: str | None = None
    models: tuple[str, ...] | None = None
    limits: tuple[KeyLimit, ...] = ()

    @property
    def is_admin(self) -> bool:
        return self.may(Scope.ADMIN)

    @property
    def is_session(self) -> bool:
        """A user in a browser: there is no key."""
        return self.key_id.startswith(SESSION_KEY_PREFIX)

    def may(self, scope: Scope) -> bool:
        return self.scope.covers(scope) and (self.node_id is None or scope is Scope.INFER)
