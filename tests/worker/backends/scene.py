"""What the installer's tests share: an installer in a folder, packages made on the spot, and a look at the disk."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import os
import random
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from corral.adapters.system import SystemIdGenerator
from corral.domain.backend import BackendSource, Build, InstalledBackend, Manifest, SourceKind
from corral.domain.operation import JobPhase
from corral.worker.backends.installer import DiskInstaller
from corral.worker.backends.sources.staging_source import InstallerOptions, InstallTimeouts

# Nobody waits for minutes in a test; what is cut short here is only the waiting.
PATIENCE = InstallTimeouts(stall_s=30.0, header_s=30.0)
NAME = "cpu-engine"


class QuickClock:
    """Pauses end at once and are remembered."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.now = datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> datetime:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


@dataclass
class Recorder:
    """A report that remembers, and can act when bytes have moved."""

    phases: list[JobPhase] = field(default_factory=list)
    bytes: list[tuple[int, int | None, str]] = field(default_factory=list)
    progress_hook: Callable[[int], None] = lambda _current: None
    phase_hook: Callable[[JobPhase], None] = lambda _phase: None

    def on_phase(self, phase: JobPhase) -> None:
        self.phases.append(phase)
        self.phase_hook(phase)

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        self.bytes.append((current_bytes, total_bytes, file_name))
        self.progress_hook(current_bytes)


class Swaps:
    """Counts how often processes would have been ended."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> None:
        self.count += 1


@dataclass
class Scene:
    root: Path
    options: InstallerOptions = field(default_factory=lambda: InstallerOptions(timeouts=PATIENCE, headroom_bytes=0))
    clock: QuickClock = field(default_factory=QuickClock)
    installer: DiskInstaller = field(init=False)

    def __post_init__(self) -> None:
        self.installer = self.restarted()

    def restarted(self) -> DiskInstaller:
        """The installer of a worker that has just been started."""
        return DiskInstaller(self.root, self.clock, SystemIdGenerator(), random.Random(1), self.options)

    async def install(
        self,
        build: Build,
        *,
        generation: int = 1,
        replaces: bool = False,
        swaps: Swaps | None = None,
        report: Recorder | None = None,
    ) -> InstalledBackend:
        return await self.installer.install(
            build,
            generation=generation,
            replaces=replaces,
            before_swap=swaps or Swaps(),
            progress=report or Recorder(),
        )

    async def says(self, name: str = NAME) -> str:
        """What the installed engine prints when it is run as its manifest says."""
        return await run_engine(self.installer, name)

    @property
    def partials(self) -> list[Path]:
        return sorted((self.root / "downloads").glob("*.partial"))


async def run_engine(installer: DiskInstaller, name: str = NAME) -> str:
    found = installer.find_runnable(name)
    assert found is not None, f"{name} is not installed"
    values = {"dir": str(found.directory), "python": found.python, "launcher": str(found.directory / "launcher.py")}
    command = [text.format(**values) for text in found.manifest.command]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().strip()


def assert_nothing_is_left_over(root: Path, installer: DiskInstaller) -> None:
    """No folder without a name, no half-written file, nothing being made or deleted."""
    assert list((root / "staging").iterdir()) == []
    assert list((root / "trash").iterdir()) == []
    assert list(root.rglob("*.new")) == []
    # As what the records on the disk say, and not the installer's memory.
    referenced = installer._records.keys
    assert {path.name for path in (root / "store").iterdir()} == set(referenced)


def files_below(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() or path.is_symlink()}


# --- packages ---


def manifest_text(says: str, *, check: str = "print('checked')") -> str:
    return (
        f"command: ['{sys.executable}', '{{dir}}/engine.py']\n"
        f"check: ['{sys.executable}', '-c', \"{check}\"]\n"
        f"environment: {{SAYS: '{says}'}}\n"
    )


def engine_files(says: str, *, padding: int = 0, check: str = "print('checked')") -> dict[str, bytes]:
    """An engine that prints one word, with its own manifest; padding cannot be compressed."""
    found = {
        "engine.py": f"print({says!r})\n".encode(),
        "backend.yaml": manifest_text(says, check=check).encode(),
    }
    if padding:
        found["weights.bin"] = random.Random(says).randbytes(padding)
    return found


def tar_of(files: Mapping[str, bytes], *, mode: str = "w:gz", extra: tuple[tarfile.TarInfo, ...] = ()) -> bytes:
    """The same bytes for the same files; gzip by itself would put the time in."""
    if mode == "w:gz":
        return gzip.compress(tar_of(files, mode="w", extra=extra), mtime=0)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o755
            archive.addfile(member, io.BytesIO(content))
        for member in extra:
            archive.addfile(member)
    return buffer.getvalue()


def link_to(name: str, target: str, *, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    return member


def zip_of(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def wheel_of(name: str, version: str, says: str, *, tag: str = "py3-none-any", needs: tuple[str, ...] = ()) -> bytes:
    """A wheel whose module prints one word."""
    info = f"{name}-{version}.dist-info"
    metadata = "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        f"{name}/__init__.py": f"WORD = {says!r}\n".encode(),
        f"{name}/__main__.py": f"from {name} import WORD\nprint(WORD)\n".encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    record = "".join(f"{path},,\n" for path in files) + f"{info}/RECORD,,\n"
    return zip_of(files | {f"{info}/RECORD": record.encode()})


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def archive_build(url: str, *, version: str = "1.0", name: str = NAME, **source: Any) -> Build:
    return Build(
        name=name,
        version=version,
        source=BackendSource(kind=SourceKind.URL, uri=url, **source),
        manifest=Manifest(),
        meta="engine",
        alias="shared",
        gallery="test",
    )


def pypi_build(*requirements: str, module: str, version: str = "1.0", name: str = NAME, python: str = "") -> Build:
    return Build(
        name=name,
        version=version,
        source=BackendSource(kind=SourceKind.PYPI, requirements=requirements, python=python),
        manifest=Manifest(
            command=("{python}", "-m", module), check=("{python}", "-c", f"import {module}; print({module})")
        ),
    )


def plain_environment() -> dict[str, str]:
    """Enough to run programs; nothing about indexes and proxies."""
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
