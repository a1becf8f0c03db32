"""Virtual environments for engines that are Python packages: which interpreter, and packages from files only.

An environment can be moved: it is made in the staging folder and runs in the store.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import packaging
import uv
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from corral.transfer.faults import disk_full
from corral.transfer.index import plain_environment, uv_environment
from corral.worker.backends import programs
from corral.worker.backends.faults import InstallFailed, is_text_of_a_full_disk
from corral.worker.backends.sources.source import Job

PYTHON = "venv/bin/python"
_ASK_LIMIT_S = 60.0
_ASK = """\
import json, platform, sys
sys.path.insert(0, sys.argv[1])
from packaging.tags import sys_tags
answer = {"version": platform.python_version(), "tags": [str(tag) for tag in sys_tags()]}
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(answer, file)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    path: Path
    version: str
    # Which wheels it takes, best first.
    tags: tuple[str, ...]

    @property
    def tag(self) -> str:
        return self.tags[0]


def uv_program() -> str:
    try:
        return uv.find_uv_bin()
    except FileNotFoundError as error:
        raise InstallFailed(
            "uv is not installed beside this worker.", hint="Install Corral again.", code="no_python"
        ) from error


async def find_interpreter(job: Job, wanted: str) -> Interpreter:
    """The worker's own if it will do, otherwise another one of this machine; none is fetched."""
    try:
        versions = SpecifierSet(wanted)
    except InvalidSpecifier as error:
        raise InstallFailed(f"{wanted!r} says no versions of Python.", code="bad_manifest") from error
    own = await _ask(job, job.options.python)
    if own is not None and versions.contains(own.version, prereleases=True):
        return own
    command = [uv_program(), "python", "find", "--no-python-downloads", "--no-project", wanted]
    found = await programs.run(
        command, folder=job.work, environment=uv_environment(job.options.environment), limit_s=_ASK_LIMIT_S
    )
    other = await _ask(job, Path(found.output.strip())) if found.is_fine else None
    if other is None or not versions.contains(other.version, prereleases=True):
        raise InstallFailed(
            f"{job.build.name} needs Python {wanted}, and this machine has {own.version if own else 'none that runs'}.",
            hint="Install that Python on the node.",
            code="no_python",
        )
    return other


async def make_environment(job: Job, folder: Path, interpreter: Interpreter, wheels: Sequence[Path]) -> None:
    """`folder`/venv with exactly these wheels; nothing is asked for over the network."""
    cache = job.work / "uv-cache"
    environment = plain_environment(job.options.environment) | {"UV_CACHE_DIR": str(cache)}
    venv = folder / "venv"
    options = ("--no-config", "--offline", "--quiet")
    make = [uv_program(), "venv", *options, "--relocatable", "--no-project", "--python", str(interpreter.path)]
    await _uv(job, [*make, str(venv)], environment)
    if wheels:
        put = [uv_program(), "pip", "install", *options, "--no-deps", "--no-index", "--python", str(venv)]
        await _uv(job, [*put, *(str(wheel) for wheel in wheels)], environment)


async def _uv(job: Job, command: Sequence[str], environment: dict[str, str]) -> None:
    ended = await programs.run(command, folder=job.work, environment=environment, limit_s=job.options.patience.unpack_s)
    if ended.is_fine:
        return
    if is_text_of_a_full_disk(ended.output):
        raise disk_full("there was no room left while the packages were unpacked")
    raise InstallFailed(
        f"The environment of {job.build.name} could not be made: uv {ended.how}.\n{ended.tail}", code="bad_package"
    )


async def _ask(job: Job, python: Path) -> Interpreter | None:
    """What an interpreter is; None if it does not run."""
    answer = job.work / "interpreter.json"
    answer.unlink(missing_ok=True)
    library = Path(packaging.__file__).parent.parent
    command = [str(python), "-I", "-c", _ASK, str(library), str(answer)]
    environment = plain_environment(job.options.environment)
    try:
        ended = await programs.run(command, folder=job.work, environment=environment, limit_s=_ASK_LIMIT_S)
        document = json.loads(answer.read_text(encoding="utf-8")) if ended.is_fine else None
    except (OSError, ValueError):
        return None
    if document is None:
        return None
    return Interpreter(path=python, version=document["version"], tags=tuple(document["tags"]))
