"""An artifact: a file that belongs to a person, uploaded by them or made by one of their runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType

ArtifactId = NewType("ArtifactId", str)


class ArtifactKind(StrEnum):
    """Names where a user's file comes from: an upload, or a run (such as an LLM agent's turn) that made it."""

    UPLOAD = "upload"  # the owner has uploaded it
    BATCH = "batch"  # answers or errors of a batch
    TOOL = "tool"  # a tool of a run has made it
    COLLECTION = "collection"  # a document of a collection


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Describes one file of a user: its owner, the run that made it, and the hash and size of its bytes."""

    id: ArtifactId
    # `user:<id>` or `key:<id>`: who may see it.
    owner: str
    # None: no run made it.
    run_id: str | None
    kind: ArtifactKind
    name: str
    media_type: str
    # What the owner keeps it for, in OpenAI's words: batch, batch_output, assistants, user_data, vision.
    purpose: str
    # Empty while bytes are still added.
    sha256: str
    size_bytes: int
    is_complete: bool
    created_at: datetime
    # None: it is kept until its owner or its run goes.
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactUsage:
    """Counts the files of one user and their bytes, unfinished uploads included, to check the quota."""

    files: int
    size_bytes: int
