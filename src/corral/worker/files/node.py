"""The files of models on a node, as jobs see them (`worker.work.Files`), and a service.

Guarantee: when `have` returns, every file is at its path below the folder and right. A call that is cancelled or killed
loses no verified chunk; the next one goes on. What a job works with is not removed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from corral.bus.messages import BlobPlace, FileItem, ModelDeleted
from corral.ports.runtime import Clock
from corral.transfer.inbox import Inbox
from corral.worker.files.folders import check_files, safe_name
from corral.worker.files.places import Library
from corral.worker.files.pulling import Puller, PullOptions
from corral.worker.files.server import FileRoutes, Gate, ServeOptions
from corral.worker.files.store import GARBAGE_AGE_S, BlobStore
from corral.worker.work import Collected, Garbage, HeldFiles, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesParts:
    models_dir: Path
    # Where files that are sent come to.
    inbox_dir: Path
    library: Library
    gate: Gate
    clock: Clock
    pull: PullOptions = field(default_factory=PullOptions)
    # The library's own folder, where that is on this machine.
    shared_dir: Path | None = None


def compose_files(parts: FilesParts) -> tuple[NodeFiles, FileRoutes]:
    """What jobs ask, and what others are served on the worker's port."""
    store = BlobStore(parts.models_dir, parts.clock, shared_dir=parts.shared_dir)
    inbox = Inbox(parts.inbox_dir, shows_paths=True)
    files = NodeFiles(store, Puller(store, parts.library, parts.clock, parts.pull), inbox, parts.clock)
    serve = ServeOptions(bandwidth_bytes_per_s=parts.pull.bandwidth_bytes_per_s)
    return files, FileRoutes(store, inbox, parts.gate, parts.clock, serve)


class NodeFiles:
    name = "files"

    def __init__(self, store: BlobStore, puller: Puller, inbox: Inbox, clock: Clock) -> None:
        self._store = store
        self._puller = puller
        self._inbox = inbox
        self._clock = clock

    @property
    def changed(self) -> Callable[[], None]:
        """Called after everything that `holdings` would tell differently."""
        return self._store.changed

    @changed.setter
    def changed(self, changed: Callable[[], None]) -> None:
        self._store.changed = changed

    async def start(self) -> None:
        await self._store.tidy()
        await self._puller.start()

    async def stop(self) -> None:
        await self._puller.stop()

    async def have(
        self,
        model: str,
        revision: str,
        files: tuple[FileItem, ...],
        places: tuple[BlobPlace, ...],
        report: Report,
    ) -> Path:
        safe_name(model)
        check_files(files)
        with self._store.holding(file.sha256 for file in files):
            await self._puller.pull(files, places, report)
            return await self._store.put_manifest(model, revision, files)

    async def delete(self, model: str) -> ModelDeleted:
        return await self._store.delete(model)

    async def holdings(self) -> HeldFiles:
        models = tuple(self._store.folders.models.values())
        return HeldFiles(models=models, blobs=(*self._store.whole(), *self._store.partial()))

    async def collect(self, *, dry_run: bool = False) -> Collected:
        """Also of what was being sent here: parts that nobody has gone on with."""
        found = await self._store.collect(dry_run=dry_run)
        old = await self._inbox.collect(self._clock.wall().timestamp() - GARBAGE_AGE_S, dry_run=dry_run)
        sent = tuple(Garbage(name=f"inbox/{path.name}", path=path, size_bytes=size) for path, size in old)
        return Collected(items=(*found.items, *sent))
