"""Disks that are full, or are going to be."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from corral.domain.errors import CorralError
from corral.transfer.faults import TransferFailed
from tests.worker.backends.scene import (
    Scene,
    archive_build,
    assert_nothing_is_left_over,
    engine_files,
    sha256,
    tar_of,
)
from tests.worker.backends.server import FileServer, cut_after

MIB = 1024 * 1024
BODY = tar_of(engine_files("one", padding=3 * MIB))
PROGRAM = Path(__file__).parent / "programs" / "install.py"


def with_room(scene: Scene, free: int | None, *, headroom: int = 0) -> None:
    scene.options = replace(scene.options, free_bytes=lambda _folder: free, headroom_bytes=headroom)
    scene.installer = scene.restarted()


async def test_install_without_room_fetches_nothing_and_states_the_numbers(scene: Scene, files: FileServer) -> None:
    files.put("/engine.tar.gz", BODY)
    with_room(scene, 100 * MIB, headroom=95 * MIB)
    with pytest.raises(TransferFailed) as caught:
        await scene.install(archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)))
    assert caught.value.slug == "disk_full"
    assert "100 MiB" in caught.value.message
    assert "95 MiB to stay free" in caught.value.message
    assert files.gets("/engine.tar.gz") == 0
    assert_nothing_is_left_over(scene.root, scene.installer)


async def test_downloaded_bytes_need_no_further_disk_space(scene: Scene, files: FileServer) -> None:
    build = archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY))
    file = files.put("/engine.tar.gz", BODY, faults=[cut_after(2 * MIB)] * 3, has_ranges=True)
    # Room for what it becomes and for the last third of it.
    room = len(BODY) * 3 + (len(BODY) - 2 * MIB) + 1000
    with_room(scene, room)
    with pytest.raises(TransferFailed):
        await scene.install(build)
    with_room(scene, None)
    file.is_always_faulty = True
    file.faults = [cut_after(2 * MIB), *[cut_after(0)] * 5]
    file.is_always_faulty = False
    with pytest.raises(CorralError):
        await scene.install(build)
    assert scene.partials[0].stat().st_size == 2 * MIB
    with_room(scene, room)
    file.faults = []
    await scene.install(build)
    assert await scene.says() == "one"


@pytest.mark.parametrize("limit", [MIB, len(BODY) + 1000], ids=["while fetching", "while unpacking"])
async def test_disk_that_fills_up_fails_the_install_and_keeps_the_previous_version(
    scene: Scene, files: FileServer, tmp_path: Path, limit: int
) -> None:
    """A limit of the system on the size of files stands in for the disk: writing really fails in the middle."""
    big = tar_of(engine_files("two", padding=3 * MIB) | {"zeros": bytes(6 * MIB)})
    files.put("/small.tar.gz", tar_of(engine_files("one")))
    files.put("/big.tar.gz", big)
    await scene.install(archive_build(f"{files.url}/small.tar.gz", version="1.0"))
    process = await _start(scene.root, f"{files.url}/big.tar.gz", limit)
    output, _ = await process.communicate()
    assert output.decode().splitlines()[-1].startswith("disk_full The disk is full: "), output.decode()
    again = scene.restarted()
    assert_nothing_is_left_over(scene.root, again)
    assert scene.partials == []
    assert [backend.version for backend in again.list_installed()] == ["1.0"]


async def test_really_full_disk_gets_its_room_back(files: FileServer, tmp_path: Path) -> None:
    """A disk of two megabytes in memory, where the system lets an ordinary user have one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    shell = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=2m tmpfs {disk}"
    if not shutil.which("unshare") or subprocess.run([*shell, mount], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let an ordinary user mount a disk in memory")
    for body, doing in ((BODY, "was fetched"), (tar_of({"zeros": bytes(6 * MIB)}), "was unpacked")):
        files.put("/big.tar.gz", body)
        command = f"{mount} && exec {sys.executable} {PROGRAM} {disk / 'backends'} {files.url}/big.tar.gz"
        process = await asyncio.create_subprocess_exec(*shell, command, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        assert output.decode().startswith("disk_full "), output.decode()
        assert f"{doing} (No space left on device). left: 0" in output.decode()


async def _start(root: Path, url: str, limit: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), str(root), url, "--limit", str(limit), stdout=asyncio.subprocess.PIPE
    )
