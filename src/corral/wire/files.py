"""Files of models as JSON: what libraries hold, and what was thrown away."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from corral.wire.base import Lenient


class HolderOut(Lenient):
    name: str = Field(description="A frontend's id, or the name of what all frontends share.")
    is_shared: bool = Field(description="Every frontend and node can have it from there.")


class FileOut(Lenient):
    sha256: str
    size_bytes: int
    models: list[str] = Field(description="The models that are made of it; none: `collect` throws it away some day.")
    holders: list[HolderOut] = Field(description="None: it has to be fetched again before a new node can have it.")
    nodes: list[str] = Field(default_factory=list, description="Names of the nodes that have all of it.")
    created_at: datetime


class FilesOut(Lenient):
    files: list[FileOut]
    next: str | None = Field(description="Give it as `after` for the next page; null: this was the last one.")


class FileTakenOut(Lenient):
    """What was sent is here, whole and verified."""

    sha256: str
    size_bytes: int


class CopyCheckOut(Lenient):
    """What a frontend knows of its own copy of a content."""

    is_right: bool | None = Field(description="Whether its bytes are right; null: they are being looked at.")


class CollectedFileOut(Lenient):
    sha256: str
    size_bytes: int


class FilesCollectedOut(Lenient):
    dry_run: bool = Field(description="Nothing was thrown away; this is what would have been.")
    freed_bytes: int
    files: list[CollectedFileOut]
