"""kill -9 at every moment of an upgrade, and what the next start finds."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.worker.backends.scene import (
    NAME,
    Scene,
    archive_build,
    assert_nothing_is_left_over,
    engine_files,
    run_engine,
    tar_of,
)
from tests.worker.backends.server import FileServer

PROGRAM = Path(__file__).parent / "programs" / "install.py"
MIB = 1024 * 1024
OLD = tar_of(engine_files("one"))
NEW = tar_of(engine_files("two", padding=2 * MIB))
BEFORE_THE_SWAP = ("downloading", "unpacking", "checking", "stopping", "placed", "writing")
AFTER_THE_SWAP = ("swapped", "cleaning")


async def killed_at(moment: str, scene: Scene, files: FileServer) -> None:
    files.put("/old.tar.gz", OLD)
    files.put("/new.tar.gz", NEW, etag='"new"')
    await scene.install(archive_build(f"{files.url}/old.tar.gz", version="1.0"), generation=1)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        str(scene.root),
        f"{files.url}/new.tar.gz",
        "--moment",
        moment,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert output.decode().strip() == "dying"
    assert process.returncode == -signal.SIGKILL


@pytest.mark.behaviour("OPS-96", "INS-26")
@pytest.mark.parametrize("moment", BEFORE_THE_SWAP)
async def test_killed_before_the_swap_the_old_one_runs_and_the_next_attempt_succeeds(
    scene: Scene, files: FileServer, moment: str
) -> None:
    await killed_at(moment, scene, files)
    # Runnable at once, even before anybody tidies.
    assert await run_engine(scene.restarted()) == "one"
    again = scene.restarted()
    await again.tidy()
    assert_nothing_is_left_over(scene.root, again)
    (installed,) = again.list_installed()
    assert (installed.version, installed.generation) == ("1.0", 1)
    assert await run_engine(again) == "one"

    sent = files.files["/new.tar.gz"].sent
    scene.installer = again
    await scene.install(archive_build(f"{files.url}/new.tar.gz", version="2.0"), generation=2, replaces=True)
    assert await scene.says() == "two"
    fetched = files.files["/new.tar.gz"].sent - sent
    assert fetched < len(NEW) * 0.75 if moment == "downloading" else fetched == 0
    assert_nothing_is_left_over(scene.root, again)


@pytest.mark.behaviour("OPS-96", "INS-26")
@pytest.mark.parametrize("moment", AFTER_THE_SWAP)
async def test_killed_after_the_swap_the_new_one_runs_and_can_be_rolled_back(
    scene: Scene, files: FileServer, moment: str
) -> None:
    await killed_at(moment, scene, files)
    again = scene.restarted()
    await again.tidy()
    assert_nothing_is_left_over(scene.root, again)
    (installed,) = again.list_installed()
    assert (installed.version, installed.previous_version, installed.generation) == ("2.0", "1.0", 2)
    assert await run_engine(again) == "two"
    await again.roll_back(NAME, generation=3, before_swap=_nothing, progress=_NullReport())
    assert await run_engine(again) == "one"


@pytest.mark.behaviour("INS-26")
async def test_killed_while_removing_the_removal_can_be_repeated(scene: Scene, files: FileServer) -> None:
    await killed_at("removing", scene, files)
    again = scene.restarted()
    await again.tidy()
    assert (again.list_installed(), again.list_removed()) == ((), {})
    assert_nothing_is_left_over(scene.root, again)
    await again.remove(NAME, generation=3, progress=_NullReport())
    assert again.list_removed() == {NAME: 3}


async def _nothing() -> None:
    return


class _NullReport:
    def on_phase(self, phase: object) -> None: ...

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None: ...
