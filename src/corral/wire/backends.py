"""Backends as JSON: what a worker reports to have, and what admins see and ask for."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from corral.wire.base import Lenient
from corral.wire.nodes import Bytes

BackendName = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")]
Generation = Annotated[int, Field(ge=0, le=2**62)]


class InstalledIn(Lenient):
    """One backend that a worker has."""

    name: BackendName
    meta: Text = ""
    alias: Text = ""
    version: Annotated[str, StringConstraints(max_length=128)] = ""
    digest: Annotated[str, StringConstraints(max_length=128)] = ""
    uri: Annotated[str, StringConstraints(max_length=4096)] = ""
    gallery: Text = ""
    generation: Generation = 0
    size_bytes: Bytes | None = None
    previous_version: Annotated[str, StringConstraints(max_length=128)] = ""
    is_system: bool = False
    installed_at: datetime | None = None


class BackendsReportIn(Lenient):
    """Everything that a worker has, at once: what is not in it is not there."""

    boot_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    backends: Annotated[list[InstalledIn], Field(max_length=1000)]
    removed: Annotated[dict[BackendName, Generation], Field(max_length=1000)] = Field(
        default_factory=dict, description="Backends that were removed, with the generation of the removal."
    )
