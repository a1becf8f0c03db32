"""A disk without room, for a model that is to be loaded there."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.models.scene import Models, models_of

pytestmark = pytest.mark.timeout(240)

MIB = 1024 * 1024
AS_ROOT = ["unshare", "--map-root-user", "--mount", "sh", "-c"]


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Models]:
    """Run one worker with a disk of its own in memory: the kernel itself reports that it is full."""
    home = tmp_path / "worker-1"
    home.mkdir()
    mount = f"mount -t tmpfs -o size=32m tmpfs {home}"
    if not shutil.which("unshare") or subprocess.run([*AS_ROOT, mount], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let an ordinary user mount a disk in memory")
    command = [*AS_ROOT, f"{mount} && exec {sys.executable} -m corral worker"]
    settings = {"CORRAL_DISK_HEADROOM": "0"}
    async with models_of(tmp_path, "worker-1", frontends=1, command=command, settings=settings) as scene:
        yield scene


async def test_full_disk_fails_the_load_with_that_sentence_and_it_works_when_there_is_room(small: Models) -> None:
    home = small.cluster.folder / "worker-1"
    seen = Path(f"/proc/{small.cluster.workers['worker-1'].pid}/root") / home.relative_to("/")
    await small.put("first")
    await small.loaded("first", "worker-1")
    filler = seen / "somebody else's"
    fill(filler, leave=4 * MIB)
    await small.put("large", files=small.file("large.bin", os.urandom(12 * MIB)))
    failed = await small.becomes(await small.load("large"), "failed")
    assert failed["errorCode"] == "disk_full", failed
    assert await small.replicas("large") == []
    # What runs there runs on.
    await small.answers("first")
    filler.unlink()
    await small.becomes(await small.load("large"), "completed")
    await small.answers("large")
    await small.forget("first", "large")


def fill(path: Path, *, leave: int) -> None:
    with path.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while file.write(bytes(65536)):
                pass
        file.truncate(max(0, file.tell() - leave))
