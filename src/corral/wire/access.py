"""Join tokens and API keys as JSON. A secret appears once, in the answer that made it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from corral.domain.access import Scope
from corral.wire.base import Lenient, Strict

Label = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
YEAR_S = 365 * 24 * 3600
Lifetime = Annotated[float, Field(gt=0, le=10 * YEAR_S)]


class TokenIn(Strict):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "rack 2", "max_uses": 4, "expires_in_s": 3600, "approves": False}]}
    )

    name: Label = Field(default="join token", examples=["rack 2"])
    max_uses: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=1, description="How many machines may join with it; null for any number."
    )
    expires_in_s: Lifetime | None = Field(default=24 * 3600, description="null: it does not expire")
    approves: bool = Field(default=False, description="Machines that join with it are approved at once.")


class TokenOut(Lenient):
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


class TokenMade(TokenOut):
    token: str = Field(description="The secret. It is not shown again.")


Requests = Annotated[int, Field(ge=1, le=2**31 - 1)]
Tokens = Annotated[int, Field(ge=1, le=2**53)]
# What each scope may, for the description.
SCOPES = "admin: everything; operate: nodes, engines, models, operations; infer: ask models"
PATTERN_COUNT_MAX = 100
LIMIT_COUNT_MAX = 100
Patterns = Annotated[list[Label], Field(max_length=PATTERN_COUNT_MAX)]


class LimitIn(Strict):
    """How much a key may ask of one model, or of all together."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"requests_per_minute": 60, "tokens_per_day": 100_000}]})

    model: str = Field(default="", max_length=255, description="The model's own name; empty: all models together.")
    requests_per_minute: Requests | None = None
    tokens_per_minute: Tokens | None = None
    tokens_per_day: Tokens | None = Field(default=None, description="Of a calendar day in UTC.")
    tokens_per_month: Tokens | None = Field(default=None, description="Of a calendar month in UTC.")

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if all(value is None for name, value in self if name != "model"):
            raise ValueError("a limit needs at least one number")
        return self


def _one_each(limits: list[LimitIn]) -> list[LimitIn]:
    if len({limit.model for limit in limits}) < len(limits):
        raise ValueError("the same model has two limits")
    return limits


LimitsIn = Annotated[list[LimitIn], Field(max_length=LIMIT_COUNT_MAX), AfterValidator(_one_each)]


class KeyIn(Strict):
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
    user: str | None = Field(default=None, max_length=255, description="Whose it is; it can do no more than they may.")
    models: Patterns | None = Field(default=None, description="Patterns such as llama-*; null: every model.")
    limits: LimitsIn = Field(default=[])
    expires_in_s: Lifetime | None = None


class KeyPatch(Strict):
    """What shall be different; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"limits": [{"requests_per_minute": 60}]}]})

    name: Label = Field(default="")
    scope: Scope = Field(default=Scope.ADMIN, description=SCOPES)
    models: Patterns | None = Field(default=None, description="Patterns such as llama-*; null: every model.")
    limits: LimitsIn = Field(default=[], description="These and no others.")
    expires_in_s: Lifetime | None = Field(default=None, description="From now on; null: it does not expire.")


class RotateIn(Strict):
    grace_s: Annotated[float, Field(gt=0, le=30 * 24 * 3600)] | None = Field(
        default=None, description="How long the old secret still works; null: it stops at once."
    )


class LimitOut(Lenient):
    model: str = Field(default="", description="Empty: all models together.")
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None


class KeyOut(Lenient):
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
    node_id: str | None = Field(default=None, description="The agent node that it belongs to.")
    models: list[str] | None = Field(default=None, description="Patterns of what it may ask; null: every model.")
    limits: list[LimitOut] = Field(default=[])
    previous_until: datetime | None = Field(default=None, description="The secret before this one works until then.")
    last_used_at: datetime | None = Field(
        default=None, description="When it was last used, to about a minute; null: never."
    )


class KeyMade(KeyOut):
    key: str = Field(description="The secret. It is not shown again.")


class AuditEntryOut(Lenient):
    id: int
    at: datetime
    actor: str
    action: str = Field(examples=["node.approve"])
    target: str
    detail: str


class AuditOut(Lenient):
    entries: list[AuditEntryOut] = Field(description="The newest first.")
    next: int | None = Field(description="Send it as `before` for the next page; null: this was the last one.")
