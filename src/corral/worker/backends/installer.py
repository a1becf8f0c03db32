"""The one installer of a worker: installs, upgrades, reinstalls, rolls back and removes backends.

Guarantee: what a name pointed to goes on being runnable until one rename replaces its pointer, and only a build that
was fetched, verified, unpacked and checked is ever pointed to. Cancelled, failed or killed at any moment, the backend
is either the old one or the new one. Partial downloads survive until they are used or discarded.

Every installation is a folder of its own, also of content that is there already: a reinstall replaces every file, and
no running engine sees its files change. Two jobs for one name at a time are not expected here; jobs for different
names may run together.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.domain.backend import Build, InstalledBackend, Manifest
from corral.domain.operation import JobPhase
from corral.ports.runtime import Clock, IdGenerator
from corral.runtime.disk import sync
from corral.transfer.downloader import PartialDownloads, list_sidecar_paths, read_owner
from corral.transfer.faults import TransferFailed, translate_disk_full
from corral.transfer.files import run_in_thread, write_json
from corral.transfer.http_client import TransferHttpClient
from corral.worker.backends import build_stager
from corral.worker.backends.build_stager import parse_package_manifest, read_package_manifest
from corral.worker.backends.layout import (
    RECORD,
    BackendPointer,
    BackendRecords,
    BackendsLayout,
    InstallFailed,
    StoredBuild,
    delete_tree,
    delete_trees,
    measure_size,
    read_stored_build,
    sync_tree,
)
from corral.worker.backends.sources.local import make_launcher
from corral.worker.backends.sources.staging_source import InstallerOptions, StagingJob, StagingSource
from corral.worker.job_ports import GarbagePath, GarbageReport, JobProgressListener, RunnableBackend

log = structlog.get_logger(__name__)
BeforeSwapCallback = Callable[[], Awaitable[None]]
FOLDERS_MAX = 500


class FolderCleaner:
    """Deletes folders and downloads of backends on a worker's disk that no job of the installer uses.

    A folder is moved away in one step before it is deleted, so a kill leaves nothing that looks whole.
    """

    def __init__(self, layout: BackendsLayout, records: BackendRecords, ids: IdGenerator) -> None:
        self._layout = layout
        self._records = records
        self._ids = ids
        # Folders of the store that a job is about to point to.
        self._held: Counter[str] = Counter()
        self._staging: set[Path] = set()
        # Folders of the trash that are being deleted.
        self._deleting: set[Path] = set()
        self._busy: Counter[str] = Counter()

    def is_held(self, key: str) -> bool:
        return key in self._held

    @contextlib.contextmanager
    def mark_busy(self, name: str) -> Iterator[None]:
        """Keep the downloads of a backend until the block ends."""
        self._busy[name] += 1
        try:
            yield
        finally:
            self._busy[name] -= 1
            self._busy += Counter()

    @contextlib.contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Keep a folder of the store until the block ends."""
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            self._held += Counter()

    @contextlib.asynccontextmanager
    async def keep_staging(self, folder: Path) -> AsyncIterator[None]:
        """Keep a staging folder until the block ends, and delete it then."""
        self._staging.add(folder)
        try:
            yield
        finally:
            await self._move_and_delete([folder])
            self._staging.discard(folder)

    def remove_leftovers(self) -> None:
        """Delete staging and trash of an earlier process."""
        for folder in (self._layout.staging, self._layout.trash):
            for path in [found for found in folder.iterdir() if found not in self._staging | self._deleting]:
                delete_tree(path)

    async def prune(self) -> None:
        """Remove every stored folder that nothing points to or is about to point to.

        The folders are listed and moved without an await: a job holds its folder before it makes it, so no new one
        slips in.
        """
        keep = self._records.keys | frozenset(self._held)
        await self._move_and_delete([path for path in self._layout.store.iterdir() if path.name not in keep])

    async def collect_garbage(self, oldest_s: float, *, dry_run: bool) -> GarbageReport:
        """Remove files that nothing points to and that no job has continued since `oldest_s`, or only list them."""
        keep = self._records.keys | frozenset(self._held)
        used, busy = frozenset(self._staging | self._deleting), frozenset(self._busy)
        found = await run_in_thread(lambda _stop: find_garbage(self._layout, keep, used, busy, oldest_s))
        if dry_run:
            return found
        # Measuring takes time, so a job may need one of these folders by now.
        unused = GarbageReport(items=tuple(item for item in found.items if not self._is_used(item.path)))
        await self._move_and_delete([item.path for item in unused.items])
        return unused

    def _is_used(self, path: Path) -> bool:
        if path.parent == self._layout.downloads:
            return read_owner(path.with_suffix(".json")) in self._busy
        return path.name in self._records.keys or path.name in self._held or path in self._staging | self._deleting

    async def _move_and_delete(self, paths: list[Path]) -> None:
        """Move each path out of the way in one step, so that a kill leaves nothing that looks whole, and delete it
        afterwards."""
        moved = []
        for path in paths:
            # Another task may have removed the path first.
            with contextlib.suppress(FileNotFoundError):
                if path.is_dir() and not path.is_symlink():
                    aside = self._layout.trash / self._ids.new_id()
                    path.rename(aside)
                    moved.append(aside)
                else:
                    path.unlink()
        if moved:
            self._deleting.update(moved)
            try:
                await run_in_thread(lambda _stop: delete_trees(moved))
            finally:
                self._deleting.difference_update(moved)


class DiskInstaller:
    """Installs, upgrades, rolls back and removes engine backends on a worker's disk. Implements `BackendInstaller`."""

    def __init__(self, root: Path, clock: Clock, ids: IdGenerator, rng: Random, options: InstallerOptions) -> None:
        self._layout = BackendsLayout(root)
        self._clock = clock
        self._ids = ids
        self._rng = rng
        self._options = options
        self._records = BackendRecords(self._layout)
        self._system_backends = SystemBackends(options.system_root)
        self._cleaner = FolderCleaner(self._layout, self._records, ids)
        if self._layout.names.is_dir():
            self._records.load()

    # --- queries ---

    def list_installed(self) -> tuple[InstalledBackend, ...]:
        found = {backend.name: backend for backend in self._system_backends.list_backends()}
        for pointer in self._records.pointers.values():
            if self._can_run(pointer.current):
                found[pointer.name] = pointer.installed_backend
        return tuple(found[name] for name in sorted(found))

    def list_removed(self) -> Mapping[str, int]:
        return self._records.removed

    def resolve(self, name: str) -> str | None:
        installed = self.list_installed()
        short = name.rpartition("@")[2].casefold()
        for backend in installed:
            if backend.name.casefold() == short:
                return backend.name
        matches = {
            backend.name for backend in installed if short in (backend.meta.casefold(), backend.alias.casefold())
        }
        return matches.pop() if len(matches) == 1 and short else None

    def find_runnable(self, name: str) -> RunnableBackend | None:
        concrete = self.resolve(name)
        pointer = self._records.pointers.get(concrete or "")
        if concrete is None or pointer is None:
            return self._system_backends.find_runnable(concrete, self._options.python) if concrete else None
        entry = pointer.current
        folder = self._layout.store / entry.key
        return RunnableBackend(
            name=concrete,
            version=entry.build.version,
            directory=folder,
            manifest=entry.build.manifest,
            python=str(folder / entry.python) if entry.python else str(self._options.python),
        )

    # --- changes ---

    async def tidy(self) -> None:
        await run_in_thread(lambda _stop: self._tidy())
        await self._cleaner.prune()

    async def install(
        self,
        build: Build,
        *,
        generation: int,
        replaces: bool,
        before_swap: BeforeSwapCallback,
        progress: JobProgressListener,
    ) -> InstalledBackend:
        self._layout.make_folders()
        present = self._find_present(build.name)
        if present is not None and not replaces:
            await run_in_thread(lambda _stop: self._records.save(present.with_generation(generation)))
            return self._records.pointers[build.name].installed_backend
        if present is None and not replaces and (system := self._system_backends.find(build.name)) is not None:
            return system
        with self._cleaner.mark_busy(build.name):
            progress.on_phase(JobPhase.RESOLVING)
            async with self._open_staging_job(build, progress) as job:
                source = build_stager.open_source(job)
                with translate_disk_full("it was found out what to fetch"):
                    resolved = await source.resolve()
                stored = None if replaces else self._find_in_store(build, resolved.digest)
                if stored is not None:
                    await self._swap(stored, generation, before_swap, progress)
                else:
                    build_stager.check_room(job, resolved)
                    await self._stage_and_swap(job, source, generation, before_swap)
            await self._clean_up_after(build)
        return self._records.pointers[build.name].installed_backend

    async def roll_back(
        self, name: str, *, generation: int, before_swap: BeforeSwapCallback, progress: JobProgressListener
    ) -> InstalledBackend:
        pointer = self._get_own_pointer(name)
        previous = pointer.previous
        if previous is None or not self._can_run(previous):
            raise InstallFailed(
                f"There is nothing that {pointer.name} could be rolled back to.", code="nothing_to_roll_back"
            )
        with self._cleaner.mark_busy(pointer.name):
            progress.on_phase(JobPhase.STOPPING)
            await before_swap()
            progress.on_phase(JobPhase.COMMITTING)
            turned = replace(pointer.with_generation(generation), current=previous, previous=pointer.current)
            await run_in_thread(lambda _stop: self._records.save(turned))
        return self._records.pointers[pointer.name].installed_backend

    async def remove(self, name: str, *, generation: int, progress: JobProgressListener) -> None:
        concrete = self.resolve(name) or self._check_unambiguous(name)
        if concrete not in self._records.pointers and self._system_backends.find(concrete) is not None:
            raise _make_system_backend_error(concrete)
        self._layout.make_folders()
        progress.on_phase(JobPhase.REMOVING)
        with self._cleaner.mark_busy(concrete), translate_disk_full("the removal was written down"):
            await run_in_thread(lambda _stop: self._records.remove(concrete, generation))
            await self._cleaner.prune()
            PartialDownloads(self._layout.downloads, concrete).delete_all()

    async def discard(self, build: Build) -> None:
        if self._layout.downloads.is_dir():
            await run_in_thread(lambda _stop: PartialDownloads(self._layout.downloads, build.name).delete_all())

    async def collect_garbage(self, *, dry_run: bool = False) -> GarbageReport:
        """Remove files that nothing points to and that no job has continued, or only list them with `dry_run`."""
        self._layout.make_folders()
        oldest_s = self._clock.wall().timestamp() - self._options.download_age_s
        return await self._cleaner.collect_garbage(oldest_s, dry_run=dry_run)

    # --- helpers ---

    def _find_present(self, name: str) -> BackendPointer | None:
        if problem := self._records.find_name_problem(name):
            raise InstallFailed(f"{name[:80]!r} cannot be a backend: {problem}.", code="bad_manifest")
        pointer = self._records.pointers.get(name)
        return pointer if pointer is not None and self._can_run(pointer.current) else None

    def _get_own_pointer(self, name: str) -> BackendPointer:
        concrete = self.resolve(name)
        pointer = self._records.pointers.get(concrete or "")
        if pointer is not None:
            return pointer
        if concrete is not None:
            raise _make_system_backend_error(concrete)
        raise InstallFailed(f"{name} is not installed here.", code="not_installed")

    def _check_unambiguous(self, name: str) -> str:
        """Return a name that is not installed unchanged; refuse one that several installed backends share."""
        short = name.rpartition("@")[2]
        shared = [backend.name for backend in self.list_installed() if backend.answers_to(short)]
        if shared:
            raise InstallFailed(f"{name} may be any of {', '.join(shared)}; name one.", code="not_installed")
        return short

    def _is_whole(self, entry: StoredBuild) -> bool:
        """Return whether a folder is complete: its record is written last, after everything else is on the disk."""
        return (self._layout.store / entry.key / RECORD).is_file()

    def _can_run(self, entry: StoredBuild) -> bool:
        """Return whether the backend's interpreter still exists: an environment uses one of the machine, which may have
        been removed."""
        python = self._layout.store / entry.key / entry.python
        return self._is_whole(entry) and (not entry.python or python.exists())

    @contextlib.asynccontextmanager
    async def _open_staging_job(self, build: Build, progress: JobProgressListener) -> AsyncIterator[StagingJob]:
        """Yield a staging job whose folder exists for as long as the block lasts."""
        folder = self._layout.staging / self._ids.new_id()
        work = folder / "work"
        async with self._cleaner.keep_staging(folder):
            try:
                with translate_disk_full("the installation was prepared"):
                    work.mkdir(parents=True, mode=0o700)
                async with TransferHttpClient(self._options.timeouts, self._options.environment) as http:
                    yield StagingJob(
                        build=build,
                        options=self._options,
                        clock=self._clock,
                        rng=self._rng,
                        http=http,
                        progress=progress,
                        downloads=self._layout.downloads,
                        work=work,
                    )
            except TransferFailed as error:
                if error.slug == "disk_full":
                    # A machine with a full disk needs the space more than the next attempt needs the downloaded bytes.
                    await self.discard(build)
                raise

    def _find_in_store(self, build: Build, digest: str | None) -> StoredBuild | None:
        """Return a stored build with the same content: the previous installation, or one under another name."""
        if digest is None or not (build.manifest.command or build.manifest.launcher):
            return None
        key = _make_key(digest, build)
        for pointer in self._records.pointers.values():
            for entry in (pointer.current, pointer.previous):
                if entry is None or entry.key.partition(".")[0] != key or not self._can_run(entry):
                    continue
                return replace(entry, build=build, installed_at=self._clock.wall())
        return None

    async def _stage_and_swap(
        self, job: StagingJob, source: StagingSource, generation: int, before_swap: BeforeSwapCallback
    ) -> None:
        tree = job.work.parent / "tree"
        tree.mkdir(mode=0o700)
        staged = await build_stager.stage(job, source, tree)
        key = self._choose_key(_make_key(staged.delivery.digest, staged.build))
        with self._cleaner.hold(key):
            entry = StoredBuild(
                key=key,
                digest=staged.delivery.digest,
                uri=staged.delivery.uri,
                build=staged.build,
                size_bytes=await run_in_thread(lambda _stop: measure_size(tree)),
                installed_at=self._clock.wall(),
                python=staged.delivery.python,
            )
            with translate_disk_full("the installation was written down"):
                await run_in_thread(lambda _stop: _seal(tree, entry))
            await self._swap(entry, generation, before_swap, job.progress, tree)

    async def _swap(
        self,
        entry: StoredBuild,
        generation: int,
        before_swap: BeforeSwapCallback,
        progress: JobProgressListener,
        tree: Path | None = None,
    ) -> None:
        with self._cleaner.hold(entry.key):
            progress.on_phase(JobPhase.STOPPING)
            await before_swap()
            progress.on_phase(JobPhase.COMMITTING)
            with translate_disk_full("the installation was written down"):
                await run_in_thread(lambda _stop: self._commit(entry, generation, tree))

    def _commit(self, entry: StoredBuild, generation: int, tree: Path | None) -> None:
        """Point the name to the entry. The rename of the pointer is the moment at which the backend is installed."""
        if tree is not None:
            tree.rename(self._layout.store / entry.key)
            sync(self._layout.store)
        name = entry.build.name
        previous = self._records.pointers.get(name)
        if previous is None or not self._is_whole(previous.current):
            self._records.save(BackendPointer(name=name, generation=generation, current=entry))
        else:
            self._records.save(previous.with_current(entry, generation))

    def _choose_key(self, key: str) -> str:
        """Return a free folder name for this content; content that is stored already gets a second folder beside it."""
        if not (self._layout.store / key).exists() and not self._cleaner.is_held(key):
            return key
        return f"{key}.{self._ids.new_id().rpartition('-')[2]}"

    async def _clean_up_after(self, build: Build) -> None:
        """Clean up after an installation. Failures are only logged, because the backend is installed already."""
        try:
            await self._cleaner.prune()
            await self.discard(build)
        except OSError as error:
            log.warning("leftovers of an installation could not be removed", backend=build.name, error=str(error))

    def _tidy(self) -> None:
        self._layout.make_folders()
        self._records.remove_half_written()
        self._records.load()
        self._cleaner.remove_leftovers()
        for pointer in list(self._records.pointers.values()):
            self._repair(pointer)

    def _repair(self, pointer: BackendPointer) -> None:
        """Repair a pointer after folders of the store were deleted by hand: use what can still run, forget the rest."""
        current = read_stored_build(self._layout.store / pointer.current.key)
        previous = pointer.previous if pointer.previous and self._is_whole(pointer.previous) else None
        if current is not None:
            if previous is not pointer.previous:
                self._records.save(replace(pointer, previous=None))
            return
        log.warning("an installed backend is not complete any more", backend=pointer.name, goes_back=bool(previous))
        if previous is not None:
            self._records.save(replace(pointer, current=previous, previous=None))
        else:
            self._records.forget(pointer.name)


def _make_key(digest: str, build: Build) -> str:
    """Return the name of a stored folder: a hash of the delivered content and of Corral's launcher beside it."""
    if not build.manifest.launcher:
        return digest.replace(":", "-")
    launcher = make_launcher(build.manifest.launcher)
    return f"sha256-{hashlib.sha256(digest.encode() + launcher).hexdigest()}"


def _seal(tree: Path, entry: StoredBuild) -> None:
    sync_tree(tree)
    write_json(tree / RECORD, entry.to_json())


def _make_system_backend_error(name: str) -> InstallFailed:
    return InstallFailed(
        f"{name} came with this machine; Corral does not change it.",
        hint="Remove it with the machine's own package manager.",
        code="system_backend",
    )


def find_garbage(
    layout: BackendsLayout, kept: frozenset[str], used: frozenset[Path], busy: frozenset[str], oldest_s: float
) -> GarbageReport:
    """Return folders that no name points to, staging folders without a job, and downloads that no job has continued
    since `oldest_s`. Folders in `used` and downloads of busy backends are in use. Paths that disappear meanwhile are
    skipped: another task has removed them."""
    paths = [path for path in layout.store.iterdir() if path.name not in kept]
    paths += [path for path in (*layout.staging.iterdir(), *layout.trash.iterdir()) if path not in used]
    for partial in layout.downloads.glob("*.partial"):
        beside = list_sidecar_paths(partial)
        if _is_older(partial, oldest_s) and read_owner(beside[0]) not in busy:
            paths += [path for path in (partial, *beside) if path.exists()]
    found = [
        GarbagePath(name=path.relative_to(layout.root).as_posix(), path=path, size_bytes=_measure_size(path))
        for path in paths
    ]
    return GarbageReport(items=tuple(item for item in found if item.path.exists() or item.path.is_symlink()))


def _is_older(path: Path, oldest: float) -> bool:
    try:
        return path.stat().st_mtime < oldest
    except FileNotFoundError:
        return False


def _measure_size(path: Path) -> int:
    try:
        return measure_size(path) if path.is_dir() else path.lstat().st_size
    except FileNotFoundError:
        return 0


class SystemBackends:
    """Reads which engine backends came with the worker's machine, once at each start; Corral never changes them."""

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._found_backends: dict[str, tuple[InstalledBackend, Manifest]] | None = None

    def list_backends(self) -> tuple[InstalledBackend, ...]:
        return tuple(backend for backend, _ in self._read().values())

    def find(self, name: str) -> InstalledBackend | None:
        found = self._read().get(name)
        return found[0] if found else None

    def find_runnable(self, name: str, python: Path) -> RunnableBackend | None:
        found = self._read().get(name)
        if found is None or self._root is None:
            return None
        backend, manifest = found
        folder = self._root / name
        own = folder / "venv" / "bin" / "python"
        return RunnableBackend(
            name=name,
            version=backend.version,
            directory=folder,
            manifest=manifest,
            python=str(own if own.exists() else python),
        )

    def _read(self) -> dict[str, tuple[InstalledBackend, Manifest]]:
        if self._found_backends is None:
            self._found_backends = dict(self._scan())
        return self._found_backends

    def _scan(self) -> list[tuple[str, tuple[InstalledBackend, Manifest]]]:
        if self._root is None or not self._root.is_dir():
            return []
        found = []
        for folder in sorted(self._root.iterdir())[:FOLDERS_MAX]:
            try:
                document = read_package_manifest(folder)
                if document is not None:
                    found.append((folder.name, _parse_backend(folder, document)))
            except (InstallFailed, OSError) as error:
                log.warning("a backend of this machine is left out", folder=str(folder), error=str(error))
        return found


def _parse_backend(folder: Path, document: object) -> tuple[InstalledBackend, Manifest]:
    assert isinstance(document, dict), "it was read as a mapping"
    backend = InstalledBackend(
        name=folder.name,
        version=str(document.get("version") or ""),
        alias=str(document.get("alias") or ""),
        meta=str(document.get("meta") or ""),
        uri=str(folder),
        is_system=True,
    )
    return backend, parse_package_manifest(document, folder.name)
