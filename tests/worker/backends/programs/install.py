"""Installs an archive into a backends folder, and dies by its own SIGKILL at the given moment.

moments: downloading (half of the bytes are here), unpacking, checking, stopping (all is staged), placed (the folder is
in the store, nothing points to it), writing (the pointer is half written), swapped (it is installed, not reported),
cleaning (the old one is half deleted), removing (the pointer is gone, nothing else).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import signal
from pathlib import Path
from typing import Any, NoReturn

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.domain.backend import BackendSource, Build, Manifest, SourceKind
from corral.domain.errors import CorralError
from corral.domain.operation import JobPhase
from corral.runtime import disk
from corral.worker.backends import installer as installing
from corral.worker.backends import layout
from corral.worker.backends.installer import DiskInstaller
from corral.worker.backends.sources.staging_source import InstallerOptions


def die(*_arguments: Any, **_keywords: Any) -> NoReturn:
    print("dying", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this")


class Report:
    def __init__(self, moment: str) -> None:
        self._phase = {
            "unpacking": JobPhase.EXTRACTING,
            "checking": JobPhase.CHECKING,
            "stopping": JobPhase.STOPPING,
        }.get(moment)
        self._bytes = moment == "downloading"

    def on_phase(self, phase: JobPhase) -> None:
        if phase is self._phase:
            die()

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        if self._bytes and total_bytes and current_bytes >= total_bytes / 2:
            die()


def write_half(path: Path, data: bytes) -> NoReturn:
    path.with_name(f"{path.name}{disk.HALF_WRITTEN}").write_bytes(data[: len(data) // 2])
    die()


def arm(moment: str) -> None:
    """Replace the step that is not to be survived."""
    steps: dict[str, tuple[Any, str, Any]] = {
        "placed": (layout.BackendRecords, "save", die),
        "writing": (disk, "replace", write_half),
        "cleaning": (installing, "delete_trees", die),
        "removing": (layout.BackendRecords, "_write_removed", die),
    }
    if moment in steps:
        setattr(*steps[moment])


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("url")
    parser.add_argument("--moment", default="")
    parser.add_argument("--limit", type=int, default=0)
    given = parser.parse_args()
    if given.limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (given.limit, given.limit))
    # As if nobody knew how much room there is: what happens when it runs out is what is looked at.
    options = InstallerOptions(headroom_bytes=0, free_bytes=lambda _folder: None)
    installer = DiskInstaller(given.root, SystemClock(), SystemIdGenerator(), random.Random(1), options)
    build = Build(
        name="cpu-engine",
        version="2.0",
        source=BackendSource(kind=SourceKind.URL, uri=given.url),
        manifest=Manifest(),
    )
    report = Report(given.moment)

    async def before_swap() -> None:
        # Everything else has been written by then.
        arm(given.moment)

    if given.moment == "removing":
        arm(given.moment)
        await installer.remove("cpu-engine", generation=3, progress=report)
    try:
        await installer.install(build, generation=2, replaces=True, before_swap=before_swap, progress=report)
    except CorralError as error:
        left = [path for name in ("staging", "trash", "store", "downloads") for path in (given.root / name).iterdir()]
        print(f"{error.slug} {error.message} left: {len(left)}", flush=True)
        return
    if given.moment == "swapped":
        die()
    print("installed", flush=True)


asyncio.run(main())
