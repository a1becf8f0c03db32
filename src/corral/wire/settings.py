"""The settings that a frontend runs with, as JSON; secrets are masked."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from corral.wire.base import Lenient

# Far above the number of settings; keeps a mistake from becoming a long answer.
CHANGES_MAX = 50
_Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]
_Value = Annotated[str, StringConstraints(max_length=1000)] | bool | int | float | None
SettingChangesIn = Annotated[dict[_Name, _Value], Field(min_length=1, max_length=CHANGES_MAX)]


class SettingOut(Lenient):
    name: str = Field(examples=["node_lease"])
    value: str | None = Field(description="As it would be written. Null: not set, and there is no default.")
    source: str = Field(description="Where it came from.", examples=["default", "environment CORRAL_NODE_LEASE"])
    section: str = Field(description="What it is about.", examples=["nodes"])
    sentence: str = Field(description="What it does.")
    is_secret: bool = Field(description="Its value is never told.")
    is_live: bool = Field(
        default=False, description="It can be changed while frontends run: `POST /api/settings`, unless `source` wins."
    )


class SettingsOut(Lenient):
    answered_by: str = Field(description="The frontend whose settings these are; others may have been given others.")
    settings: list[SettingOut]
