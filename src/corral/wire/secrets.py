"""Bodies about secrets, which are written and never returned."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict, Field

from corral.wire.base import LenientModel, StrictModel


class SecretIn(StrictModel):
    """Body of `PUT /api/secrets/{name}`: the value of a secret (a password or token) to store."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"value": "hf_…"}]}, hide_input_in_errors=True)

    # Its length is checked with the other rules, whose errors have a hint and do not repeat the value.
    value: str = Field(
        repr=False,
        description="Text of 1 byte to 64 KiB, without NUL. It is never returned.",
        json_schema_extra={"writeOnly": True, "minLength": 1},
    )


class SecretOut(LenientModel):
    """A stored secret (a password or token) in responses: its name and times, never its value."""

    id: str = Field(description="Id of the secret in events.")
    name: str = Field(examples=["hub-token"])
    reference: str = Field(description="How a configuration refers to it.", examples=["secret:hub-token"])
    created_at: datetime
    updated_at: datetime = Field(description="When its value was last set.")
    changed_by: str = Field(description="Who set its value last.")
    last_used_at: datetime | None = Field(description="When its value was last used, to about a minute; null: never.")
