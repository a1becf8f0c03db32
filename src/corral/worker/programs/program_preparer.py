"""Prepares the programs of runs on this node: room, files, backend, command, and the way of results to a frontend.

Guarantees: nothing is fetched before there is room for it; what a program has written is deleted, however its run ends,
also after the worker was killed. A run that is begun once more finds fetched files again.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import Any, TypeVar

from corral.bus.messages import BlobSource, ModelFileItem, StartBackend
from corral.domain.backend import Build
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.operation import JobPhase
from corral.policy.gallery import build_from_json
from corral.ports.runtime import Clock
from corral.transfer.faults import SourceFailed
from corral.transfer.files import free_bytes, run_in_thread
from corral.wire.quantization import QuantizationSourceOut
from corral.wire.run_work import RunSpec
from corral.worker.control_plane import RunCall, RunFileControlPlane, RunResultFile
from corral.worker.job_ports import BackendInstaller, ModelFiles, RunnableBackend
from corral.worker.jobs.job import KeyedLocks
from corral.worker.processes.launch import EngineAllocation, make_launch
from corral.worker.programs.program_process import ProgramLaunch
from corral.worker.runs.frontend_retries import FrontendRetryBackoff
from corral.worker.runs.trace_sender import RunAttempt

T = TypeVar("T")
SourceT = TypeVar("SourceT", bound=QuantizationSourceOut)
# How often the operation that fetches the files is looked at.
LOOK_S = 1.0
# Of the download, how much is the way into the library; the rest is the way to this node.
LIBRARY_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPreparerDeps:
    """Dependencies of a worker's programs: frontends, backends, model files, and a folder for their work."""

    control: RunFileControlPlane
    installer: BackendInstaller
    files: ModelFiles
    # Locks of backends, shared with the jobs that change them.
    backend_locks: KeyedLocks
    # Called when a backend was installed.
    on_installed: Callable[[], None]
    work_dir: Path
    environment: Mapping[str, str]
    threads: int
    headroom_bytes: int
    clock: Clock
    rng: Random
    free_bytes: Callable[[Path], int | None] = free_bytes


class ProgramPreparer:
    """Fetches what programs of runs need, and sends what they have made. One for all programs of a worker."""

    def __init__(self, deps: ProgramPreparerDeps) -> None:
        self.deps = deps
        self._has_tidied = False

    async def tidy(self) -> None:
        """Delete what runs of an earlier process of this worker have left; a node runs one program at a time."""
        if not self._has_tidied:
            await run_in_thread(lambda _stop: shutil.rmtree(self.deps.work_dir, ignore_errors=True))
            self._has_tidied = True

    def require_room(self, spec: RunSpec) -> None:
        """Refuse a run that does not fit, before a byte moves. Files that are here already count as if they were not:
        the frontend has chosen this node by the same number."""
        needed_bytes, headroom = get_need(spec, "disk_bytes"), self.deps.headroom_bytes
        free = self.deps.free_bytes(self.deps.work_dir.parent)
        if needed_bytes is None or free is None or free >= needed_bytes + headroom:
            return
        needed, here = (f"{count / 1024**2:,.0f} MiB" for count in (needed_bytes + headroom, free))
        raise Unprocessable(
            f"The disk of this node is too small: the model and its result take {needed} with what has to stay free,"
            f" and {here} are free.",
            hint="Free disk on the node, or add one.",
            code="disk_full",
        )

    @asynccontextmanager
    async def open_folder(self, ids: RunAttempt) -> AsyncIterator[Path]:
        """Make a folder for one attempt, and delete it at the end."""
        folder = self.deps.work_dir / ids.job_id
        folder.mkdir(parents=True, mode=0o700)
        try:
            yield folder
        finally:
            await run_in_thread(lambda _stop: shutil.rmtree(folder, ignore_errors=True))

    async def wait_for_source(
        self, ids: RunAttempt, part: str, kind: type[SourceT], on_fraction: Callable[[float], None]
    ) -> SourceT:
        """Wait until the files are in the library, and return where they are fetched from."""
        operation_id = ""
        while True:
            answer = await self.call(ids, (part, "source"), operation_id=operation_id)
            source = kind.model_validate(answer)
            if source.is_ready:
                return source
            operation_id = source.operation_id
            on_fraction(LIBRARY_SHARE * source.percent / 100.0)
            await self.deps.clock.sleep(LOOK_S)

    async def fetch_model(self, source: QuantizationSourceOut, on_fraction: Callable[[float], None]) -> Path:
        """Return the folder of the model on this node, with all its files."""
        files = tuple(ModelFileItem(**one) for one in source.files)
        sources = tuple(BlobSource(**one) for one in source.sources)
        meter = _DownloadMeter(on_fraction)
        return await self.deps.files.ensure_files(source.model, source.revision, files, sources, meter)

    async def ensure_backend(self, spec: RunSpec, name: str = "build") -> RunnableBackend:
        """Return the backend of a build that the work of the run names, and install it if it is not here."""
        build, installer = _parse_build(spec.extra, name), self.deps.installer
        if installer.resolve(build.name) is None:
            async with self.deps.backend_locks.lock_change(build.name):
                if installer.resolve(build.name) is None:
                    await self._install(build)
            self.deps.on_installed()
        runnable = installer.find_runnable(build.name)
        if runnable is None:
            raise Unprocessable(f"{build.name} was removed a moment ago.", code="not_installed")
        return runnable

    async def _install(self, build: Build) -> None:
        """Install a backend. A source that cannot be reached ends the run with that reason: an attempt of this node
        that ended as if its frontends were away would count as lost, and the reason would be lost with it."""
        progress = NullProgressListener()
        try:
            await self.deps.installer.install(
                build, generation=0, replaces=False, before_swap=_do_nothing, progress=progress
            )
        except SourceFailed as error:
            raise Unprocessable(
                f"{build.name} could not be installed on this node: {error.message}", hint=error.hint, code=error.slug
            ) from error

    def make_launch(
        self, runnable: RunnableBackend, spec: RunSpec, model: Path, folder: Path, options: Mapping[str, str]
    ) -> ProgramLaunch:
        start = StartBackend(job_id="", backend=runnable.name, model="", model_path=str(model), options=dict(options))
        allocation = EngineAllocation(host="", port=0, threads=self.deps.threads)
        made = make_launch(runnable, start, allocation, self.deps.environment)
        return ProgramLaunch(
            command=made.command,
            environment=made.environment,
            directory=folder,
            file_bytes_max=get_need(spec, "disk_bytes"),
        )

    # --- calls ---

    async def call(
        self, ids: RunAttempt, parts: tuple[str, ...], *, verb: str = "POST", **fields: Any
    ) -> dict[str, Any]:
        """Send a call about the run to a frontend, and return the fields of its answer."""
        call = RunCall(verb=verb, parts=parts, fields=_add_ids(ids, fields, verb))
        return await self._retry(partial(self.deps.control.call_run, ids.node_id, ids.run_id, call))

    async def send_file(
        self,
        ids: RunAttempt,
        source: Path,
        parts: tuple[str, ...],
        on_progress: Callable[[int, int], None],
        **fields: Any,
    ) -> dict[str, Any]:
        """Send a file to a frontend, tell that frontend about it, and return its answer."""
        call = RunCall(verb="POST", parts=parts, fields=_add_ids(ids, fields, "POST"))
        file = RunResultFile(path=source, job_id=ids.job_id, call=call)
        return await self._retry(partial(self.deps.control.store_result, ids.node_id, ids.run_id, file, on_progress))

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        return await FrontendRetryBackoff(self.deps.clock, self.deps.rng).call(call)


class _DownloadMeter:
    """Turns the bytes of fetched files into a share of the download. A `JobProgressListener`."""

    def __init__(self, on_fraction: Callable[[float], None]) -> None:
        self._on_fraction = on_fraction

    def on_phase(self, phase: JobPhase) -> None:
        del phase

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        del file_name
        self._on_fraction(LIBRARY_SHARE + (1 - LIBRARY_SHARE) * (current_bytes / total_bytes if total_bytes else 0.0))


class NullProgressListener:
    """A `JobProgressListener` that ignores progress: a backend is small beside a model."""

    def on_phase(self, phase: JobPhase) -> None:
        del phase

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        del current_bytes, total_bytes, file_name


async def _do_nothing() -> None:
    """Nothing runs of a backend that is not installed."""


def get_need(spec: RunSpec, name: str) -> int | None:
    needs = spec.extra.get("needs")
    found = needs.get(name) if isinstance(needs, Mapping) else None
    return found if isinstance(found, int) and found > 0 else None


def _add_ids(ids: RunAttempt, fields: Mapping[str, Any], verb: str) -> dict[str, Any]:
    """Return the fields with those that name the attempt. A GET has no body, and so no boot."""
    boot = {} if verb == "GET" else {"boot_id": ids.boot_id}
    return {"job_id": ids.job_id, **boot, **fields}


def _parse_build(extra: Mapping[str, Any], name: str) -> Build:
    found = extra.get(name)
    if not isinstance(found, Mapping):
        raise InvalidRequest(f"The work of the run names no {name}: no gallery has one.", code="bad_work")
    return build_from_json(found)
