"""Bodies about access: join tokens, API keys, users and their sessions, and the commands that make another machine a
node. A secret appears once, in the response that created it; a password is accepted and never returned.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from corral.domain.access import Scope
from corral.wire.base import LenientModel, StrictModel

Label = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
YEAR_S = 365 * 24 * 3600
Lifetime = Annotated[float, Field(gt=0, le=10 * YEAR_S)]


class TokenIn(StrictModel):
    """Body of `POST /api/tokens`: the join token to create, with which machines register as nodes."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "rack 2", "max_uses": 4, "expires_in_s": 3600, "approves": False}]}
    )

    name: Label = Field(default="join token", examples=["rack 2"])
    max_uses: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=1, description="How many machines may join with it; null for any number."
    )
    expires_in_s: Lifetime | None = Field(
        default=24 * 3600, description="Lifetime in seconds; null: it does not expire."
    )
    approves: bool = Field(default=False, description="Machines that join with it are approved automatically.")


class TokenOut(LenientModel):
    """A join token in responses of `/api/tokens`: its name, uses and expiry, without its secret."""

    id: str
    name: str
    prefix: str = Field(description="The first characters, to tell tokens apart.", examples=["cj_9fKq"])
    uses: int
    max_uses: int | None
    approves: bool
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime
    created_by: str
    state: str = Field(description="active, used_up, expired or revoked")


class CreatedTokenOut(TokenOut):
    """Response of `POST /api/tokens`: the new join token with its secret, which is shown only this once."""

    token: str = Field(description="The secret. It is not shown again.")


Requests = Annotated[int, Field(ge=1, le=2**31 - 1)]
Tokens = Annotated[int, Field(ge=1, le=2**53)]
# What each scope allows, for the description.
SCOPES = "admin: everything; operate: nodes, engines, models, operations; infer: inference only"
PATTERN_COUNT_MAX = 100
LIMIT_COUNT_MAX = 100
Patterns = Annotated[list[Label], Field(max_length=PATTERN_COUNT_MAX)]


class LimitIn(StrictModel):
    """One limit to set on an API key: requests and tokens for one model, or for all models together."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"requests_per_minute": 60, "tokens_per_day": 100_000}]})

    model: str = Field(
        default="", max_length=255, description="Name of the model, not an alias; empty: all models together."
    )
    requests_per_minute: Requests | None = None
    tokens_per_minute: Tokens | None = None
    tokens_per_day: Tokens | None = Field(default=None, description="Limit for each calendar day in UTC.")
    tokens_per_month: Tokens | None = Field(default=None, description="Limit for each calendar month in UTC.")

    @model_validator(mode="after")
    def _check_has_limit(self) -> Self:
        if all(value is None for name, value in self if name != "model"):
            raise ValueError("a limit needs at least one number")
        return self


def _check_one_each(limits: list[LimitIn]) -> list[LimitIn]:
    if len({limit.model for limit in limits}) < len(limits):
        raise ValueError("the same model has two limits")
    return limits


LimitsIn = Annotated[list[LimitIn], Field(max_length=LIMIT_COUNT_MAX), AfterValidator(_check_one_each)]


class KeyIn(StrictModel):
    """Body of `POST /api/keys`: the API key to create."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "ci", "scope": "operate", "expires_in_s": 7_776_000},
                {
                    "name": "shop",
                    "scope": "infer",
                    "models": ["llama-*"],
                    "limits": [{"requests_per_minute": 60, "tokens_per_day": 100_000}],
                },
            ]
        }
    )

    name: Label = Field(examples=["ci"])
    scope: Scope = Field(default=Scope.INFER, description=SCOPES)
    user: str | None = Field(
        default=None, max_length=255, description="User that the key belongs to; their scope also limits the key."
    )
    models: Patterns | None = Field(default=None, description="Patterns such as llama-*; null: all models.")
    limits: LimitsIn = Field(default=[])
    expires_in_s: Lifetime | None = None


class KeyPatch(StrictModel):
    """Body of `PATCH /api/keys/{key_id}`: the fields of an API key to change; a field that is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"limits": [{"requests_per_minute": 60}]}]})

    name: Label = Field(default="")
    scope: Scope = Field(default=Scope.ADMIN, description=SCOPES)
    models: Patterns | None = Field(default=None, description="Patterns such as llama-*; null: all models.")
    limits: LimitsIn = Field(default=[], description="The new limits; they replace all previous ones.")
    expires_in_s: Lifetime | None = Field(default=None, description="New lifetime from now; null: it does not expire.")


class RotateIn(StrictModel):
    """Body of `POST /api/keys/{key_id}/rotate`: how long the old secret of the API key still works."""

    grace_s: Annotated[float, Field(gt=0, le=30 * 24 * 3600)] | None = Field(
        default=None, description="How long the old secret still works; null: it stops at once."
    )


class LimitOut(LenientModel):
    """One limit of an API key in responses: requests and tokens for one model, or for all models together."""

    model: str = Field(default="", description="Empty: all models together.")
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None


class KeyOut(LenientModel):
    """An API key in responses of `/api/keys`: its scope, models and limits, without its secret."""

    id: str
    name: str
    prefix: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    state: str = Field(description="active, expired, disabled (as its user is) or revoked")
    scope: str = Field(default=Scope.ADMIN.value, description=SCOPES)
    user_id: str | None = None
    user_name: str | None = None
    node_id: str | None = Field(default=None, description="The agent node that the key belongs to.")
    models: list[str] | None = Field(default=None, description="Patterns of models that it may use; null: all models.")
    limits: list[LimitOut] = Field(default=[])
    previous_until: datetime | None = Field(default=None, description="The previous secret works until then.")
    last_used_at: datetime | None = Field(
        default=None, description="When it was last used, to about a minute; null: never."
    )


class CreatedKeyOut(KeyOut):
    """Response that creates or rotates an API key: the key with its secret, which is shown only this once."""

    key: str = Field(description="The secret. It is not shown again.")


class AuditEntryOut(LenientModel):
    """One entry of the audit log in `GET /api/audit`: who did what to which thing, and when."""

    id: int
    at: datetime
    actor: str
    action: str = Field(examples=["node.approve"])
    target: str
    detail: str


class AuditOut(LenientModel):
    """Response of `GET /api/audit`: a page of the audit log."""

    entries: list[AuditEntryOut] = Field(description="Entries, newest first.")
    next: int | None = Field(description="Send this as `before` for the next page; null: this is the last page.")


class JoinOut(LenientModel):
    """Response of `GET /api/join`: commands that make another machine a node, and whether it can reach the cluster."""

    url: str = Field(description="The address by which the other machine reaches this cluster.")
    problem: str | None = Field(description="Why other machines cannot reach this cluster; null: they can.")
    hint: str | None = Field(description="What to do about the problem.")
    command: str = Field(description="Installs Corral and starts its worker; {token} stands for a join token.")
    command_without_curl: str = Field(description="The same command for a machine without curl.")
    worker_command: str = Field(description="Starts the worker where Corral is installed already.")
    version: str = Field(description="The version that is installed.", examples=["0.1.0"])
    wheel_sha256: str = Field(description="SHA-256 of the wheel, which the script checks.")
    script_sha256: str = Field(description="SHA-256 of the script.")


# A name can be an e-mail address. Names are stored in lower case.
UserName = Annotated[
    str, StringConstraints(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$", to_lower=True)
]
# The minimum rules out most common passwords; the maximum is longer than people type.
Password = Annotated[str, StringConstraints(min_length=8, max_length=1024)]


class UserIn(StrictModel):
    """Body of `POST /api/users`: the user to create."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ada", "scope": "operate"}]})

    name: UserName
    scope: Scope = Field(default=Scope.INFER, description=SCOPES)
    password: Password | None = Field(
        default=None,
        repr=False,
        description="Without a password the user can have keys, but cannot sign in with a name.",
    )


class UserPatch(StrictModel):
    """Body of `PATCH /api/users/{user_id}`: the fields of a user to change; a field that is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"disabled": True}]})

    scope: Scope | None = Field(default=None, description=SCOPES)
    password: Password | None = Field(
        default=None, repr=False, description="Setting a password ends the sessions of the old one."
    )
    disabled: bool | None = Field(default=None, description="Disabling a user stops their keys and sessions at once.")


class UserOut(LenientModel):
    """A user in responses of `/api/users`, without the password."""

    id: str
    name: str
    scope: str = Field(description=SCOPES)
    has_password: bool
    issuer: str = Field(description="The OpenID Connect provider of the user; empty: none.")
    created_at: datetime
    created_by: str
    disabled_at: datetime | None


class LoginIn(StrictModel):
    """Body of `POST /api/session`, which signs a person in: either a user name and its password, or an API key."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ada", "password": "…"}, {"key": "ck_…"}]})

    name: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None
    password: Annotated[str, StringConstraints(max_length=1024)] | None = Field(default=None, repr=False)
    key: Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True)] | None = Field(
        default=None, repr=False, description="An API key; the session has its scope and ends with it."
    )

    @model_validator(mode="after")
    def _check_one_method(self) -> LoginIn:
        has_key, has_name = self.key is not None, self.name is not None and self.password is not None
        if has_key == has_name or (has_key and (self.name, self.password) != (None, None)):
            raise ValueError("give name and password, or a key")
        return self


class CallerOut(LenientModel):
    """Response of `GET /api/me`: who the caller is, and what the caller's key or session may do."""

    name: str
    scope: str = Field(description=SCOPES)
    key_id: str | None = Field(description="Id of the API key; null: the caller has a session.")
    user_id: str | None
    node_id: str | None = Field(description="The agent node that the key belongs to.")
    models: list[str] | None = Field(description="Patterns of models that may be used; null: all models.")
    limits: list[LimitOut]


class LoginMethodsOut(LenientModel):
    """Response of `GET /api/session/ways`: the ways to sign in that this cluster offers."""

    password: bool
    provider: str | None = Field(description="The OpenID Connect provider behind /api/session/oidc; null: none.")
