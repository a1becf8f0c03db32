"""The one installer of a worker: install, upgrade, reinstall, roll back, remove.

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

from corral.domain.backend import Build, InstalledBackend
from corral.domain.operation import Phase
from corral.ports.runtime import Clock, Ids
from corral.runtime.disk import sync
from corral.transfer.download import Downloads, owner_of
from corral.transfer.faults import TransferFailed, told_when_full
from corral.transfer.files import write_json
from corral.transfer.http import Http
from corral.transfer.threads import in_thread
from corral.worker.backends import staging
from corral.worker.backends.faults import InstallFailed
from corral.worker.backends.garbage import collect
from corral.worker.backends.layout import RECORD, Layout, delete_tree, delete_trees, size_of, sync_tree
from corral.worker.backends.options import InstallerOptions
from corral.worker.backends.records import Entry, Pointer, Records, read_entry
from corral.worker.backends.sources.local import find_launcher
from corral.worker.backends.sources.source import Job, Source
from corral.worker.backends.system import SystemBackends
from corral.worker.work import Collected, Report, Runnable

log = structlog.get_logger(__name__)

BeforeSwap = Callable[[], Awaitable[None]]


class DiskInstaller:
    """`Installer` on a real disk. One worker holds the folder at a time."""

    def __init__(self, root: Path, clock: Clock, ids: Ids, rng: Random, options: InstallerOptions) -> None:
        self._layout = Layout(root)
        self._clock = clock
        self._ids = ids
        self._rng = rng
        self._options = options
        self._records = Records(self._layout)
        self._system = SystemBackends(options.system_root)
        # Folders of the store that a job is about to point to.
        self._held: Counter[str] = Counter()
        self._staging: set[Path] = set()
        # Folders of the trash that are being deleted.
        self._going: set[Path] = set()
        self._busy: Counter[str] = Counter()
        if self._layout.names.is_dir():
            self._records.load()

    # --- what there is ---

    def installed(self) -> tuple[InstalledBackend, ...]:
        found = {backend.name: backend for backend in self._system.backends()}
        for pointer in self._records.pointers.values():
            if self._can_run(pointer.current):
                found[pointer.name] = pointer.described
        return tuple(found[name] for name in sorted(found))

    def removed(self) -> Mapping[str, int]:
        return self._records.removed

    def resolve(self, name: str) -> str | None:
        there = self.installed()
        short = name.rpartition("@")[2].casefold()
        for backend in there:
            if backend.name.casefold() == short:
                return backend.name
        meant = {backend.name for backend in there if short in (backend.meta.casefold(), backend.alias.casefold())}
        return meant.pop() if len(meant) == 1 and short else None

    def runnable(self, name: str) -> Runnable | None:
        concrete = self.resolve(name)
        pointer = self._records.pointers.get(concrete or "")
        if concrete is None or pointer is None:
            return self._system.runnable(concrete, self._options.python) if concrete else None
        entry = pointer.current
        folder = self._layout.store / entry.key
        return Runnable(
            name=concrete,
            version=entry.build.version,
            directory=folder,
            manifest=entry.build.manifest,
            python=str(folder / entry.python) if entry.python else str(self._options.python),
        )

    # --- what changes it ---

    async def tidy(self) -> None:
        await in_thread(lambda _stop: self._tidy())
        await self._prune()

    async def install(
        self, build: Build, *, generation: int, replaces: bool, before_swap: BeforeSwap, report: Report
    ) -> InstalledBackend:
        self._layout.make()
        present = self._present(build.name)
        if present is not None and not replaces:
            await in_thread(lambda _stop: self._records.save(present.at(generation)))
            return self._records.pointers[build.name].described
        if present is None and not replaces and (system := self._system.find(build.name)) is not None:
            return system
        with self._working_on(build.name):
            report.phase(Phase.RESOLVING)
            async with self._job(build, report) as job:
                source = staging.open_source(job)
                with told_when_full("it was found out what to fetch"):
                    resolved = await source.resolve()
                there = None if replaces else self._find_in_store(build, resolved.digest)
                if there is not None:
                    await self._swap(there, generation, before_swap, report)
                else:
                    staging.check_room(job, resolved)
                    await self._stage_and_swap(job, source, generation, before_swap)
            await self._clean_up_after(build)
        return self._records.pointers[build.name].described

    async def roll_back(
        self, name: str, *, generation: int, before_swap: BeforeSwap, report: Report
    ) -> InstalledBackend:
        pointer = self._own(name)
        previous = pointer.previous
        if previous is None or not self._can_run(previous):
            raise InstallFailed(
                f"There is nothing that {pointer.name} could be rolled back to.", code="nothing_to_roll_back"
            )
        with self._working_on(pointer.name):
            report.phase(Phase.STOPPING)
            await before_swap()
            report.phase(Phase.COMMITTING)
            turned = replace(pointer.at(generation), current=previous, previous=pointer.current)
            await in_thread(lambda _stop: self._records.save(turned))
        return self._records.pointers[pointer.name].described

    async def remove(self, name: str, *, generation: int, report: Report) -> None:
        concrete = self.resolve(name) or self._unknown(name)
        if concrete not in self._records.pointers and self._system.find(concrete) is not None:
            raise _is_system(concrete)
        self._layout.make()
        report.phase(Phase.REMOVING)
        with self._working_on(concrete), told_when_full("the removal was written down"):
            await in_thread(lambda _stop: self._records.remove(concrete, generation))
            await self._prune()
            Downloads(self._layout.downloads, concrete).delete_all()

    async def discard(self, build: Build) -> None:
        if self._layout.downloads.is_dir():
            await in_thread(lambda _stop: Downloads(self._layout.downloads, build.name).delete_all())

    async def collect(self, *, dry_run: bool = False) -> Collected:
        """Remove what nothing points to and what nobody has continued, or only tell what that would be."""
        self._layout.make()
        keep = self._records.keys | frozenset(self._held)
        oldest = self._clock.wall().timestamp() - self._options.download_age_s
        used, busy = frozenset(self._staging | self._going), frozenset(self._busy)
        found = await in_thread(lambda _stop: collect(self._layout, keep, used, busy, oldest))
        if dry_run:
            return found
        # Measuring takes time: a job may have come to need one of them meanwhile.
        unused = Collected(items=tuple(item for item in found.items if not self._is_used(item.path)))
        await self._throw_away([item.path for item in unused.items])
        return unused

    def _is_used(self, path: Path) -> bool:
        if path.parent == self._layout.downloads:
            return owner_of(path.with_suffix(".json")) in self._busy
        return path.name in self._records.keys or path.name in self._held or path in self._staging | self._going

    # --- how ---

    def _present(self, name: str) -> Pointer | None:
        if problem := self._records.path_problem(name):
            raise InstallFailed(f"{name[:80]!r} cannot be a backend: {problem}.", code="bad_manifest")
        pointer = self._records.pointers.get(name)
        return pointer if pointer is not None and self._can_run(pointer.current) else None

    def _own(self, name: str) -> Pointer:
        concrete = self.resolve(name)
        pointer = self._records.pointers.get(concrete or "")
        if pointer is not None:
            return pointer
        if concrete is not None:
            raise _is_system(concrete)
        raise InstallFailed(f"{name} is not installed here.", code="not_installed")

    def _unknown(self, name: str) -> str:
        """A name that is not installed; one that several share is refused."""
        short = name.rpartition("@")[2]
        shared = [backend.name for backend in self.installed() if backend.answers_to(short)]
        if shared:
            raise InstallFailed(f"{name} may be any of {', '.join(shared)}; name one.", code="not_installed")
        return short

    def _is_whole(self, entry: Entry) -> bool:
        """The record of a folder is written last, after everything else is on the disk."""
        return (self._layout.store / entry.key / RECORD).is_file()

    def _can_run(self, entry: Entry) -> bool:
        """An environment stands on an interpreter of the machine, which may have been taken away."""
        python = self._layout.store / entry.key / entry.python
        return self._is_whole(entry) and (not entry.python or python.exists())

    @contextlib.contextmanager
    def _working_on(self, name: str) -> Iterator[None]:
        self._busy[name] += 1
        try:
            yield
        finally:
            self._busy[name] -= 1
            self._busy += Counter()

    @contextlib.contextmanager
    def _holding(self, key: str) -> Iterator[None]:
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            self._held += Counter()

    @contextlib.asynccontextmanager
    async def _job(self, build: Build, report: Report) -> AsyncIterator[Job]:
        """A staging folder for as long as the block lasts."""
        folder = self._layout.staging / self._ids.new_id()
        work = folder / "work"
        self._staging.add(folder)
        try:
            with told_when_full("the installation was prepared"):
                work.mkdir(parents=True, mode=0o700)
            async with Http(self._options.patience, self._options.environment) as http:
                yield Job(
                    build=build,
                    options=self._options,
                    clock=self._clock,
                    rng=self._rng,
                    http=http,
                    report=report,
                    downloads=self._layout.downloads,
                    work=work,
                )
        except TransferFailed as error:
            if error.slug == "disk_full":
                # A machine with a full disk needs the room more than the next attempt needs the bytes.
                await self.discard(build)
            raise
        finally:
            await self._throw_away([folder])
            self._staging.discard(folder)

    def _find_in_store(self, build: Build, digest: str | None) -> Entry | None:
        """The same content is here already: as what was there before, or under another name."""
        if digest is None or not (build.manifest.command or build.manifest.launcher):
            return None
        key = _key(digest, build)
        for pointer in self._records.pointers.values():
            for entry in (pointer.current, pointer.previous):
                if entry is None or entry.key.partition(".")[0] != key or not self._can_run(entry):
                    continue
                return replace(entry, build=build, installed_at=self._clock.wall())
        return None

    async def _stage_and_swap(self, job: Job, source: Source, generation: int, before_swap: BeforeSwap) -> None:
        tree = job.work.parent / "tree"
        tree.mkdir(mode=0o700)
        staged = await staging.stage(job, source, tree)
        key = self._free_key(_key(staged.delivered.digest, staged.build))
        with self._holding(key):
            entry = Entry(
                key=key,
                digest=staged.delivered.digest,
                uri=staged.delivered.uri,
                build=staged.build,
                size_bytes=await in_thread(lambda _stop: size_of(tree)),
                installed_at=self._clock.wall(),
                python=staged.delivered.python,
            )
            with told_when_full("the installation was written down"):
                await in_thread(lambda _stop: _seal(tree, entry))
            await self._swap(entry, generation, before_swap, job.report, tree)

    async def _swap(
        self, entry: Entry, generation: int, before_swap: BeforeSwap, report: Report, tree: Path | None = None
    ) -> None:
        with self._holding(entry.key):
            report.phase(Phase.STOPPING)
            await before_swap()
            report.phase(Phase.COMMITTING)
            with told_when_full("the installation was written down"):
                await in_thread(lambda _stop: self._commit(entry, generation, tree))

    def _commit(self, entry: Entry, generation: int, tree: Path | None) -> None:
        """The rename of the pointer is the moment at which the backend is installed."""
        if tree is not None:
            tree.rename(self._layout.store / entry.key)
            sync(self._layout.store)
        name = entry.build.name
        before = self._records.pointers.get(name)
        if before is None or not self._is_whole(before.current):
            self._records.save(Pointer(name=name, generation=generation, current=entry))
        else:
            self._records.save(before.with_current(entry, generation))

    def _free_key(self, key: str) -> str:
        """Content that is there already gets a folder of its own beside it."""
        if not (self._layout.store / key).exists() and key not in self._held:
            return key
        return f"{key}.{self._ids.new_id().rpartition('-')[2]}"

    async def _clean_up_after(self, build: Build) -> None:
        """The backend is installed: nothing that goes wrong from here on is its fault."""
        try:
            await self._prune()
            await self.discard(build)
        except OSError as error:
            log.warning("leftovers of an installation stay for now", backend=build.name, error=str(error))

    async def _prune(self) -> None:
        """Keep what something points to, or is about to.

        Listed and put aside without an await: a job holds its folder before it makes it, so no new one slips in.
        """
        keep = self._records.keys | frozenset(self._held)
        await self._throw_away([path for path in self._layout.store.iterdir() if path.name not in keep])

    async def _throw_away(self, paths: list[Path]) -> None:
        """Out of the way in one step each, so that a kill leaves nothing that looks whole; then deleted at leisure."""
        gone = []
        for path in paths:
            # Somebody else may have thrown it away first.
            with contextlib.suppress(FileNotFoundError):
                if path.is_dir() and not path.is_symlink():
                    aside = self._layout.trash / self._ids.new_id()
                    path.rename(aside)
                    gone.append(aside)
                else:
                    path.unlink()
        if gone:
            self._going.update(gone)
            try:
                await in_thread(lambda _stop: delete_trees(gone))
            finally:
                self._going.difference_update(gone)

    def _tidy(self) -> None:
        self._layout.make()
        self._records.sweep()
        self._records.load()
        for folder in (self._layout.staging, self._layout.trash):
            for path in [found for found in folder.iterdir() if found not in self._staging | self._going]:
                delete_tree(path)
        for pointer in list(self._records.pointers.values()):
            self._mend(pointer)

    def _mend(self, pointer: Pointer) -> None:
        """Somebody may have deleted folders of the store: what can still run is used, the rest forgotten."""
        current = read_entry(self._layout.store / pointer.current.key)
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


def _key(digest: str, build: Build) -> str:
    """The name of a folder: what was delivered, and the launcher that Corral puts beside it."""
    if not build.manifest.launcher:
        return digest.replace(":", "-")
    launcher = find_launcher(build.manifest.launcher).read_bytes()
    return f"sha256-{hashlib.sha256(digest.encode() + launcher).hexdigest()}"


def _seal(tree: Path, entry: Entry) -> None:
    sync_tree(tree)
    write_json(tree / RECORD, entry.to_json())


def _is_system(name: str) -> InstallFailed:
    return InstallFailed(
        f"{name} came with this machine; Corral does not change it.",
        hint="Remove it with the means of the machine.",
        code="system_backend",
    )
