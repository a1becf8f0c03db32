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
    """Names whether an API key or join token can still be used, and why not."""

    ACTIVE = "active"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"
    DISABLED = "disabled"  # the user is disabled


class Scope(StrEnum):
    """Names what an API key or a user may do, such as admin or inference. Each scope includes those after it."""

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
    """Limits how many requests and tokens one API key may use on a model; None: no limit.

    `model` empty: the limit is for all models together.
    """

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
    """Says how much of one limit of an API key is left, and how long until the limit is whole again."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAllowance:
    """Says how many requests and tokens an API key may still use on a model; None: without limit."""

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
    """Describes an API key: its owner, its scope, and whether the key still works. The secret itself is not kept."""

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
class Owner:
    """Says who owns a thing such as a file or a run: a user, a key that belongs to no user, or the whole cluster.

    The text form is stored and never changes: `user:<id>`, `key:<id>` or `cluster`.
    """

    user_id: str | None = None
    key_id: str | None = None

    def __post_init__(self) -> None:
        assert self.user_id is None or self.key_id is None, "an owner is a user or a key"

    def __str__(self) -> str:
        if self.user_id is not None:
            return f"user:{self.user_id}"
        return "cluster" if self.key_id is None else f"key:{self.key_id}"

    @property
    def credential_id(self) -> str:
        """Return the id that requests in the owner's name count for: the key, or the user as in a session."""
        return self.key_id if self.key_id is not None else f"{SESSION_KEY_PREFIX}{self.user_id}"


CLUSTER = Owner()


def parse_owner(text: str) -> Owner:
    """Return the owner that a stored text stands for."""
    kind, _, owner_id = text.partition(":")
    assert text == "cluster" or (kind in ("user", "key") and owner_id), "a text that an owner was written as"
    if kind == "user":
        return Owner(user_id=owner_id)
    return Owner(key_id=owner_id) if kind == "key" else CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Identifies the caller of an API request, and what the caller may do.

    `node_id` is set for the key of an agent node, `is_run` for a run that sends requests to models in the name of its
    owner.
    """

    key_id: str
    name: str
    node_id: str | None = None
    scope: Scope = Scope.ADMIN
    user_id: str | None = None
    models: tuple[str, ...] | None = None
    limits: tuple[KeyLimit, ...] = ()
    is_run: bool = False
    # No client waits for the answers: requests give way to all others. Never set for a key or a session itself.
    is_background: bool = False

    @property
    def is_admin(self) -> bool:
        return self.may(Scope.ADMIN)

    @property
    def is_session(self) -> bool:
        """Return whether the caller is a user in a browser, without a key."""
        return self.key_id.startswith(SESSION_KEY_PREFIX)

    @property
    def owner(self) -> Owner:
        """Return whom everything belongs to that the caller creates: their user, or the key if it has no user."""
        return Owner(key_id=self.key_id) if self.user_id is None else Owner(user_id=self.user_id)

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


# The right to ask models in the name of the key or session that a run belongs to.
_RUN_TICKET_SCOPE = "runs:infer:"
# The same, for requests that give way to all others.
_BACKGROUND_TICKET_SCOPE = "runs:background:"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTicketScope:
    """Says which run sends a request to a model, in whose name, and whether other requests go first."""

    run_id: str
    key_id: str
    is_background: bool = False

    def __str__(self) -> str:
        prefix = _BACKGROUND_TICKET_SCOPE if self.is_background else _RUN_TICKET_SCOPE
        return f"{prefix}{self.run_id}:{self.key_id}"


def parse_run_ticket_scope(scope: str) -> RunTicketScope | None:
    """Return what a ticket lets a run do; None if the ticket is for another use."""
    for prefix in (_RUN_TICKET_SCOPE, _BACKGROUND_TICKET_SCOPE):
        run_id, _, key_id = scope.removeprefix(prefix).partition(":")
        if scope.startswith(prefix) and key_id:
            is_background = prefix == _BACKGROUND_TICKET_SCOPE
            return RunTicketScope(run_id=run_id, key_id=key_id, is_background=is_background)
    return None
