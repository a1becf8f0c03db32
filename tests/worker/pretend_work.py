"""An installer and files without a disk and a supervisor without processes, to be played with.

What a disk would keep is in `PretendDisk`: it outlives the process that a test or the simulator kills. All waiting is
done on the clock that is given. A gate (`hold`) stops the work at a phase until it is opened; a plan (`fail`) makes it
fail there. `swap` is one step, as renaming a file is.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from corral.bus.messages import (
    BlobSource,
    DeleteModelReply,
    LogLine,
    ModelFileItem,
    ReadLog,
    ReadLogReply,
    RunningProcess,
    StartBackend,
)
from corral.domain.backend import BackendSource, Build, InstalledBackend, Manifest, SourceKind
from corral.domain.errors import Conflict, NotFound
from corral.domain.operation import JobPhase
from corral.policy.gallery import build_to_json
from corral.ports.runtime import Clock
from corral.worker.job_ports import (
    GarbagePath,
    GarbageReport,
    HeldBlob,
    HeldFiles,
    HeldModel,
    JobProgressListener,
    RunnableBackend,
)
from corral.worker.jobs.journal import CommandFence, JobRecord, JournalContents

CHUNK_BYTES = 1 << 20
MIB = 1 << 20


def build(name: str = "cpu-llama-cpp", version: str = "1", **changes: object) -> Build:
    """A build as a gallery would resolve it; `size_bytes` is what has to be fetched."""
    size_bytes = changes.pop("size_bytes", 8 * MIB)
    assert isinstance(size_bytes, int)
    source = BackendSource(kind=SourceKind.URL, uri=f"https://files.example/{name}-{version}", size_bytes=size_bytes)
    made = Build(name=name, version=version, source=source, manifest=Manifest(command=("{dir}/serve",)))
    return replace(made, **changes)  # type: ignore[arg-type]


def wire_build(name: str = "cpu-llama-cpp", version: str = "1", **changes: object) -> dict[str, object]:
    return build_to_json(build(name, version, **changes))


@dataclass
class PretendDisk:
    """What a machine keeps: backends, partial files, models, and the journal of jobs."""

    installed: dict[str, InstalledBackend] = field(default_factory=dict)
    previous: dict[str, InstalledBackend] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    # By the address of the source: how many bytes are there.
    partial: dict[str, int] = field(default_factory=dict)
    models: dict[str, HeldModel] = field(default_factory=dict)
    # By sha256: the size of a content, and how many bytes of it are here.
    blobs: dict[str, tuple[int, int]] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    seen: CommandFence = field(default_factory=CommandFence)


class PretendJournal:
    """On the pretend disk, which is quick and never fails unless `fault` says so."""

    def __init__(self, disk: PretendDisk) -> None:
        self._disk = disk
        self.fault: Exception | None = None
        self.saves = 0

    async def load(self) -> JournalContents:
        jobs = sorted(self._disk.jobs.values(), key=lambda record: record.number)
        return JournalContents(jobs=tuple(jobs), fence=self._disk.seen)

    async def save(self, record: JobRecord) -> None:
        self._check()
        self.saves += 1
        self._disk.jobs[record.job_id] = record

    async def forget(self, job_id: str) -> None:
        self._disk.jobs.pop(job_id, None)

    async def save_fence(self, fence: CommandFence) -> None:
        self._check()
        self._disk.seen = fence

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault


class Gates:
    """Where work waits, and where it fails; by the name of a backend and a phase."""

    def __init__(self) -> None:
        self._closed: dict[tuple[str, JobPhase], asyncio.Event] = {}
        self._faults: dict[tuple[str, JobPhase], list[Exception]] = defaultdict(list)
        # (backend, phase), in the order in which the work got there.
        self.reached: list[tuple[str, JobPhase]] = []

    def hold(self, backend: str, phase: JobPhase) -> None:
        self._closed[backend, phase] = asyncio.Event()

    def open(self, backend: str, phase: JobPhase) -> None:
        self._closed.pop((backend, phase)).set()

    def fail(self, backend: str, phase: JobPhase, error: Exception) -> None:
        """The next time that it gets there."""
        self._faults[backend, phase].append(error)

    def has_reached(self, backend: str, phase: JobPhase) -> bool:
        return (backend, phase) in self.reached

    async def enter(self, backend: str, phase: JobPhase, report: JobProgressListener) -> None:
        report.on_phase(phase)
        self.reached.append((backend, phase))
        gate = self._closed.get((backend, phase))
        if gate is not None:
            await gate.wait()
        if self._faults[backend, phase]:
            raise self._faults[backend, phase].pop(0)


class PretendInstaller:
    """`bytes_per_s` is the speed of the line; each chunk is one wait and one report."""

    def __init__(self, disk: PretendDisk, clock: Clock, *, bytes_per_s: float = 64 * MIB) -> None:
        self.disk = disk
        self.clock = clock
        self.bytes_per_s = bytes_per_s
        self.gates = Gates()
        self.at_work: dict[str, int] = defaultdict(int)
        # The most that ever worked on one backend, and on all, at a time.
        self.most_on_one = 0
        self.most_at_all = 0
        self.discarded: list[str] = []
        # What is of no use, by name; and how often it was looked for in earnest.
        self.garbage: dict[str, int] = {}
        self.collections = 0
        self.collect_fault: Exception | None = None
        self.tidied = 0

    async def tidy(self) -> None:
        self.tidied += 1

    def list_installed(self) -> tuple[InstalledBackend, ...]:
        return tuple(self.disk.installed.values())

    def list_removed(self) -> Mapping[str, int]:
        return dict(self.disk.removed)

    def resolve(self, name: str) -> str | None:
        if name in self.disk.installed:
            return name
        answering = [each.name for each in self.disk.installed.values() if each.answers_to(name)]
        return answering[0] if len(answering) == 1 else None

    def find_runnable(self, name: str) -> RunnableBackend | None:
        concrete = self.resolve(name)
        if concrete is None:
            return None
        version = self.disk.installed[concrete].version
        manifest = Manifest(options={"context_size": ("--context={value}",)})
        return RunnableBackend(name=concrete, version=version, directory=Path("/nowhere"), manifest=manifest)

    async def install(
        self,
        build: Build,
        *,
        generation: int,
        replaces: bool,
        before_swap: Callable[[], Awaitable[None]],
        progress: JobProgressListener,
    ) -> InstalledBackend:
        with self._working(build.name):
            await self.gates.enter(build.name, JobPhase.RESOLVING, progress)
            present = self.disk.installed.get(build.name)
            if present is not None and not replaces:
                self.disk.installed[build.name] = replace(present, generation=max(generation, present.generation))
                return self.disk.installed[build.name]
            await self._fetch(build, progress)
            for phase in (JobPhase.VERIFYING, JobPhase.EXTRACTING, JobPhase.CHECKING):
                await self.gates.enter(build.name, phase, progress)
            await before_swap()
            await self.gates.enter(build.name, JobPhase.COMMITTING, progress)
            return self._swap(build, generation)

    async def roll_back(
        self, name: str, *, generation: int, before_swap: Callable[[], Awaitable[None]], progress: JobProgressListener
    ) -> InstalledBackend:
        with self._working(name):
            await self.gates.enter(name, JobPhase.RESOLVING, progress)
            if name not in self.disk.previous:
                raise Conflict(f"There was nothing before {name}.", code="nothing_to_roll_back")
            await before_swap()
            await self.gates.enter(name, JobPhase.COMMITTING, progress)
            old, now = self.disk.previous[name], self.disk.installed[name]
            self.disk.previous[name] = now
            self.disk.installed[name] = replace(old, generation=generation, previous_version=now.version)
            return self.disk.installed[name]

    async def remove(self, name: str, *, generation: int, progress: JobProgressListener) -> None:
        with self._working(name):
            await self.gates.enter(name, JobPhase.REMOVING, progress)
            if name in self.disk.installed and self.disk.installed[name].is_system:
                raise Conflict(f"{name} came with the machine.", code="system_backend")
            self.disk.installed.pop(name, None)
            self.disk.previous.pop(name, None)
            self.disk.removed[name] = max(generation, self.disk.removed.get(name, 0))

    async def discard(self, build: Build) -> None:
        await self.clock.sleep(0)
        self.discarded.append(build.name)
        self.disk.partial.pop(build.source.uri, None)

    async def collect_garbage(self, *, dry_run: bool = False) -> GarbageReport:
        await self.clock.sleep(0)
        if self.collect_fault is not None:
            raise self.collect_fault
        found = [
            GarbagePath(name=name, path=Path("/nowhere") / name, size_bytes=size) for name, size in self.garbage.items()
        ]
        if not dry_run:
            self.collections += 1
            self.garbage.clear()
        return GarbageReport(items=tuple(found))

    def put(self, name: str, version: str = "1", **facts: object) -> InstalledBackend:
        """It is there from the beginning."""
        made = InstalledBackend(name=name, version=version, digest=f"sha256:{version}", **facts)  # type: ignore[arg-type]
        self.disk.installed[name] = made
        return made

    async def _fetch(self, build: Build, report: JobProgressListener) -> None:
        await self.gates.enter(build.name, JobPhase.DOWNLOADING, report)
        uri, total = build.source.uri, build.source.size_bytes or 0
        while (there := self.disk.partial.get(uri, 0)) < total:
            chunk = min(CHUNK_BYTES, total - there)
            await self.clock.sleep(chunk / self.bytes_per_s)
            self.disk.partial[uri] = there + chunk
            report.on_progress(there + chunk, total, f"{build.name}.tar.gz")

    def _swap(self, build: Build, generation: int) -> InstalledBackend:
        name, old = build.name, self.disk.installed.get(build.name)
        if old is not None:
            self.disk.previous[name] = old
        self.disk.partial.pop(build.source.uri, None)
        self.disk.removed.pop(name, None)
        self.disk.installed[name] = InstalledBackend(
            name=name,
            meta=build.meta,
            alias=build.alias,
            version=build.version,
            digest=f"sha256:{build.version}",
            uri=build.source.uri,
            gallery=build.gallery,
            generation=generation,
            size_bytes=build.source.size_bytes,
            previous_version=old.version if old else "",
        )
        return self.disk.installed[name]

    def _working(self, name: str) -> _WorkCounter:
        return _WorkCounter(self, name)


class _WorkCounter:
    def __init__(self, installer: PretendInstaller, name: str) -> None:
        self._installer = installer
        self._name = name

    def __enter__(self) -> None:
        counts = self._installer.at_work
        counts[self._name] += 1
        self._installer.most_on_one = max(self._installer.most_on_one, counts[self._name])
        self._installer.most_at_all = max(self._installer.most_at_all, sum(counts.values()))

    def __exit__(self, *_: object) -> None:
        self._installer.at_work[self._name] -= 1


class PretendFiles:
    """Files of models; `gates` stop the work by the name of a model, at `Phase.STAGING`."""

    def __init__(self, disk: PretendDisk, clock: Clock, *, bytes_per_s: float = 64 * MIB) -> None:
        self.disk = disk
        self.clock = clock
        self.bytes_per_s = bytes_per_s
        self.gates = Gates()
        # How many bytes came over the line, and the most that ever worked on one model at a time.
        self.fetched = 0
        self.at_work: dict[str, int] = defaultdict(int)
        self.most_on_one = 0
        self.holdings_fault: Exception | None = None
        self.collections = 0
        self.on_change: Callable[[], None] = lambda: None

    async def ensure_files(
        self,
        model: str,
        revision: str,
        files: tuple[ModelFileItem, ...],
        sources: tuple[BlobSource, ...],
        progress: JobProgressListener,
    ) -> Path:
        self.at_work[model] += 1
        self.most_on_one = max(self.most_on_one, self.at_work[model])
        try:
            await self.gates.enter(model, JobPhase.STAGING, progress)
            total = sum({file.sha256: file.size_bytes for file in files}.values())
            for file in files:
                await self._fetch(file, progress, total, {each.sha256 for each in files})
            self.disk.models[model] = HeldModel(name=model, revision=revision, files=files)
            self.on_change()
            return Path("/nowhere/models") / model
        finally:
            self.at_work[model] -= 1

    async def delete(self, model: str) -> DeleteModelReply:
        await self.clock.sleep(0)
        gone = self.disk.models.pop(model, None)
        used = {file.sha256 for each in self.disk.models.values() for file in each.files}
        unused = {file.sha256 for file in gone.files} - used if gone else set()
        freed = sum(self.disk.blobs.pop(sha256, (0, 0))[1] for sha256 in unused)
        self.on_change()
        return DeleteModelReply(model=model, files=len(gone.files) if gone else 0, freed_bytes=freed)

    async def list_holdings(self) -> HeldFiles:
        if self.holdings_fault is not None:
            raise self.holdings_fault
        blobs = tuple(
            HeldBlob(sha256=sha256, size_bytes=size, is_whole=there == size)
            for sha256, (size, there) in sorted(self.disk.blobs.items())
        )
        return HeldFiles(models=tuple(self.disk.models.values()), blobs=blobs)

    async def collect_garbage(self, *, dry_run: bool = False) -> GarbageReport:
        self.collections += not dry_run
        return GarbageReport()

    async def _fetch(self, file: ModelFileItem, report: JobProgressListener, total: int, digests: set[str]) -> None:
        while (there := self.disk.blobs.get(file.sha256, (0, 0))[1]) < file.size_bytes:
            chunk = min(CHUNK_BYTES, file.size_bytes - there)
            await self.clock.sleep(chunk / self.bytes_per_s)
            self.fetched += chunk
            self.disk.blobs[file.sha256] = (file.size_bytes, there + chunk)
            here = sum(self.disk.blobs.get(sha256, (0, 0))[1] for sha256 in digests)
            report.on_progress(here, total, file.path)


class PretendProcesses:
    """Processes as entries in a table. Those in `immortal` survive every stop; `gates` stop a start by the key of the
    process, at `Phase.LOADING`."""

    def __init__(self, clock: Clock, *, start_s: float = 1.0, stop_s: float = 0.1) -> None:
        self._clock = clock
        self._start_s = start_s
        self._stop_s = stop_s
        self.table: dict[str, RunningProcess] = {}
        self.gates = Gates()
        self.commands: list[StartBackend] = []
        self.on_change: Callable[[], None] = lambda: None
        self.immortal: set[str] = set()
        self.lines: dict[str, list[str]] = {}
        self.is_stopped = False
        self.name = "processes"
        self._pid = 1000

    async def start(self) -> None:
        """As a service; there is nothing to adopt."""

    async def stop(self) -> None:
        self.table.clear()
        self.is_stopped = True

    def run(self, key: str, backend: str, *, state: str = "ready") -> RunningProcess:
        """It runs already."""
        model, _, replica = key.rpartition("#")
        self._pid += 1
        made = RunningProcess(
            key=key,
            model=model,
            replica=int(replica),
            backend=backend,
            version="1",
            address=f"127.0.0.1:{self._pid}",
            pid=self._pid,
            state=state,
        )
        self.table[key] = made
        self.on_change()
        return made

    async def start_backend(self, command: StartBackend, progress: JobProgressListener) -> RunningProcess:
        progress.on_phase(JobPhase.STARTING)
        self.commands.append(command)
        key = f"{command.model}#{command.replica}"
        await self.gates.enter(key, JobPhase.LOADING, progress)
        await self._clock.sleep(self._start_s)
        found = self.table.get(key)
        if found is None or found.revision != command.revision:
            found = self.run(key, command.backend)
        self.table[key] = replace(
            found,
            revision=command.revision,
            operation_id=command.operation_id,
            job_id=command.job_id,
            threads=command.threads or 1,
            engine_key=f"key of {key}",
            ram_bytes=MIB,
        )
        return self.table[key]

    async def stop_backend(
        self, backend: str | None, *, force: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        keys = [key for key, each in self.table.items() if backend is None or each.backend == backend]
        if keys:
            await self._clock.sleep(self._stop_s)
        stopped = tuple(key for key in keys if key not in self.immortal)
        for key in stopped:
            self.table.pop(key, None)
        self.on_change()
        return stopped, tuple(key for key in keys if key in self.immortal)

    async def stop_process(self, key: str, *, expected_address: str = "", force: bool = False) -> tuple[bool, str]:
        found = self.table.get(key)
        if found is None:
            return False, ""
        if expected_address and found.address != expected_address:
            raise Conflict(f"{key} listens on {found.address}.", code="address_mismatch")
        await self._clock.sleep(self._stop_s)
        if key in self.immortal:
            raise Conflict(f"{key} could not be ended.", code="stop_failed")
        self.table.pop(key, None)
        self.on_change()
        return True, found.address

    def list_running(self) -> tuple[RunningProcess, ...]:
        return tuple(each for each in self.table.values() if each.state != "stopping")

    async def measure_running(self) -> tuple[RunningProcess, ...]:
        return tuple(replace(each, ram_bytes=7, cpu_percent=50.0) for each in self.list_running())

    async def read_log(self, query: ReadLog) -> ReadLogReply:
        if not query.key:
            return ReadLogReply(keys=tuple(self.lines))
        if query.key not in self.lines:
            raise NotFound(f"There is no log of {query.key}.", code="log_not_found")
        if len(self.lines[query.key]) <= query.after:
            await self._clock.sleep(query.wait_s)
        lines = self.lines[query.key][query.after : query.after + query.limit]
        numbered = tuple(
            LogLine(number=query.after + place, at="", stream="stdout", text=text)
            for place, text in enumerate(lines, start=1)
        )
        return ReadLogReply(keys=(query.key,), lines=numbered, first=1, next=query.after + len(lines))
