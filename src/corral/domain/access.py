"""Users, API keys for people and programs, join tokens for machines, and what each of them may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

# The prefix of a secret says what it is, so that a mix-up gets a helpful answer and a log can mask it.
ADMIN_KEY_PREFIX = "ck_"
JOIN_TOKEN_PREFIX = "cj_"  # noqa: S105 - a prefix, not a secret
NODE_CREDENTIAL_PREFIX = "cn_"
SESSION_PREFIX = "cs_"
# Stands for a key's id where a user has signed in without one.
SESSION_KEY_PREFIX = "user:"


class SecretState(StrEnum):
    """Names whether a key or token can still be used, and why not."""

    ACTIVE = "active"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"
    DISABLED = "disabled"  # the user is disabled


class Scope(StrEnum):
    """Names what a key or a user may do. Each scope includes those after it."""

    ADMIN = "admin"  # keys, users, tokens and settings, too
    OPERATE = "operate"  # nodes, engines, models, operations
    INFER = "infer"  # send inference requests

    def covers(self, other: Scope) -> bool:
        """Return whether this scope includes the other."""
        return _WIDEST_FIRST.index(self) <= _WIDEST_FIRST.index(other)

    def narrow_to(self, other: Scope) -> Scope:
        """Return the narrower of the two scopes."""
        return other if self.covers(other) else self


_WIDEST_FIRST = tuple(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimit:
    """Limits how much one key may use of a model; None: without limit. `model` empty: of all models together."""

    model: str = ""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    # Limits per calendar day and month in UTC.
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None

    @property
    def has_quota(self) -> bool:
        return self.tokens_per_day is not None or self.tokens_per_month is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitBalance:
    """Says how much of a limit is left, and how long until it is whole again."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAllowance:
    """Says how many requests and tokens a key may still use on a model; None: without limit."""

    requests: LimitBalance | None = None
    tokens: LimitBalance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """Describes a token with which machines register as nodes. The secret itself is not kept."""

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
    """Describes a person who may sign in, with a password or through an identity provider."""

    id: str
    name: str
    scope: Scope
    # The identity provider that signs the user in instead of a password; empty: none.
    issuer: str = ""
    subject: str = ""
    has_password: bool
    created_at: datetime
    created_by: str
    disabled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """Describes an API key: whose it is, what it may do, and whether it still works. The secret itself is not kept."""

    id: str
    name: str
    prefix: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    node_id: str | None  # the agent node that the key was made for
    state: SecretState
    scope: Scope = Scope.ADMIN
    user_id: str | None = None
    user_name: str | None = None
    # Patterns such as `llama-*`; None: every model.
    models: tuple[str, ...] | None = None
    limits: tuple[KeyLimit, ...] = ()
    # Until when the previous secret works; None: it does not.
    previous_until: datetime | None = None
    # When the key was last used; None: never.
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Identifies the caller of a request and what it may do. `node_id` is set for the key of an agent node."""

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
        """Return whether the caller is a user in a browser, without a key."""
        return self.key_id.startswith(SESSION_KEY_PREFIX)

    def may(self, scope: Scope) -> bool:
        return self.scope.covers(scope) and (self.node_id is None or scope is Scope.INFER)


def can_use_model(principal: Principal, model_name: str, names: Iterable[str] = ()) -> bool:
    """Return whether the allow-list contains the model, by its own name or by one of its aliases (`names`).

    Case-sensitive. A model that is allowed by one of its names is allowed by all: the list is about models, not about
    names.
    """
    patterns = principal.models
    if patterns is None:
        return True
    return any(fnmatchcase(name, pattern) for name in (model_name, *names) for pattern in patterns)
