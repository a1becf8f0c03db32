"""The frontends' library, as loads see it: files enter the cluster there, and nodes take them from there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from corral.bus.messages import BlobPlace
from corral.domain.errors import Unprocessable
from corral.domain.model import Blob, ModelFile, StoredFile
from corral.ports.origin import Moved


class FetchReport(Protocol):
    """How far it is. Cheap enough to be called for every chunk."""

    def moved(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        """Bytes of all files together; a total that is not known is None."""
        ...


class ModelLibrary(Protocol):
    async def enter(self, model: str, files: tuple[ModelFile, ...], report: FetchReport) -> tuple[StoredFile, ...]:
        """Have the files of a model in this frontend's library, and write down what they are (`model_files`, facts).

        What is there already is not fetched again. Cancelled or killed, what was fetched stays for the next call.
        Errors have the codes of `ports.origin`; those that are `retryable` may go away by themselves.
        """
        ...

    async def places_for(self, sha256s: Collection[str]) -> tuple[BlobPlace, ...]:
        """Addresses from which nodes take contents directly, beside the frontends that they know: shared storage, and
        the frontends whose libraries hold them."""
        ...

    async def drop_damaged(self, sha256s: Collection[str]) -> None:
        """Look at this frontend's copies of contents, and hash those that were touched since they were noted. Damaged
        ones are thrown away and not held any more."""
        ...

    async def forget_unused(self) -> None:
        """Contents that no model has any more may go."""
        ...


class NoLibrary:
    """A frontend that fetches nothing: models without files, and files that nodes have already."""

    async def enter(self, model: str, files: tuple[ModelFile, ...], report: FetchReport) -> tuple[StoredFile, ...]:
        del files, report
        raise Unprocessable(f"This frontend has no library, so it cannot fetch {model}.", code="no_library")

    async def places_for(self, sha256s: Collection[str]) -> tuple[BlobPlace, ...]:
        del sha256s
        return ()

    async def drop_damaged(self, sha256s: Collection[str]) -> None:
        del sha256s

    async def forget_unused(self) -> None:
        return


class Peers(Protocol):
    """The libraries of other frontends."""

    async def fetch(self, blob: Blob, urls: Sequence[str], into: Path, moved: Moved) -> Path | None:
        """A content from the first of these frontends that gives it, verified, in the folder; None if none does. What
        came of it stays for the next call."""
        ...


class NoPeers:
    """A frontend that asks no other."""

    async def fetch(self, blob: Blob, urls: Sequence[str], into: Path, moved: Moved) -> Path | None:
        del blob, urls, into, moved
        return None
