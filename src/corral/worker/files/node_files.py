"""The model files of a node, as jobs see them (`worker.job_ports.ModelFiles`), and a service.

Guarantee: when `ensure_files` returns, every file is at its path below the folder and right. A call that is cancelled
or killed loses no verified chunk; the next one continues. Files that a job uses are not removed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from corral.bus.messages import BlobSource, DeleteModelReply, ModelFileItem
from corral.ports.runtime import Clock
from corral.transfer.inbox import Inbox
from corral.worker.files.blob_store import GARBAGE_AGE_S, BlobStore
from corral.worker.files.chunk_client import LibraryAccess
from corral.worker.files.content_puller import ContentPuller, PullOptions
from corral.worker.files.file_routes import FileRoutes, FileRoutesOptions, TicketContext
from corral.worker.files.model_folders import check_files, make_safe_name
from corral.worker.job_ports import GarbagePath, GarbageReport, HeldFiles, JobProgressListener


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFilesDeps:
    """Dependencies of a worker's model files: folders, access to the frontends' library, tickets, clock and options."""

    models_dir: Path
    # Where files that are sent to this node arrive.
    inbox_dir: Path
    library: LibraryAccess
    tickets: TicketContext
    clock: Clock
    pull_options: PullOptions = field(default_factory=PullOptions)
    # The library's own folder, where it is on this machine.
    shared_dir: Path | None = None


def compose_files(deps: NodeFilesDeps) -> tuple[NodeFiles, FileRoutes]:
    """Build the files service for jobs, and the routes that serve files on the worker's port."""
    store = BlobStore(deps.models_dir, deps.clock, shared_dir=deps.shared_dir)
    inbox = Inbox(deps.inbox_dir, shows_paths=True)
    files = NodeFiles(store, ContentPuller(store, deps.library, deps.clock, deps.pull_options), inbox, deps.clock)
    serve = FileRoutesOptions(bandwidth_bytes_per_s=deps.pull_options.bandwidth_bytes_per_s)
    return files, FileRoutes(store, inbox, deps.tickets, deps.clock, serve)


class NodeFiles:
    """Fetches, lists, deletes and garbage-collects the model files of a worker. Implements `ModelFiles`; a service."""

    name = "files"

    def __init__(self, store: BlobStore, puller: ContentPuller, inbox: Inbox, clock: Clock) -> None:
        self._store = store
        self._puller = puller
        self._inbox = inbox
        self._clock = clock

    @property
    def on_change(self) -> Callable[[], None]:
        """Called after every change that `list_holdings` would report."""
        return self._store.on_change

    @on_change.setter
    def on_change(self, changed: Callable[[], None]) -> None:
        self._store.on_change = changed

    async def start(self) -> None:
        await self._store.tidy()
        await self._puller.start()

    async def stop(self) -> None:
        await self._puller.stop()

    async def ensure_files(
        self,
        model: str,
        revision: str,
        files: tuple[ModelFileItem, ...],
        sources: tuple[BlobSource, ...],
        progress: JobProgressListener,
    ) -> Path:
        make_safe_name(model)
        check_files(files)
        with self._store.hold(file.sha256 for file in files):
            await self._puller.pull(files, sources, progress)
            return await self._store.put_manifest(model, revision, files)

    async def delete(self, model: str) -> DeleteModelReply:
        return await self._store.delete(model)

    async def list_holdings(self) -> HeldFiles:
        models = tuple(self._store.folders.models.values())
        return HeldFiles(models=models, blobs=(*self._store.list_whole(), *self._store.list_partial()))

    async def collect_garbage(self, *, dry_run: bool = False) -> GarbageReport:
        """Remove unused contents, and parts of files sent to this node whose sender has not continued."""
        found = await self._store.collect_garbage(dry_run=dry_run)
        old = await self._inbox.collect_garbage(self._clock.wall().timestamp() - GARBAGE_AGE_S, dry_run=dry_run)
        sent = tuple(GarbagePath(name=f"inbox/{path.name}", path=path, size_bytes=size) for path, size in old)
        return GarbageReport(items=(*found.items, *sent))
