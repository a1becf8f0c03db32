"""Join tokens and API keys as JSON. A secret appears once, in the answer that made it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

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


class KeyIn(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ci", "expires_in_s": 7_776_000}]})

    name: Label = Field(examples=["ci"])
    expires_in_s: Lifetime | None = None


class KeyOut(Lenient):
    id: str
    name: str
    prefix: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    state: str = Field(description="active, expired or revoked")


class KeyMade(KeyOut):
    key: str = Field(description="The secret. It is not shown again.")
