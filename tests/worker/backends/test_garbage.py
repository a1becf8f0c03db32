"""What may be thrown away, and what may not."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta

from corral.worker.backends.sources.staging_source import InstallerOptions
from tests.worker.backends import server as faulty
from tests.worker.backends.scene import (
    Recorder,
    Scene,
    archive_build,
    assert_nothing_is_left_over,
    engine_files,
    tar_of,
)
from tests.worker.backends.server import FileServer

BODY = tar_of(engine_files("one", padding=200_000))


async def test_garbage_is_only_what_nothing_points_to_and_a_dry_run_lists_it(scene: Scene, files: FileServer) -> None:
    for version in ("1.0", "2.0"):
        files.put(f"/{version}.tar.gz", tar_of(engine_files(version)))
        await scene.install(archive_build(f"{files.url}/{version}.tar.gz", version=version), replaces=True)
    orphan = scene.root / "store" / "sha256-orphan"
    orphan.mkdir()
    (orphan / "file").write_bytes(bytes(1000))
    left = scene.root / "staging" / "left"
    left.mkdir()
    listed = await scene.installer.collect_garbage(dry_run=True)
    assert {item.path for item in listed.items} == {orphan, left}
    assert {item.name for item in listed.items} == {"store/sha256-orphan", "staging/left"}
    assert listed.size_bytes == 1000
    assert orphan.exists()
    assert await scene.installer.collect_garbage() == listed
    assert_nothing_is_left_over(scene.root, scene.installer)
    assert scene.installer.list_installed()[0].previous_version == "1.0"
    assert (await scene.installer.collect_garbage()).items == ()


async def test_abandoned_downloads_are_collected_when_they_are_old(scene: Scene, files: FileServer) -> None:
    never = asyncio.Event()
    files.put("/engine.tar.gz", BODY, faults=[faulty.silent_after(100_000, never)])
    task, moved = _begin(scene, files)
    await moved.wait()
    task.cancel()
    await asyncio.wait({task})
    never.set()
    assert (await scene.installer.collect_garbage()).items == ()
    assert len(scene.partials) == 1
    scene.clock.now += timedelta(seconds=InstallerOptions().download_age_s + 60)
    collected = await scene.installer.collect_garbage()
    assert collected.size_bytes >= 100_000
    assert list((scene.root / "downloads").iterdir()) == []


async def test_files_of_a_running_job_are_never_collected(scene: Scene, files: FileServer) -> None:
    go_on = asyncio.Event()
    files.put("/engine.tar.gz", BODY, faults=[faulty.silent_after(100_000, go_on)], etag='"a"')
    task, moved = _begin(scene, files)
    await moved.wait()
    (partial,) = scene.partials
    long_ago = scene.clock.now - timedelta(days=30)
    os.utime(partial, (long_ago.timestamp(), long_ago.timestamp()))
    assert (await scene.installer.collect_garbage()).items == ()
    await scene.installer.tidy()
    go_on.set()
    await task
    assert await scene.says() == "one"


async def test_concurrent_collections_do_not_interfere(scene: Scene) -> None:
    await scene.installer.collect_garbage()
    for number in range(20):
        orphan = scene.root / "store" / f"sha256-{number}"
        orphan.mkdir()
        (orphan / "file").write_bytes(bytes(10))
    async with asyncio.TaskGroup() as group:
        at_once = [group.create_task(scene.installer.collect_garbage()) for _ in range(3)]
        tidying = group.create_task(scene.installer.tidy())
    # Which of the four removes which folder is open; none of them fails, and all of it goes.
    assert [task.exception() for task in (*at_once, tidying)] == [None] * 4
    assert list((scene.root / "store").iterdir()) == []
    assert list((scene.root / "trash").iterdir()) == []


def _begin(scene: Scene, files: FileServer) -> tuple[asyncio.Task[object], asyncio.Event]:
    moved = asyncio.Event()
    report = Recorder(progress_hook=lambda current: moved.set() if current >= 100_000 else None)
    build = archive_build(f"{files.url}/engine.tar.gz")
    return asyncio.get_running_loop().create_task(scene.install(build, report=report)), moved
