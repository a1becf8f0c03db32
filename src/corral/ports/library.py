"""The library of the frontends, as loads see it: files enter the cluster there, and nodes fetch them from there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from corral.bus.messages import BlobSource
from corral.domain.model import Blob, ModelFile, StoredFile
from corral.ports.files import ProgressCallback


class FetchProgressListener(Protocol):
    """Interface that receives the progress of fetching a model's files. Cheap enough for every chunk."""

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        """Receive the bytes of all files together; an unknown total is None."""
        ...


class ModelLibrary(Protocol):
    """Interface of a frontend's library, which brings model files into the cluster and says where nodes get them."""

    async def ensure_files(
        self, model: str, files: tuple[ModelFile, ...], report: FetchProgressListener
    ) -> tuple[StoredFile, ...]:
        """Have the files of a model in this frontend's library, and record what they are (`model_files`, facts).

        Files that are there already are not fetched again. When this is cancelled or killed, fetched bytes stay for the
        next call. Errors have the codes of `ports.files`; those that are `retryable` may go away by
        themselves."""
        ...

    async def list_blob_sources(self, sha256s: Collection[str]) -> tuple[BlobSource, ...]:
        """Return addresses from which nodes fetch contents directly, beside the frontends that they know: shared
        storage, and the frontends whose libraries hold them."""
        ...

    async def drop_damaged(self, sha256s: Collection[str]) -> None:
        """Check this frontend's copies of contents, and hash those that were modified since they were recorded. Damaged
        ones are deleted."""
        ...

    async def forget_unused(self) -> None:
        """Delete contents that no model uses any more."""
        ...


class PeerLibraries(Protocol):
    """Interface that fetches model files from the libraries of other frontends."""

    async def fetch(self, blob: Blob, urls: Sequence[str], into: Path, moved: ProgressCallback) -> Path | None:
        """Fetch a content from the first of these frontends that has it, verified, into the folder; None if none has
        it. Partial bytes stay for the next call."""
        ...


class NoPeerLibraries:
    """Implements `PeerLibraries` without asking any other frontend."""

    async def fetch(self, blob: Blob, urls: Sequence[str], into: Path, moved: ProgressCallback) -> Path | None:
        del blob, urls, into, moved
        return None
