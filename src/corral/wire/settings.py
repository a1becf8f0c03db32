"""The settings that a frontend runs with, as JSON; secrets are masked."""

from __future__ import annotations

from pydantic import Field

from corral.wire.base import Lenient


class SettingOut(Lenient):
    name: str = Field(examples=["node_lease"])
    value: str | None = Field(description="As it would be written. Null: not set, and there is no default.")
    source: str = Field(description="Where it came from.", examples=["default", "environment CORRAL_NODE_LEASE"])
    section: str = Field(description="What it is about.", examples=["nodes"])
    sentence: str = Field(description="What it does.")
    is_secret: bool = Field(description="Its value is never told.")


class SettingsOut(Lenient):
    answered_by: str = Field(description="The frontend whose settings these are; others may have been given others.")
    settings: list[SettingOut]
