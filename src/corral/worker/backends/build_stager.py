"""Turns a build into a complete folder: fetched, verified, unpacked, with its launcher and manifest, and checked.

Nothing that is installed is touched here. Whatever goes wrong, the caller removes the folder.
"""

from __future__ import annotations

import contextlib
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from corral.domain.backend import Build, Manifest, SourceKind
from corral.domain.errors import InvalidRequest
from corral.domain.operation import JobPhase
from corral.policy.gallery import find_manifest_problem, parse_manifest
from corral.runtime import processes
from corral.transfer.faults import make_disk_full_error, translate_disk_full
from corral.worker.backends.layout import InstallFailed
from corral.worker.backends.sources.local import LAUNCHER, BundledSource, DirectorySource, make_launcher
from corral.worker.backends.sources.oci import OciSource
from corral.worker.backends.sources.pypi import PYTHON, PypiSource, parse_hashes
from corral.worker.backends.sources.staging_source import (
    InstallerOptions,
    ResolvedSource,
    SourceDelivery,
    StagingJob,
    StagingSource,
)
from corral.worker.backends.sources.url import UrlSource
from corral.worker.processes.launch import clean_environment, fill_placeholders
from corral.worker.processes.process_control import BadManifest

PACKAGE_MANIFEST = "backend.yaml"
MANIFEST_BYTES_MAX = 256 * 1024
_SOURCES: Mapping[SourceKind, type[StagingSource]] = {
    SourceKind.PYPI: PypiSource,
    SourceKind.URL: UrlSource,
    SourceKind.OCI: OciSource,
    SourceKind.DIRECTORY: DirectorySource,
    SourceKind.BUNDLED: BundledSource,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBuild:
    """Result of staging a backend on a worker: a complete folder that is ready to be installed, with its manifest."""

    folder: Path
    # The manifest that counts: the gallery's, or the package's own.
    build: Build
    delivery: SourceDelivery


def open_source(job: StagingJob) -> StagingSource:
    check_integrity(job.build, job.options)
    return _SOURCES[job.build.source.kind](job)  # type: ignore[call-arg]  # every one of them is made of a job


def check_integrity(build: Build, options: InstallerOptions) -> None:
    """Refuse a build without a promised digest, if this worker requires digests."""
    if not options.require_integrity:
        return
    source = build.source
    missing = ""
    if source.kind is SourceKind.URL and not source.sha256:
        missing = "its address has no sha256"
    elif source.kind is SourceKind.OCI and not source.sha256 and "@sha256:" not in source.uri:
        missing = "its reference has no digest"
    elif source.requirements and not all(parse_hashes(source.requirements).values()):
        missing = "not all of its requirements have hashes"
    if missing:
        raise InstallFailed(
            f"{build.name} is refused: {missing}, and this worker installs only what can be verified.",
            hint="Pin it in the gallery, or switch the requirement off on the worker.",
            code="unsigned",
        )


def check_room(job: StagingJob, resolved: ResolvedSource) -> None:
    """Refuse a build that does not fit, before a byte moves: download, unpacked size, and the space that must stay
    free."""
    free = job.options.free_bytes(job.work)
    if free is None:
        return
    total = resolved.total_bytes or 0
    fetch = max(total - resolved.have_bytes, 0)
    unpacked = int(total * resolved.unpacked_factor)
    headroom = job.options.headroom_bytes
    needed = fetch + unpacked + headroom
    if free < needed:
        raise make_disk_full_error(
            f"{job.build.name} needs about {_format_mib(needed)} ({_format_mib(fetch)} to fetch,"
            f" {_format_mib(unpacked)} unpacked, {_format_mib(headroom)} to stay free),"
            f" and there are {_format_mib(free)}"
        )


def _format_mib(count: int) -> str:
    return f"{count / 1024**2:,.0f} MiB"


async def stage(job: StagingJob, source: StagingSource, folder: Path) -> StagedBuild:
    job.progress.on_phase(JobPhase.DOWNLOADING)
    with translate_disk_full("the package was prepared"):
        delivery = await source.stage(folder)
        if not delivery.python and (folder / PYTHON).exists():
            delivery = replace(delivery, python=PYTHON)
        build = replace(job.build, manifest=_choose_manifest(job.build, folder))
        if build.manifest.launcher:
            (folder / LAUNCHER).write_bytes(make_launcher(build.manifest.launcher))
    staged = StagedBuild(folder=folder, build=build, delivery=delivery)
    _check_program(job, staged)
    await _run_check(job, staged)
    return staged


def _choose_manifest(build: Build, folder: Path) -> Manifest:
    if build.manifest.command or build.manifest.launcher:
        return build.manifest
    found = read_package_manifest(folder)
    if found is None:
        raise InstallFailed(
            f"Neither the gallery nor the package of {build.name} says how to run it.",
            hint=f"Put a manifest into the gallery, or {PACKAGE_MANIFEST} into the package.",
            code="bad_manifest",
        )
    return parse_package_manifest(found, build.name)


def read_package_manifest(folder: Path) -> Mapping[str, Any] | None:
    """Return `backend.yaml` of a package as a mapping; None if the package has none."""
    path = folder / PACKAGE_MANIFEST
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MANIFEST_BYTES_MAX:
            raise InstallFailed(f"{PACKAGE_MANIFEST} of the package is too large, or no file.", code="bad_manifest")
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InstallFailed(
            f"{PACKAGE_MANIFEST} of the package cannot be read: {error}.", code="bad_manifest"
        ) from error
    if not isinstance(document, Mapping):
        raise InstallFailed(f"{PACKAGE_MANIFEST} of the package is not a mapping.", code="bad_manifest")
    return document


def parse_package_manifest(document: Mapping[str, Any], name: str) -> Manifest:
    try:
        manifest = parse_manifest(document, f"{PACKAGE_MANIFEST} of {name}")
    except InvalidRequest as error:
        raise InstallFailed(error.message, code="bad_manifest") from error
    if not manifest.command and not manifest.launcher:
        raise InstallFailed(f"{PACKAGE_MANIFEST} of {name} has no command.", code="bad_manifest")
    return manifest


def _check_program(job: StagingJob, staged: StagedBuild) -> None:
    """Refuse an engine whose program is not there: an empty or half-copied folder, or a command with a wrong path."""
    name, manifest = job.build.name, staged.build.manifest
    problem = find_manifest_problem(manifest)
    if problem:
        raise InstallFailed(f"{name} cannot be run: {problem}.", code="bad_manifest")
    names = _make_placeholder_values(job, staged)
    for text in _list_programs(manifest):
        try:
            program = fill_placeholders(text, names, name)
        except BadManifest:
            continue  # The program's path needs a value that only a running engine has.
        if shutil.which(program, path=job.options.environment.get("PATH")) is None and not _is_script(text, program):
            where = "package" if job.build.source.kind is not SourceKind.DIRECTORY else "folder"
            raise InstallFailed(
                f"{name} cannot be run: its command starts {text}, and there is no such program.",
                hint=f"Look whether the {where} is complete, and whether the file may be executed.",
                code="bad_manifest",
            )


def _list_programs(manifest: Manifest) -> Iterator[str]:
    """Yield the program of the command and, behind `{python}`, the script that the interpreter is to run."""
    yield manifest.command[0]
    if manifest.command[0] == "{python}":
        yield from [text for text in manifest.command[1:] if text.startswith("{dir}/")][:1]


def _is_script(text: str, program: str) -> bool:
    """Return whether the program is a file that an interpreter reads: such a file need not be executable."""
    return text.startswith("{dir}/") and text.endswith((".py", ".js", ".sh", ".jar")) and Path(program).is_file()


def _make_placeholder_values(job: StagingJob, staged: StagedBuild) -> dict[str, str]:
    """Return values for the placeholders of a manifest before the engine has a port and a model."""
    return {
        "dir": str(staged.folder),
        "python": str(staged.folder / staged.delivery.python) if staged.delivery.python else str(job.options.python),
        "launcher": str(staged.folder / LAUNCHER),
    }


async def _run_check(job: StagingJob, staged: StagedBuild) -> None:
    """Run the backend's own check in the staging folder. Nothing is stopped yet, so a failure changes nothing."""
    manifest = staged.build.manifest
    if not manifest.check:
        return
    job.progress.on_phase(JobPhase.CHECKING)
    names = _make_placeholder_values(job, staged)
    command = [fill_placeholders(text, names, job.build.name) for text in manifest.check]
    # The check sees the environment of the engine, without the values that only a start gives it, such as its key.
    environment = clean_environment(job.options.environment)
    for name, text in manifest.environment.items():
        with contextlib.suppress(BadManifest):
            environment[name] = fill_placeholders(text, names, job.build.name)
    limit_s = job.options.timeouts.check_s
    try:
        result = await processes.run_program(command, folder=staged.folder, environment=environment, limit_s=limit_s)
    except OSError as error:
        raise InstallFailed(
            f"The check of {job.build.name} cannot be run: {command[0]}: {error.strerror}.", code="check_failed"
        ) from error
    if not result.is_success:
        raise InstallFailed(
            f"The check of {job.build.name} {result.outcome}; what was installed before stays.\n{result.tail}".strip(),
            code="check_failed",
        )
