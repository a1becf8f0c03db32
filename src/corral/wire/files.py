"""Bodies about model files: what libraries hold, and what garbage collection removed."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from corral.wire.base import LenientModel


class FileHolderOut(LenientModel):
    """A library that holds a content: a frontend's, or a shared one."""

    name: str = Field(description="Id of a frontend, or the name of the shared storage.")
    is_shared: bool = Field(description="Every frontend and node can read from this holder.")


class FileOut(LenientModel):
    """One content of model files, with the models that use it and who holds it."""

    sha256: str
    size_bytes: int
    models: list[str] = Field(description="Models that use the content; none: garbage collection removes it.")
    holders: list[FileHolderOut] = Field(
        description="Holders of the content; none: it must be downloaded again before another node can get it."
    )
    nodes: list[str] = Field(default_factory=list, description="Names of the nodes that have the whole content.")
    created_at: datetime


class FilesOut(LenientModel):
    """A page of the contents that the cluster knows."""

    files: list[FileOut]
    next: str | None = Field(description="Send this as `after` for the next page; null: this is the last page.")


class UploadedFileOut(LenientModel):
    """A file that was uploaded completely and verified."""

    sha256: str
    size_bytes: int


class CopyCheckOut(LenientModel):
    """The result of checking a frontend's copy of a content: intact or not."""

    is_right: bool | None = Field(description="Whether its bytes are intact; null: they are being checked.")


class GarbageFileOut(LenientModel):
    """One content that garbage collection removed, or would remove."""

    sha256: str
    size_bytes: int


class FileGarbageOut(LenientModel):
    """The contents that garbage collection removed from a library, or would remove."""

    dry_run: bool = Field(description="Dry run: nothing was removed; these files would be.")
    freed_bytes: int
    files: list[GarbageFileOut]
