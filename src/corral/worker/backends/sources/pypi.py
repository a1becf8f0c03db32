"""Packages of the Python index, in an environment of their own.

uv answers the one hard question, which files a set of requirements means; these are then fetched like any other file,
so they have byte progress, go on after an interruption and are verified. Only wheels are taken: building from source
would run a stranger's program and needs compilers. The digest of the set is known before anything is fetched.
"""

from __future__ import annotations

import asyncio
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from corral.domain.operation import Phase
from corral.transfer.download import Fetched, Wish
from corral.transfer.faults import SourceFailed, TransferFailed, disk_full
from corral.transfer.http import shown
from corral.transfer.index import uv_environment
from corral.transfer.reach import explain_uv_output
from corral.transfer.threads import in_thread
from corral.worker.backends import programs
from corral.worker.backends.faults import InstallFailed, is_text_of_a_full_disk
from corral.worker.backends.sources.environment import (
    PYTHON,
    Interpreter,
    find_interpreter,
    make_environment,
    uv_program,
)
from corral.worker.backends.sources.source import Delivered, Job, Meter, Resolved

# How many sizes are asked for at once.
_ASKING = 8
_NO_SOLUTION = 1
# An index that cannot be reached is told within seconds: the control plane tries again later, uv need not do it first.
# What a machine sets itself counts before these.
QUICK_TO_SAY: Mapping[str, str] = {"UV_HTTP_RETRIES": "1", "UV_HTTP_CONNECT_TIMEOUT": "5"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    name: str
    version: str
    wish: Wish


def hashes_of(requirements: Sequence[str]) -> dict[str, frozenset[str]]:
    """The promised hashes of each package, none where nothing is promised. Options of pip are refused: a gallery does
    not choose the index."""
    promised: dict[str, frozenset[str]] = {}
    for line in _lines(requirements):
        what, *hashes = (part.strip() for part in line.split("--hash="))
        try:
            name = canonicalize_name(Requirement(what).name)
        except InvalidRequirement as error:
            raise InstallFailed(f"{what!r} is not a requirement: {error}.", code="bad_manifest") from error
        found = frozenset(text.removeprefix("sha256:") for text in hashes if text.startswith("sha256:"))
        promised[name] = promised.get(name, frozenset()) | found
    return promised


def _lines(requirements: Sequence[str]) -> list[str]:
    joined = "\n".join(requirements).replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]


class PypiSource:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._requirements = job.build.source.requirements
        self._downloader = job.downloader()
        self._interpreter: Interpreter | None = None
        self._wheels: tuple[Wheel, ...] = ()

    async def resolve(self) -> Resolved:
        promised = hashes_of(self._requirements)
        self._interpreter = await find_interpreter(self._job, self._job.build.source.python)
        # Hashes for everything are a promise to have listed everything: no description of a package is asked for.
        lock = await self._compile(self._interpreter, is_complete=all(promised.values()))
        wheels = tuple(_choose(package, self._interpreter) for package in lock.get("packages", ()))
        _check_promises(wheels, promised)
        first = next(iter(promised), "")
        ordered = sorted(wheels, key=lambda wheel: (wheel.name != first, wheel.name))
        self._wheels = await self._with_sizes(ordered)
        sizes = [wheel.wish.size_bytes for wheel in self._wheels]
        total = sum(size for size in sizes if size is not None) if None not in sizes else None
        return Resolved(
            digest=self._digest([wheel.wish.sha256 for wheel in self._wheels]),
            total_bytes=total if total is not None else self._job.build.source.size_bytes,
            have_bytes=sum(self._downloader.files.have_bytes(wheel.wish) for wheel in self._wheels),
        )

    async def stage(self, folder: Path) -> Delivered:
        assert self._interpreter is not None, "resolve comes first"
        fetched, files = await self.fetch_wheels()
        self._job.report.phase(Phase.EXTRACTING)
        await make_environment(self._job, folder, self._interpreter, files)
        return Delivered(digest=self.digest_of(fetched), uri=shown(fetched[0].url), python=PYTHON)

    def digest_of(self, fetched: Sequence[Fetched]) -> str:
        digest = self._digest([one.sha256 for one in fetched])
        assert digest is not None, "every file that was fetched has a digest"
        return digest

    async def fetch_wheels(self) -> tuple[list[Fetched], list[Path]]:
        """The files, and the same under the names that uv wants to see."""
        meter = Meter(self._job.report, {wheel.wish.file_name: wheel.wish.size_bytes for wheel in self._wheels})
        fetched = [await self._downloader.fetch(wheel.wish, meter.of(wheel.wish.file_name)) for wheel in self._wheels]
        names = [wheel.wish.file_name for wheel in self._wheels]
        return fetched, await in_thread(lambda _stop: name_wheels(self._job.work, fetched, names))

    @property
    def interpreter(self) -> Interpreter:
        assert self._interpreter is not None, "resolve comes first"
        return self._interpreter

    def _digest(self, sums: Sequence[str]) -> str | None:
        """Of the files in the environment and of what they are made for; None if a sum is not known yet."""
        assert self._interpreter is not None, "resolve comes first"
        if not all(sums):
            return None
        lines = [f"{wheel.name} {wheel.version} {sha256}" for wheel, sha256 in zip(self._wheels, sums, strict=True)]
        text = "\n".join([*sorted(lines), self._interpreter.tag])
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    async def _compile(self, interpreter: Interpreter, *, is_complete: bool) -> Mapping[str, Any]:
        wanted, lock = self._job.work / "requirements.txt", self._job.work / "pylock.toml"
        wanted.write_text("\n".join(_lines(self._requirements)) + "\n", encoding="utf-8")
        command = [uv_program(), "pip", "compile", "--quiet", "--no-header", "--format", "pylock.toml"]
        command += ["--only-binary", ":all:", "--python", str(interpreter.path), "--output-file", str(lock)]
        command += ["--no-deps"] if is_complete else []
        environment = uv_environment(self._job.options.environment)
        environment["UV_CACHE_DIR"] = str(self._job.work / "uv-cache")
        for name, value in QUICK_TO_SAY.items():
            environment.setdefault(name, value)
        ended = await programs.run(
            [*command, str(wanted)],
            folder=self._job.work,
            environment=environment,
            limit_s=self._job.options.patience.resolve_s,
        )
        if not ended.is_fine:
            raise _not_resolved(self._job.build.name, ended, environment)
        return tomllib.loads(lock.read_text(encoding="utf-8"))

    async def _with_sizes(self, wheels: Sequence[Wheel]) -> tuple[Wheel, ...]:
        """An index need not say how large its files are; their servers do."""
        turns = asyncio.Semaphore(_ASKING)

        async def sized(wheel: Wheel) -> Wheel:
            if wheel.wish.size_bytes is not None:
                return wheel
            async with turns:
                return replace(wheel, wish=replace(wheel.wish, size_bytes=await self._downloader.size_of(wheel.wish)))

        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(sized(wheel)) for wheel in wheels]
        return tuple(task.result() for task in asked)


def name_wheels(work: Path, fetched: Sequence[Fetched], names: Sequence[str]) -> list[Path]:
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


def _not_resolved(name: str, ended: programs.Ended, environment: Mapping[str, str]) -> TransferFailed | SourceFailed:
    what = f"The requirements of {name} could not be resolved"
    if is_text_of_a_full_disk(ended.output):
        return disk_full("there was no room left while the requirements were resolved")
    if ended.code != _NO_SOLUTION:
        if (unreached := explain_uv_output(ended.tail, environment)) is not None:
            return unreached
        return SourceFailed(f"{what}: uv {ended.how}.\n{ended.tail}", code="source_unavailable")
    if "no usable wheels" in ended.output or "no wheels with a matching" in ended.output:
        return InstallFailed(
            f"{what}: there is no wheel for this machine, and nothing is built from source.\n{ended.tail}",
            code="unsupported",
        )
    return InstallFailed(f"{what}.\n{ended.tail}", code="not_found")


def _check_promises(wheels: Sequence[Wheel], promised: Mapping[str, frozenset[str]]) -> None:
    if not any(promised.values()):
        return
    for wheel in wheels:
        if wheel.wish.sha256 not in promised.get(wheel.name, frozenset()):
            raise InstallFailed(
                f"{wheel.wish.file_name} has the sha256 {wheel.wish.sha256 or '(none)'}, which the gallery does not "
                "promise.",
                hint="With hashes, every package that is needed has to be listed with its own.",
                code="digest_mismatch",
            )


def _choose(package: Mapping[str, Any], interpreter: Interpreter) -> Wheel:
    """The wheel that fits best to the interpreter."""
    name, version = canonicalize_name(str(package["name"])), str(package.get("version", ""))
    archive = package.get("archive")
    best: tuple[int, Wheel] | None = None
    for found in package.get("wheels") or ([archive] if archive else []):
        wish = _wish(found)
        rank = _rank(wish.file_name, interpreter)
        if rank is not None and (best is None or rank < best[0]):
            best = (rank, Wheel(name=name, version=version, wish=wish))
    if best is None:
        raise InstallFailed(
            f"{name} {version} has no wheel for this machine ({interpreter.tag}), and nothing is built from source.",
            code="unsupported",
        )
    return best[1]


def _wish(found: Mapping[str, Any]) -> Wish:
    url = str(found["url"]) if "url" in found else Path(str(found["path"])).resolve().as_uri()
    return Wish(
        url=url,
        file_name=str(found.get("name") or Path(unquote(urlsplit(url).path)).name),
        sha256=str(found.get("hashes", {}).get("sha256", "")),
        size_bytes=found.get("size"),
        is_size_promised="size" in found,
    )


def _rank(file_name: str, interpreter: Interpreter) -> int | None:
    try:
        tags = {str(tag) for tag in parse_wheel_filename(file_name)[3]}
    except InvalidWheelFilename:
        return None
    return next((rank for rank, tag in enumerate(interpreter.tags) if tag in tags), None)
