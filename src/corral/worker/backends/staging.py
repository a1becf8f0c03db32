"""From a build to a complete folder: fetched, verified, unpacked, with its launcher and manifest, and checked.

Nothing that is installed is touched here. Whatever goes wrong, the folder is removed by whoever asked for it.
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
from corral.domain.operation import Phase
from corral.policy.gallery import manifest_problem, parse_manifest
from corral.transfer.faults import disk_full, told_when_full
from corral.worker.backends import programs
from corral.worker.backends.faults import InstallFailed
from corral.worker.backends.options import InstallerOptions
from corral.worker.backends.sources.environment import PYTHON
from corral.worker.backends.sources.local import LAUNCHER, BundledSource, DirectorySource, find_launcher
from corral.worker.backends.sources.oci import OciSource
from corral.worker.backends.sources.pypi import PypiSource, hashes_of
from corral.worker.backends.sources.source import Delivered, Job, Resolved, Source
from corral.worker.backends.sources.url import UrlSource
from corral.worker.processes.errors import BadManifest
from corral.worker.processes.launch import clean_environment, fill

OWN_MANIFEST = "backend.yaml"
MANIFEST_BYTES_MAX = 256 * 1024
# What only an engine that runs has: a check does without the variables that need it.
_OF_A_RUN = ("api_key", "host", "model", "name", "port", "threads")
_SOURCES: Mapping[SourceKind, type[Source]] = {
    SourceKind.PYPI: PypiSource,
    SourceKind.URL: UrlSource,
    SourceKind.OCI: OciSource,
    SourceKind.DIRECTORY: DirectorySource,
    SourceKind.BUNDLED: BundledSource,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    folder: Path
    # With the manifest that counts: the gallery's, or the package's own.
    build: Build
    delivered: Delivered


def open_source(job: Job) -> Source:
    check_integrity(job.build, job.options)
    return _SOURCES[job.build.source.kind](job)  # type: ignore[call-arg]  # every one of them is made of a job


def check_integrity(build: Build, options: InstallerOptions) -> None:
    """Refuse what nobody has promised a digest of, if that is wanted here."""
    if not options.require_integrity:
        return
    source = build.source
    missing = ""
    if source.kind is SourceKind.URL and not source.sha256:
        missing = "its address has no sha256"
    elif source.kind is SourceKind.OCI and not source.sha256 and "@sha256:" not in source.uri:
        missing = "its reference has no digest"
    elif source.requirements and not all(hashes_of(source.requirements).values()):
        missing = "not all of its requirements have hashes"
    if missing:
        raise InstallFailed(
            f"{build.name} is refused: {missing}, and this worker installs only what can be verified.",
            hint="Pin it in the gallery, or switch the requirement off on the worker.",
            code="unsigned",
        )


def check_room(job: Job, resolved: Resolved) -> None:
    """Before a byte moves: the download, what it becomes, and what has to stay free."""
    free = job.options.free_bytes(job.work)
    if free is None:
        return
    total = resolved.total_bytes or 0
    fetch = max(total - resolved.have_bytes, 0)
    unpacked = int(total * resolved.unpacked_factor)
    headroom = job.options.headroom_bytes
    needed = fetch + unpacked + headroom
    if free < needed:
        raise disk_full(
            f"{job.build.name} needs about {_mib(needed)} ({_mib(fetch)} to fetch, {_mib(unpacked)} unpacked, "
            f"{_mib(headroom)} to stay free), and there are {_mib(free)}"
        )


def _mib(count: int) -> str:
    return f"{count / 1024**2:,.0f} MiB"


async def stage(job: Job, source: Source, folder: Path) -> Staged:
    job.report.phase(Phase.DOWNLOADING)
    with told_when_full("the package was prepared"):
        delivered = await source.stage(folder)
        if not delivered.python and (folder / PYTHON).exists():
            delivered = replace(delivered, python=PYTHON)
        build = replace(job.build, manifest=_manifest(job.build, folder))
        if build.manifest.launcher:
            shutil.copyfile(find_launcher(build.manifest.launcher), folder / LAUNCHER)
    staged = Staged(folder=folder, build=build, delivered=delivered)
    _check_program(job, staged)
    await _check(job, staged)
    return staged


def _manifest(build: Build, folder: Path) -> Manifest:
    if build.manifest.command or build.manifest.launcher:
        return build.manifest
    found = read_own_manifest(folder)
    if found is None:
        raise InstallFailed(
            f"Neither the gallery nor the package of {build.name} says how to run it.",
            hint=f"Put a manifest into the gallery, or {OWN_MANIFEST} into the package.",
            code="bad_manifest",
        )
    return parse_own_manifest(found, build.name)


def read_own_manifest(folder: Path) -> Mapping[str, Any] | None:
    """`backend.yaml` of a package; None if it has none."""
    path = folder / OWN_MANIFEST
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MANIFEST_BYTES_MAX:
            raise InstallFailed(f"{OWN_MANIFEST} of the package is too large, or no file.", code="bad_manifest")
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InstallFailed(f"{OWN_MANIFEST} of the package cannot be read: {error}.", code="bad_manifest") from error
    if not isinstance(document, Mapping):
        raise InstallFailed(f"{OWN_MANIFEST} of the package is not a mapping.", code="bad_manifest")
    return document


def parse_own_manifest(document: Mapping[str, Any], name: str) -> Manifest:
    try:
        manifest = parse_manifest(document, f"{OWN_MANIFEST} of {name}")
    except InvalidRequest as error:
        raise InstallFailed(error.message, code="bad_manifest") from error
    if not manifest.command and not manifest.launcher:
        raise InstallFailed(f"{OWN_MANIFEST} of {name} has no command.", code="bad_manifest")
    return manifest


def _check_program(job: Job, staged: Staged) -> None:
    """Refuse an engine whose program is not there: an empty or half-copied folder, or a command with a wrong path."""
    name, manifest = job.build.name, staged.build.manifest
    problem = manifest_problem(manifest)
    if problem:
        raise InstallFailed(f"{name} cannot be run: {problem}.", code="bad_manifest")
    names = _names(job, staged)
    for text in _programs(manifest):
        try:
            program = fill(text, names, name)
        except BadManifest:
            continue  # It needs what only an engine that runs has.
        if shutil.which(program, path=job.options.environment.get("PATH")) is None and not _is_script(text, program):
            where = "package" if job.build.source.kind is not SourceKind.DIRECTORY else "folder"
            raise InstallFailed(
                f"{name} cannot be run: its command starts {text}, and there is no such program.",
                hint=f"Look whether the {where} is complete, and whether the file may be executed.",
                code="bad_manifest",
            )


def _programs(manifest: Manifest) -> Iterator[str]:
    """The program of the command and, behind `{python}`, the script that it is to run."""
    yield manifest.command[0]
    if manifest.command[0] == "{python}":
        yield from [text for text in manifest.command[1:] if text.startswith("{dir}/")][:1]


def _is_script(text: str, program: str) -> bool:
    """Whether this is a file that an interpreter reads: such a file need not be executable."""
    return text.startswith("{dir}/") and text.endswith((".py", ".js", ".sh", ".jar")) and Path(program).is_file()


def _names(job: Job, staged: Staged) -> dict[str, str]:
    """What the placeholders of a manifest stand for before the engine has a port and a model."""
    return {
        "dir": str(staged.folder),
        "python": str(staged.folder / staged.delivered.python) if staged.delivered.python else str(job.options.python),
        "launcher": str(staged.folder / LAUNCHER),
    }


async def _check(job: Job, staged: Staged) -> None:
    """The backend's own check, run where it was unpacked. Nothing is stopped yet: a failure costs nothing."""
    manifest = staged.build.manifest
    if not manifest.check:
        return
    job.report.phase(Phase.CHECKING)
    names = _names(job, staged)
    command = [fill(text, names, job.build.name) for text in manifest.check]
    # What the engine itself will see, without what only a start gives it, such as its key.
    environment = clean_environment(job.options.environment)
    for name, text in manifest.environment.items():
        with contextlib.suppress(BadManifest):
            environment[name] = fill(text, names, job.build.name)
    limit_s = job.options.patience.check_s
    try:
        ended = await programs.run(command, folder=staged.folder, environment=environment, limit_s=limit_s)
    except OSError as error:
        raise InstallFailed(
            f"The check of {job.build.name} cannot be run: {command[0]}: {error.strerror}.", code="check_failed"
        ) from error
    if not ended.is_fine:
        raise InstallFailed(
            f"The check of {job.build.name} {ended.how}; what was installed before stays.\n{ended.tail}".strip(),
            code="check_failed",
        )
