"""Settings of the commands that talk to a cluster. Such a command reads no other settings."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr

from corral.app.settings.base import ProcessSettings, make_shown_default
from corral.app.settings.values import Directory, FrontendUrl


class ClientSettings(ProcessSettings):
    """Settings of the commands that talk to a cluster: its address and key."""

    process: ClassVar[str] = "client"

    url: FrontendUrl | None = Field(
        default=None,
        description="Address of a frontend: http://host:8080.",
        json_schema_extra=make_shown_default("the one of `corral login`, else the cluster of `corral up`"),
    )
    key: SecretStr | None = Field(
        default=None,
        description="API key.",
        json_schema_extra=make_shown_default("the one of `corral login`, else the one of `corral up`"),
    )
    home: Directory = Field(
        default_factory=lambda: Path("~/.corral").expanduser(),
        description="Directory of the local cluster of `corral up`.",
        json_schema_extra=make_shown_default("~/.corral"),
    )
