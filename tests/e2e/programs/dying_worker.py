"""`corral worker` that kills itself once, at a moment of an installation that no signal from outside would hit.

arguments: the moment, a file, and those of `corral`. While the file is there the worker is armed; it removes it first.
moments: staged (all is fetched, unpacked and checked; nothing was touched), swapped (it is installed, nobody knows).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import corral.app.worker
from corral.__main__ import main
from corral.domain.backend import Build, InstalledBackend
from corral.worker.backends.installer import DiskInstaller
from corral.worker.job_ports import JobProgressListener

MOMENT = sys.argv.pop(1)
ARMED = Path(sys.argv.pop(1))


def die_at(moment: str) -> None:
    if moment == MOMENT and ARMED.exists():
        ARMED.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


class DyingInstaller(DiskInstaller):
    async def install(
        self,
        build: Build,
        *,
        generation: int,
        replaces: bool,
        before_swap: Callable[[], Awaitable[None]],
        progress: JobProgressListener,
    ) -> InstalledBackend:
        async def staged() -> None:
            die_at("staged")
            await before_swap()

        done = await super().install(
            build, generation=generation, replaces=replaces, before_swap=staged, progress=progress
        )
        die_at("swapped")
        return done


# A worker process makes its own installer, so this is the only way in.
vars(corral.app.worker)["DiskInstaller"] = DyingInstaller
sys.exit(main())
