"""Bodies of usage reports."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from corral.wire.base import LenientModel


class UsageSumsOut(LenientModel):
    """Sums of inference requests, errors and tokens in a usage report."""

    requests: int = Field(description="Requests that reached a replica, or failed in the gateway or the engine.")
    errors: int = Field(description="Requests that ended with an error.")
    prompt_tokens: int
    cached_tokens: int = Field(description="Prompt tokens that engines had in their cache.")
    completion_tokens: int
    estimated_tokens: int = Field(
        description="Output tokens that were estimated from stream events, because the engine did not report them."
    )

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class UsageRowOut(UsageSumsOut):
    """One row of a usage report: the sums of one key, model, user, API call, node or time."""

    at: datetime | None = Field(default=None, description="Start of the day or hour, in UTC.")
    key_id: str | None = None
    key: str | None = Field(default=None, description="The key's name when it was last used.")
    user: str | None = None
    model: str | None = None
    call: str | None = Field(default=None, examples=["chat"])
    node: str | None = Field(default=None, description="Name of the node at that time; empty: no node was reached.")


class UsageOut(LenientModel):
    """Response of `GET /api/usage`: the inference requests and tokens of a time, as rows and their total."""

    since: datetime
    until: datetime | None = Field(default=None, description="End of the report; absent: now.")
    by: list[str] = Field(examples=[["model", "day"]])
    rows: list[UsageRowOut] = Field(description="Rows, sorted by the fields that they are grouped by.")
    total: UsageSumsOut
    is_cut: bool = Field(default=False, description="There are more rows; the CSV form has all of them.")
