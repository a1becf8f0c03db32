"""Bodies about model files: what libraries hold, and what garbage collection removed."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from corral.wire.base import LenientModel


class FileHolderOut(LenientModel):
    """One place that keeps a copy of a model file: the library of a frontend, or a shared storage."""

    name: str = Field(description="Id of a frontend, or the name of the shared storage.")
    is_shared: bool = Field(description="Every frontend and node can read from this holder.")


class FileOut(LenientModel):
    """One model file, known by its sha256, with the models that use it and the places that keep a copy."""

    sha256: str
    size_bytes: int
    models: list[str] = Field(description="Models that use the content; none: garbage collection removes it.")
    holders: list[FileHolderOut] = Field(
        description="Holders of the content; none: it must be downloaded again before another node can get it."
    )
    nodes: list[str] = Field(default_factory=list, description="Names of the nodes that have the whole content.")
    created_at: datetime


class FilesOut(LenientModel):
    """Response of `GET /api/files`: a page of the model files that the cluster knows."""

    files: list[FileOut]
    next: str | None = Field(description="Send this as `after` for the next page; null: this is the last page.")


class UploadedFileOut(LenientModel):
    """Response of `PUT /api/files/{sha256}`: the model file that was uploaded completely and verified."""

    sha256: str
    size_bytes: int


class CopyCheckOut(LenientModel):
    """Response to a worker that reports damage: whether the frontend's copy of the model file is intact."""

    is_right: bool | None = Field(description="Whether its bytes are intact; null: they are being checked.")


class GarbageFileOut(LenientModel):
    """One model file that no model uses and that garbage collection removed, or would remove."""

    sha256: str
    size_bytes: int


class FileGarbageOut(LenientModel):
    """Response of `POST /api/files/collect`: unused model files that a frontend has removed, or would remove."""

    dry_run: bool = Field(description="Dry run: nothing was removed; these files would be.")
    freed_bytes: int
    files: list[GarbageFileOut]
