"""Quantises one model on this node: the files, the backend, the program, and the way of the result to a frontend.

    room is checked ──> files arrive ──> backend is installed ──> the program works ──> the result is sent

Guarantees: nothing is fetched before there is room for it and for the result; what the program has written is deleted,
however the run ends, also after the worker was killed. A run that is begun once more finds fetched files and sent bytes
again. Limit: work in progress is lost with its worker.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import Any, TypeVar

import structlog

from corral.bus.messages import BlobSource, ModelFileItem, StartBackend
from corral.domain.backend import Build
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.operation import JobPhase
from corral.domain.quantization import QuantizationPhase
from corral.policy.gallery import build_from_json
from corral.policy.quantization import HALF, SAFETENSORS, compute_percent
from corral.ports.runtime import Clock
from corral.transfer.files import free_bytes, run_in_thread
from corral.wire.quantization import QuantizationSourceOut
from corral.wire.run_work import RunOutcome, RunSpec
from corral.worker.control_plane import RunCall, RunFileControlPlane, RunResultFile
from corral.worker.job_ports import BackendInstaller, ModelFiles, RunnableBackend
from corral.worker.jobs.job import KeyedLocks
from corral.worker.processes.launch import EngineAllocation, make_launch
from corral.worker.programs.program_host import ProgramProgress
from corral.worker.programs.program_process import ProgramLaunch, run_program_lines
from corral.worker.runs.frontend_retries import FrontendRetryBackoff
from corral.worker.runs.trace_sender import RunAttempt

log = structlog.get_logger(__name__)
T = TypeVar("T")
# How often the operation that fetches the files is looked at.
LOOK_S = 1.0
# Of the bar, how much of the download is the way into the library; the rest is the way to this node.
LIBRARY_SHARE = 0.5
RESULT_NAME = "result.gguf"
# What a converter has made, before it is quantised.
HALF_NAME = "half.gguf"
_ADAPTER_OPTIONS = ("architecture", "heads", "kv_heads")


def has_quantizer_build() -> bool:
    """Return whether there is a build of the quantiser for this machine."""
    return sys.platform == "linux" and platform.machine().lower() in ("x86_64", "amd64")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizerDeps:
    """Dependencies of a worker's quantiser: frontends, backends, model files, and a folder for its work."""

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


class Quantizer:
    """Executes quantisations on this worker. Implements `ProgramWork`."""

    def __init__(self, deps: QuantizerDeps) -> None:
        self._deps = deps
        self._has_tidied = False

    async def execute(self, ids: RunAttempt, spec: RunSpec, progress: ProgramProgress) -> RunOutcome:
        extra = spec.extra
        progress.report(QuantizationPhase.DOWNLOADING, 0.0)
        await self._tidy()
        self._require_room(_get_count(extra, "disk_bytes"))
        build = _parse_build(extra, "build")
        source = await self._wait_for_source(ids, progress)
        model_folder = await self._fetch(source, progress)
        model_path = model_folder / source.entry
        extra = {**extra, "imatrix": _find_imatrix(extra, source, model_folder)}
        folder = self._deps.work_dir / ids.job_id
        folder.mkdir(parents=True, mode=0o700)
        try:
            output = folder / RESULT_NAME
            if model_path.suffix == SAFETENSORS:
                result = await self._convert(model_path, output, extra, progress)
            else:
                result = await self._quantize(build, model_path, output, extra, progress)
            answer = await self._send(ids, output, result, progress)
        finally:
            await run_in_thread(lambda _stop: shutil.rmtree(folder, ignore_errors=True))
        return _make_outcome(answer, result)

    # --- before the program ---

    async def _tidy(self) -> None:
        """Delete what runs of an earlier process of this worker have left; a node runs one program at a time."""
        if not self._has_tidied:
            await run_in_thread(lambda _stop: shutil.rmtree(self._deps.work_dir, ignore_errors=True))
            self._has_tidied = True

    def _require_room(self, needed_bytes: int | None) -> None:
        """Refuse a run that does not fit, before a byte moves. Files that are here already count as if they were not:
        the frontend has chosen this node by the same number."""
        folder = self._deps.work_dir.parent
        free = self._deps.free_bytes(folder)
        if needed_bytes is None or free is None or free >= needed_bytes + self._deps.headroom_bytes:
            return
        needed, here = (f"{count / 1024**2:,.0f} MiB" for count in (needed_bytes + self._deps.headroom_bytes, free))
        raise Unprocessable(
            f"The disk of this node is too small: the model and its result take {needed} with what has to stay free,"
            f" and {here} are free.",
            hint="Free disk on the node, or add one.",
            code="disk_full",
        )

    async def _wait_for_source(self, ids: RunAttempt, progress: ProgramProgress) -> QuantizationSourceOut:
        """Wait until the files are in the library, and return where they are fetched from."""
        operation_id = ""
        while True:
            fields = {"job_id": ids.job_id, "boot_id": ids.boot_id, "operation_id": operation_id}
            call = RunCall(verb="POST", parts=("quantization", "source"), fields=fields)
            answer = await self._retry(partial(self._deps.control.call_run, ids.node_id, ids.run_id, call))
            source = QuantizationSourceOut.model_validate(answer)
            if source.is_ready:
                return source
            operation_id = source.operation_id
            share = LIBRARY_SHARE * source.percent / 100.0
            progress.report(QuantizationPhase.DOWNLOADING, compute_percent(QuantizationPhase.DOWNLOADING, share))
            await self._deps.clock.sleep(LOOK_S)

    async def _fetch(self, source: QuantizationSourceOut, progress: ProgramProgress) -> Path:
        files = tuple(ModelFileItem(**one) for one in source.files)
        sources = tuple(BlobSource(**one) for one in source.sources)
        meter = _DownloadMeter(progress)
        return await self._deps.files.ensure_files(source.model, source.revision, files, sources, meter)

    async def _quantize(
        self, build: Build, model: Path, output: Path, extra: Mapping[str, Any], progress: ProgramProgress
    ) -> dict[str, Any]:
        options = {"output": str(output), "type": str(extra.get("weight_type") or "")}
        if extra.get("imatrix"):
            options["imatrix"] = str(extra["imatrix"])
        return await self._run(build, model, options, extra, progress)

    async def _convert(
        self, model: Path, output: Path, extra: Mapping[str, Any], progress: ProgramProgress
    ) -> dict[str, Any]:
        """Make a file in half precision of safetensors, and quantise it unless that is all that was requested."""
        converter = _parse_build(extra, "converter")
        adapter = extra.get("adapter")
        options = {name: str(adapter[name]) for name in _ADAPTER_OPTIONS} if isinstance(adapter, Mapping) else {}
        half = output if extra.get("weight_type") == HALF else output.with_name(HALF_NAME)
        converted = await self._run(converter, model, options | {"output": str(half)}, extra, progress)
        if half == output:
            return converted
        result = await self._quantize(_parse_build(extra, "build"), half, output, extra, progress)
        tools = f"{converted.get('tool', '')}; {result.get('tool', '')}"
        return result | {"tool": tools, "source_types": converted.get("source_types"), "is_requantized": False}

    async def _run(
        self,
        build: Build,
        model: Path,
        options: Mapping[str, str],
        extra: Mapping[str, Any],
        progress: ProgramProgress,
    ) -> dict[str, Any]:
        launch = self._make_launch(await self._ensure_backend(build), model, options, extra)
        return await run_program_lines(launch, partial(_report_line, progress))

    async def _ensure_backend(self, build: Build) -> RunnableBackend:
        installer = self._deps.installer
        if installer.resolve(build.name) is None:
            async with self._deps.backend_locks.lock_change(build.name):
                if installer.resolve(build.name) is None:
                    await installer.install(
                        build, generation=0, replaces=False, before_swap=_do_nothing, progress=_NullProgressListener()
                    )
            self._deps.on_installed()
        runnable = installer.find_runnable(build.name)
        if runnable is None:
            raise Unprocessable(f"{build.name} was removed a moment ago.", code="not_installed")
        return runnable

    def _make_launch(
        self, runnable: RunnableBackend, model: Path, options: Mapping[str, str], extra: Mapping[str, Any]
    ) -> ProgramLaunch:
        deps = self._deps
        start = StartBackend(
            job_id="",
            backend=runnable.name,
            model="",
            model_path=str(model),
            options=dict(options),
        )
        allocation = EngineAllocation(host="", port=0, threads=deps.threads)
        made = make_launch(runnable, start, allocation, deps.environment)
        return ProgramLaunch(
            command=made.command,
            environment=made.environment,
            directory=Path(options["output"]).parent,
            file_bytes_max=_get_count(extra, "disk_bytes"),
        )

    # --- after the program ---

    async def _send(
        self, ids: RunAttempt, path: Path, result: Mapping[str, Any], progress: ProgramProgress
    ) -> dict[str, Any]:
        """Send the file to a frontend and return what the frontend has made of it."""
        types = result.get("source_types")
        fields = {
            "job_id": ids.job_id,
            "boot_id": ids.boot_id,
            "tool": str(result.get("tool", ""))[:200],
            "source_types": [str(kind)[:40] for kind in types[:50]] if isinstance(types, list) else [],
            "is_requantized": bool(result.get("is_requantized")),
        }
        call = RunCall(verb="POST", parts=("quantization", "result"), fields=fields)
        file = RunResultFile(path=path, job_id=ids.job_id, call=call)

        def on_progress(sent: int, total: int) -> None:
            fraction = sent / total if total else 0.0
            progress.report(QuantizationPhase.UPLOADING, compute_percent(QuantizationPhase.UPLOADING, fraction))

        progress.report(QuantizationPhase.UPLOADING, compute_percent(QuantizationPhase.UPLOADING, 0.0))
        return await self._retry(partial(self._deps.control.store_result, ids.node_id, ids.run_id, file, on_progress))

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        return await FrontendRetryBackoff(self._deps.clock, self._deps.rng).call(call)


class _DownloadMeter:
    """Turns the bytes of fetched files into the percentage of a run. A `JobProgressListener`."""

    def __init__(self, progress: ProgramProgress) -> None:
        self._progress = progress

    def on_phase(self, phase: JobPhase) -> None:
        del phase

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        del file_name
        fraction = LIBRARY_SHARE + (1 - LIBRARY_SHARE) * (current_bytes / total_bytes if total_bytes else 0.0)
        self._progress.report(QuantizationPhase.DOWNLOADING, compute_percent(QuantizationPhase.DOWNLOADING, fraction))


class _NullProgressListener:
    """A `JobProgressListener` that ignores progress: a backend is small beside a model."""

    def on_phase(self, phase: JobPhase) -> None:
        del phase

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        del current_bytes, total_bytes, file_name


async def _do_nothing() -> None:
    """Nothing runs of a backend that is not installed."""


def _report_line(progress: ProgramProgress, fields: Mapping[str, Any]) -> None:
    """Tell a line of the program, if it is one about progress."""
    phase, fraction = fields.get("phase"), fields.get("fraction")
    if phase in (QuantizationPhase.CONVERTING, QuantizationPhase.QUANTIZING) and isinstance(fraction, int | float):
        known = QuantizationPhase(phase)
        progress.report(known, compute_percent(known, float(fraction)))


def _find_imatrix(extra: Mapping[str, Any], source: QuantizationSourceOut, folder: Path) -> str:
    """Return where the importance matrix lies on this node; empty without one."""
    name = extra.get("imatrix")
    return str(folder / str(name)) if name and any(one.get("path") == name for one in source.files) else ""


def _parse_build(extra: Mapping[str, Any], name: str) -> Build:
    found = extra.get(name)
    if not isinstance(found, Mapping):
        raise InvalidRequest(f"The work of the run names no {name}: no gallery has one.", code="bad_work")
    return build_from_json(found)


def _get_count(extra: Mapping[str, Any], name: str) -> int | None:
    needs = extra.get("needs")
    found = needs.get(name) if isinstance(needs, Mapping) else None
    return found if isinstance(found, int) and found > 0 else None


def _make_outcome(answer: Mapping[str, Any], result: Mapping[str, Any]) -> RunOutcome:
    model, problem = str(answer.get("model") or ""), str(answer.get("problem") or "")
    size_bytes = int(answer.get("size_bytes") or 0)
    content = f"Made {answer.get('file_name')}, {size_bytes / 1024**2:,.1f} MiB."
    if result.get("is_requantized"):
        content += " The weights had been quantised before, so they lost precision twice."
    if model:
        content += f" It is the model {model}."
    elif problem:
        content += f" It is no model yet: {problem}"
    return RunOutcome(state="completed", content=content, result={"model": model, "size_bytes": size_bytes})
