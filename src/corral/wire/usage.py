"""What was used, as JSON."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from corral.wire.base import Lenient


class SumsOut(Lenient):
    requests: int = Field(description="Those that reached a replica, or failed in the gateway or the engine.")
    errors: int = Field(description="Of these, those that ended with an error.")
    prompt_tokens: int
    cached_tokens: int = Field(description="Of the prompts' tokens, those that engines had in their cache.")
    completion_tokens: int
    estimated_tokens: int = Field(
        description="Of the answers' tokens, those that were counted by events, because the engine did not tell."
    )

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class UsageRowOut(SumsOut):
    at: datetime | None = Field(default=None, description="The beginning of the day or hour, in UTC.")
    key_id: str | None = None
    key: str | None = Field(default=None, description="The key's name when it was last used.")
    user: str | None = None
    model: str | None = None
    call: str | None = Field(default=None, examples=["chat"])
    node: str | None = Field(default=None, description="The name that it had then; empty: no node was reached.")


class UsageOut(Lenient):
    since: datetime
    until: datetime | None = Field(default=None, description="Absent: until now.")
    by: list[str] = Field(examples=[["model", "day"]])
    rows: list[UsageRowOut] = Field(description="In the order of what they are told by.")
    total: SumsOut
    is_cut: bool = Field(default=False, description="There are more rows; as CSV all of them are told.")
