"""A storage that all frontends share and nodes can read from by address, such as an S3-compatible one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol


class Storage(Protocol):
    """Contents under their sha256. What is there is believed only if the registry says that it was put and verified."""

    @property
    def name(self) -> str:
        """As whose the contents are registered; the same on every frontend."""
        ...

    async def find(self, sha256: str) -> int | None:
        """The size of what lies under this sha256, whatever it is; None if there is nothing."""
        ...

    async def put(self, sha256: str, path: Path, moved: Callable[[int], None]) -> None:
        """Bring a whole file there, replacing what was there; each part is checked on its way by the storage.

        `Unavailable` (storage_unavailable) if it does not answer, `Unprocessable` (storage_refused) if it does not
        take it. `moved` is told how many bytes are there by now.
        """
        ...

    def read(self, sha256: str, offset: int, length: int) -> AsyncIterator[bytes]:
        """These bytes of a content, in pieces; `NotFound` (blob_not_here) if it is gone."""
        ...

    async def address(self, sha256: str, life_s: float) -> str:
        """Where anybody can GET it, with ranges, for so long; the address is a secret."""
        ...

    async def remove(self, sha256: str) -> None:
        """It is gone when this returns; also if it was never there."""
        ...

    async def close(self) -> None: ...
