"""Stages packages of the Python index in an environment of their own.

uv answers the one hard question, which files a set of requirements means; these are then fetched like any other file,
so they have byte progress, go on after an interruption and are verified. Only wheels are taken: building from source
would run a stranger's program and needs compilers. The digest of the set is known before anything is fetched. An
environment can be moved: it is made in the staging folder and runs in the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import packaging
import uv
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from corral.domain.operation import JobPhase
from corral.runtime import processes
from corral.transfer.downloader import DownloadedFile, DownloadRequest
from corral.transfer.faults import SourceFailed, TransferFailed, make_disk_full_error
from corral.transfer.files import run_in_thread
from corral.transfer.http_client import explain_uv_output, redact_url
from corral.transfer.package_index import make_plain_environment, make_uv_environment
from corral.worker.backends.layout import InstallFailed, is_disk_full_message
from corral.worker.backends.sources.staging_source import DownloadMeter, ResolvedSource, SourceDelivery, StagingJob

# How many sizes are requested at once.
_SIZE_REQUESTS_MAX = 8
_NO_SOLUTION = 1
# Report an unreachable index within seconds: the control plane retries later, so uv need not do so first.
# Variables that the machine sets itself take precedence over these.
UV_FAST_FAILURE: Mapping[str, str] = {"UV_HTTP_RETRIES": "1", "UV_HTTP_CONNECT_TIMEOUT": "5"}
PYTHON = "venv/bin/python"
_INSPECT_LIMIT_S = 60.0
_INSPECT_SCRIPT = """\
import json, platform, sys
sys.path.insert(0, sys.argv[1])
from packaging.tags import sys_tags
answer = {"version": platform.python_version(), "tags": [str(tag) for tag in sys_tags()]}
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(answer, file)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedWheel:
    """One Python wheel that the requirements of an engine backend resolve to, and the request that downloads it."""

    name: str
    version: str
    request: DownloadRequest


def parse_hashes(requirements: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the promised hashes of each package, none where nothing is promised. Options of pip are refused: a gallery
    does not choose the index."""
    promised: dict[str, frozenset[str]] = {}
    for line in _split_lines(requirements):
        what, *hashes = (part.strip() for part in line.split("--hash="))
        try:
            name = canonicalize_name(Requirement(what).name)
        except InvalidRequirement as error:
            raise InstallFailed(f"{what!r} is not a requirement: {error}.", code="bad_manifest") from error
        found = frozenset(text.removeprefix("sha256:") for text in hashes if text.startswith("sha256:"))
        promised[name] = promised.get(name, frozenset()) | found
    return promised


def _split_lines(requirements: Sequence[str]) -> list[str]:
    joined = "\n".join(requirements).replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]


class PypiSource:
    """Builds an engine backend as a Python virtual environment from the wheels that its requirements resolve to."""

    def __init__(self, job: StagingJob) -> None:
        self._job = job
        self._requirements = job.build.source.requirements
        self._downloader = job.make_downloader()
        self._interpreter: PythonInterpreter | None = None
        self._wheels: tuple[ResolvedWheel, ...] = ()

    async def resolve(self) -> ResolvedSource:
        promised = parse_hashes(self._requirements)
        self._interpreter = await find_interpreter(self._job, self._job.build.source.python)
        # Hashes for everything promise that everything is listed, so no package metadata is requested.
        lock = await self._compile(self._interpreter, is_complete=all(promised.values()))
        wheels = tuple(_choose_wheel(package, self._interpreter) for package in lock.get("packages", ()))
        _check_promises(wheels, promised)
        first = next(iter(promised), "")
        ordered = sorted(wheels, key=lambda wheel: (wheel.name != first, wheel.name))
        self._wheels = await self._with_sizes(ordered)
        sizes = [wheel.request.size_bytes for wheel in self._wheels]
        total = sum(size for size in sizes if size is not None) if None not in sizes else None
        return ResolvedSource(
            digest=self._compute_digest([wheel.request.sha256 for wheel in self._wheels]),
            total_bytes=total if total is not None else self._job.build.source.size_bytes,
            have_bytes=sum(self._downloader.files.count_bytes(wheel.request) for wheel in self._wheels),
        )

    async def stage(self, folder: Path) -> SourceDelivery:
        assert self._interpreter is not None, "resolve comes first"
        fetched, files = await self.fetch_wheels()
        self._job.progress.on_phase(JobPhase.EXTRACTING)
        await make_environment(self._job, folder, self._interpreter, files)
        return SourceDelivery(digest=self.compute_digest(fetched), uri=redact_url(fetched[0].url), python=PYTHON)

    def compute_digest(self, fetched: Sequence[DownloadedFile]) -> str:
        digest = self._compute_digest([one.sha256 for one in fetched])
        assert digest is not None, "every file that was fetched has a digest"
        return digest

    async def fetch_wheels(self) -> tuple[list[DownloadedFile], list[Path]]:
        """Return the downloaded files, and links to them under the names that uv expects."""
        meter = DownloadMeter(
            self._job.progress, {wheel.request.file_name: wheel.request.size_bytes for wheel in self._wheels}
        )
        fetched = [
            await self._downloader.fetch(wheel.request, meter.track_file(wheel.request.file_name))
            for wheel in self._wheels
        ]
        names = [wheel.request.file_name for wheel in self._wheels]
        return fetched, await run_in_thread(lambda _stop: link_wheels(self._job.work, fetched, names))

    @property
    def interpreter(self) -> PythonInterpreter:
        assert self._interpreter is not None, "resolve comes first"
        return self._interpreter

    def _compute_digest(self, sums: Sequence[str]) -> str | None:
        """Return the digest of the files in the environment and of its interpreter; None if a hash is not known yet."""
        assert self._interpreter is not None, "resolve comes first"
        if not all(sums):
            return None
        lines = [f"{wheel.name} {wheel.version} {sha256}" for wheel, sha256 in zip(self._wheels, sums, strict=True)]
        text = "\n".join([*sorted(lines), self._interpreter.tag])
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    async def _compile(self, interpreter: PythonInterpreter, *, is_complete: bool) -> Mapping[str, Any]:
        requirements, lock = self._job.work / "requirements.txt", self._job.work / "pylock.toml"
        requirements.write_text("\n".join(_split_lines(self._requirements)) + "\n", encoding="utf-8")
        command = [find_uv(), "pip", "compile", "--quiet", "--no-header", "--format", "pylock.toml"]
        command += ["--only-binary", ":all:", "--python", str(interpreter.path), "--output-file", str(lock)]
        command += ["--no-deps"] if is_complete else []
        environment = make_uv_environment(self._job.options.environment)
        environment["UV_CACHE_DIR"] = str(self._job.work / "uv-cache")
        for name, value in UV_FAST_FAILURE.items():
            environment.setdefault(name, value)
        ended = await processes.run_program(
            [*command, str(requirements)],
            folder=self._job.work,
            environment=environment,
            limit_s=self._job.options.timeouts.resolve_s,
        )
        if not ended.is_success:
            raise _make_resolve_error(self._job.build.name, ended, environment)
        return tomllib.loads(lock.read_text(encoding="utf-8"))

    async def _with_sizes(self, wheels: Sequence[ResolvedWheel]) -> tuple[ResolvedWheel, ...]:
        """Return the wheels with their sizes: if the index gives none, the file's server does."""
        slots = asyncio.Semaphore(_SIZE_REQUESTS_MAX)

        async def fetch_size(wheel: ResolvedWheel) -> ResolvedWheel:
            if wheel.request.size_bytes is not None:
                return wheel
            async with slots:
                return replace(
                    wheel, request=replace(wheel.request, size_bytes=await self._downloader.fetch_size(wheel.request))
                )

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(fetch_size(wheel)) for wheel in wheels]
        return tuple(task.result() for task in tasks)


def link_wheels(work: Path, fetched: Sequence[DownloadedFile], names: Sequence[str]) -> list[Path]:
    folder = work / "wheels"
    folder.mkdir(exist_ok=True)
    made = []
    for one, name in zip(fetched, names, strict=True):
        path = folder / name
        path.unlink(missing_ok=True)
        if one.url.startswith("file:"):
            path.symlink_to(one.path)
        else:
            path.hardlink_to(one.path)
        made.append(path)
    return made


def _make_resolve_error(
    name: str, ended: processes.ProgramResult, environment: Mapping[str, str]
) -> TransferFailed | SourceFailed:
    what = f"The requirements of {name} could not be resolved"
    if is_disk_full_message(ended.output):
        return make_disk_full_error("there was no room left while the requirements were resolved")
    if ended.code != _NO_SOLUTION:
        if (unreached := explain_uv_output(ended.tail, environment)) is not None:
            return unreached
        return SourceFailed(f"{what}: uv {ended.outcome}.\n{ended.tail}", code="source_unavailable")
    if "no usable wheels" in ended.output or "no wheels with a matching" in ended.output:
        return InstallFailed(
            f"{what}: there is no wheel for this machine, and nothing is built from source.\n{ended.tail}",
            code="unsupported",
        )
    return InstallFailed(f"{what}.\n{ended.tail}", code="not_found")


def _check_promises(wheels: Sequence[ResolvedWheel], promised: Mapping[str, frozenset[str]]) -> None:
    if not any(promised.values()):
        return
    for wheel in wheels:
        if wheel.request.sha256 not in promised.get(wheel.name, frozenset()):
            raise InstallFailed(
                f"{wheel.request.file_name} has the sha256 {wheel.request.sha256 or '(none)'}, which the gallery"
                " does not promise.",
                hint="With hashes, every package that is needed has to be listed with its own.",
                code="digest_mismatch",
            )


def _choose_wheel(package: Mapping[str, Any], interpreter: PythonInterpreter) -> ResolvedWheel:
    """Return the wheel that fits the interpreter best."""
    name, version = canonicalize_name(str(package["name"])), str(package.get("version", ""))
    archive = package.get("archive")
    best: tuple[int, ResolvedWheel] | None = None
    for found in package.get("wheels") or ([archive] if archive else []):
        request = _make_request(found)
        rank = _rank_wheel(request.file_name, interpreter)
        if rank is not None and (best is None or rank < best[0]):
            best = (rank, ResolvedWheel(name=name, version=version, request=request))
    if best is None:
        raise InstallFailed(
            f"{name} {version} has no wheel for this machine ({interpreter.tag}), and nothing is built from source.",
            code="unsupported",
        )
    return best[1]


def _make_request(found: Mapping[str, Any]) -> DownloadRequest:
    url = str(found["url"]) if "url" in found else Path(str(found["path"])).resolve().as_uri()
    return DownloadRequest(
        url=url,
        file_name=str(found.get("name") or Path(unquote(urlsplit(url).path)).name),
        sha256=str(found.get("hashes", {}).get("sha256", "")),
        size_bytes=found.get("size"),
        is_size_promised="size" in found,
    )


def _rank_wheel(file_name: str, interpreter: PythonInterpreter) -> int | None:
    try:
        tags = {str(tag) for tag in parse_wheel_filename(file_name)[3]}
    except InvalidWheelFilename:
        return None
    return next((rank for rank, tag in enumerate(interpreter.tags) if tag in tags), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonInterpreter:
    """A Python interpreter of the worker's machine: its path, version and the wheels that it can install."""

    path: Path
    version: str
    # Tags of the wheels that it takes, best first.
    tags: tuple[str, ...]

    @property
    def tag(self) -> str:
        return self.tags[0]


def find_uv() -> str:
    try:
        return uv.find_uv_bin()
    except FileNotFoundError as error:
        raise InstallFailed(
            "uv is not installed beside this worker.", hint="Install Corral again.", code="no_python"
        ) from error


async def find_interpreter(job: StagingJob, specifier: str) -> PythonInterpreter:
    """Return the worker's own interpreter if it fits, otherwise another one of this machine; none is downloaded."""
    try:
        versions = SpecifierSet(specifier)
    except InvalidSpecifier as error:
        raise InstallFailed(f"{specifier!r} says no versions of Python.", code="bad_manifest") from error
    own = await _inspect_interpreter(job, job.options.python)
    if own is not None and versions.contains(own.version, prereleases=True):
        return own
    command = [find_uv(), "python", "find", "--no-python-downloads", "--no-project", specifier]
    found = await processes.run_program(
        command, folder=job.work, environment=make_uv_environment(job.options.environment), limit_s=_INSPECT_LIMIT_S
    )
    other = await _inspect_interpreter(job, Path(found.output.strip())) if found.is_success else None
    if other is None or not versions.contains(other.version, prereleases=True):
        raise InstallFailed(
            f"{job.build.name} needs Python {specifier},"
            f" and this machine has {own.version if own else 'none that runs'}.",
            hint="Install that Python on the node.",
            code="no_python",
        )
    return other


async def make_environment(
    job: StagingJob, folder: Path, interpreter: PythonInterpreter, wheels: Sequence[Path]
) -> None:
    """Make `folder`/venv with exactly these wheels, without using the network."""
    cache = job.work / "uv-cache"
    environment = make_plain_environment(job.options.environment) | {"UV_CACHE_DIR": str(cache)}
    venv = folder / "venv"
    options = ("--no-config", "--offline", "--quiet")
    make = [find_uv(), "venv", *options, "--relocatable", "--no-project", "--python", str(interpreter.path)]
    await _run_uv(job, [*make, str(venv)], environment)
    if wheels:
        put = [find_uv(), "pip", "install", *options, "--no-deps", "--no-index", "--python", str(venv)]
        await _run_uv(job, [*put, *(str(wheel) for wheel in wheels)], environment)


async def _run_uv(job: StagingJob, command: Sequence[str], environment: dict[str, str]) -> None:
    ended = await processes.run_program(
        command, folder=job.work, environment=environment, limit_s=job.options.timeouts.unpack_s
    )
    if ended.is_success:
        return
    if is_disk_full_message(ended.output):
        raise make_disk_full_error("there was no room left while the packages were unpacked")
    raise InstallFailed(
        f"The environment of {job.build.name} could not be made: uv {ended.outcome}.\n{ended.tail}", code="bad_package"
    )


async def _inspect_interpreter(job: StagingJob, python: Path) -> PythonInterpreter | None:
    """Run an interpreter and return what it is; None if it does not run."""
    answer = job.work / "interpreter.json"
    answer.unlink(missing_ok=True)
    library = Path(packaging.__file__).parent.parent
    command = [str(python), "-I", "-c", _INSPECT_SCRIPT, str(library), str(answer)]
    environment = make_plain_environment(job.options.environment)
    try:
        ended = await processes.run_program(command, folder=job.work, environment=environment, limit_s=_INSPECT_LIMIT_S)
        document = json.loads(answer.read_text(encoding="utf-8")) if ended.is_success else None
    except (OSError, ValueError):
        return None
    if document is None:
        return None
    return PythonInterpreter(path=python, version=document["version"], tags=tuple(document["tags"]))
