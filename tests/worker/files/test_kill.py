"""kill -9 while files are fetched, and disks that are full."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.domain.model import CHUNK_BYTES
from tests.support.polling import eventually
from tests.worker.files.scene import Node, RecordingReport, Scene, item, some_bytes

PROGRAM = "tests.worker.files.programs.pull"
BODY = some_bytes(5 * CHUNK_BYTES + 999)
SHA = item(BODY).sha256
ROOT = Path(__file__).parents[3]


async def started(scene: Scene, *more: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        PROGRAM,
        str(scene.root / "node-1"),
        scene.library.url,
        SHA,
        str(len(BODY)),
        *more,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )


async def killed_after(scene: Scene, chunks: int) -> None:
    """Dead with so many chunks on the disk, the others on their way."""
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), chunks
    process = await started(scene)
    part = scene.root / "node-1" / "blobs" / f"{SHA}.part"

    async def are_there() -> bool:
        # How many more it requests at the same time depends on the speed of the machine; one is certain.
        if not part.exists() or len(scene.library.requests) <= chunks:
            return False
        body = part.read_bytes()
        spans = [slice(number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES) for number in range(chunks)]
        return all(body[span] == BODY[span] for span in spans)

    await eventually(are_there)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    scene.library.gate.set()
    scene.library.gate = None


@pytest.mark.behaviour("FILE-5")
async def test_killed_worker_goes_on_with_the_chunks_that_it_has(scene: Scene) -> None:
    await killed_after(scene, 3)
    node = await scene.node("node-1")
    folder = await node.have(item(BODY))
    assert (folder / "model.gguf").read_bytes() == BODY
    # No byte of the three chunks crosses the wire again, although there was no time to note them.
    requests = scene.library.requests_of("node-1")
    assert sorted(each.chunk for each in requests) == [3, 4, 5]
    assert sum(each.sent for each in requests) == len(BODY) - 3 * CHUNK_BYTES


async def stopped_with_three_chunks(scene: Scene) -> Path:
    """A worker that was stopped in order, with three chunks verified; the path of its part."""
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 3
    async with scene.running_node("node-1") as node:
        await pause_with_three_chunks(node)
    scene.library.gate.set()
    scene.library.gate = None
    return node.store.get_part_path(SHA)


async def pause_with_three_chunks(node: Node) -> None:
    job = asyncio.create_task(node.have(item(BODY)))
    await until_three_chunks(node)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job


async def until_three_chunks(node: Node) -> None:
    async def has_three() -> bool:
        found = node.store.find(SHA)
        return found is not None and found.partial is not None and found.partial.verified_chunks == 3

    await eventually(has_three)


async def until_time_moves(part: Path) -> None:
    """Wait until a write would give the file another time: the file system's clock moves in ticks."""
    probe = part.parent / "probe.new"

    async def has_moved() -> bool:
        probe.write_bytes(b"x")
        return probe.stat().st_mtime_ns > part.stat().st_mtime_ns

    await eventually(has_moved)
    probe.unlink()


def overwrite(part: Path) -> None:
    with part.open("r+b") as file:
        file.seek(CHUNK_BYTES + 5)
        file.write(b"lost")


def overwrite_and_restore_time(part: Path) -> None:
    before = part.stat()
    overwrite(part)
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_with_zeros(part: Path) -> None:
    part.unlink()
    part.write_bytes(bytes(len(BODY)))


def truncate(part: Path) -> None:
    os.truncate(part, 0)


HARMS: list[tuple[Callable[[Path], None], list[int]]] = [
    (overwrite, [1, 3, 4, 5]),
    (overwrite_and_restore_time, [1, 3, 4, 5]),
    (replace_with_zeros, [0, 1, 2, 3, 4, 5]),
    (truncate, [0, 1, 2, 3, 4, 5]),
    (Path.unlink, [0, 1, 2, 3, 4, 5]),
]
harms = pytest.mark.parametrize(("harm", "chunks"), HARMS, ids=[harm.__name__ for harm, _ in HARMS])


@pytest.mark.behaviour("FILE-5", "FILE-1")
@harms
async def test_half_fetched_file_is_verified_by_hash_after_a_restart(
    scene: Scene, harm: Callable[[Path], None], chunks: list[int]
) -> None:
    harm(await stopped_with_three_chunks(scene))
    before = len(scene.library.requests)
    node = await scene.node("node-1")
    folder = await node.have(item(BODY))
    assert (folder / "model.gguf").read_bytes() == BODY
    assert sorted(each.chunk for each in scene.library.requests[before:]) == chunks


@pytest.mark.behaviour("FILE-5", "FILE-1")
@harms
async def test_half_fetched_file_that_rests_is_verified_by_hash_if_it_was_changed(
    scene: Scene, harm: Callable[[Path], None], chunks: list[int]
) -> None:
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 3
    node = await scene.node("node-1")
    await pause_with_three_chunks(node)
    scene.library.gate.set()
    scene.library.gate = None
    await until_time_moves(node.store.get_part_path(SHA))
    harm(node.store.get_part_path(SHA))
    before = len(scene.library.requests)
    folder = await node.have(item(BODY))
    assert (folder / "model.gguf").read_bytes() == BODY
    assert sorted(each.chunk for each in scene.library.requests[before:]) == chunks


@pytest.mark.behaviour("FILE-5", "FILE-1")
@harms
async def test_half_fetched_file_that_is_changed_while_it_is_fetched_is_not_put_in_place(
    scene: Scene, harm: Callable[[Path], None], chunks: list[int]
) -> None:
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 3
    node = await scene.node("node-1")
    job = asyncio.create_task(node.have(item(BODY)))
    await until_three_chunks(node)
    await until_time_moves(node.store.get_part_path(SHA))
    harm(node.store.get_part_path(SHA))
    scene.library.gate.set()
    folder = await job
    assert (folder / "model.gguf").read_bytes() == BODY


@pytest.mark.behaviour("FILE-5")
async def test_bytes_that_this_process_has_verified_are_not_read_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 3
    node = await scene.node("node-1")
    await pause_with_three_chunks(node)
    scene.library.gate.set()
    scene.library.gate = None
    read: list[int] = []
    real = os.preadv

    def counting(descriptor: int, buffers: list[memoryview], offset: int, *more: int) -> int:
        read.append(offset)
        return real(descriptor, buffers, offset, *more)

    monkeypatch.setattr(os, "preadv", counting)
    folder = await node.have(item(BODY))
    assert (folder / "model.gguf").read_bytes() == BODY
    assert read == []


@pytest.mark.behaviour("FILE-5")
async def test_progress_moves_while_a_half_fetched_file_is_verified(scene: Scene) -> None:
    await stopped_with_three_chunks(scene)
    scene.library.is_away = True
    progress = RecordingReport()
    node = await scene.node("node-1")
    job = asyncio.create_task(node.files.ensure_files("m", "r1", (item(BODY),), (), progress))

    async def has_reported_three() -> bool:
        return [current for current, _ in progress.moves][:3] == [1 * CHUNK_BYTES, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES]

    await eventually(has_reported_three)
    scene.library.is_away = False
    await job


@pytest.mark.behaviour("FILE-5")
async def test_note_without_its_half_fetched_file_is_removed_at_the_start(scene: Scene) -> None:
    part = await stopped_with_three_chunks(scene)
    part.unlink()
    node = await scene.node("node-1")
    assert [path.name for path in node.store.get_path("x").parent.iterdir()] == []


@pytest.mark.behaviour("FILE-5")
async def test_note_that_makes_no_sense_costs_hashing_and_nothing_else(scene: Scene) -> None:
    await killed_after(scene, 2)
    note = scene.root / "node-1" / "blobs" / f"{SHA}.part.json"
    note.write_text('{"size": 5, "have": "zz"}')
    node = await scene.node("node-1")
    await node.have(item(BODY))
    assert sorted(each.chunk for each in scene.library.requests_of("node-1")) == [2, 3, 4, 5]


async def test_disk_that_fills_up_fails_the_pull_and_keeps_what_was_fetched(scene: Scene) -> None:
    """A limit of the system on the size of files stands in for the disk: writing really fails in the middle."""
    scene.library.put(BODY)
    process = await started(scene, "--limit", str(len(BODY) - 1))
    output, _ = await process.communicate()
    assert output.decode().startswith("disk_full The disk is full: there was no room left"), output.decode()
    node = await scene.node("node-1")
    folder = await node.have(item(BODY))
    assert (folder / "model.gguf").read_bytes() == BODY
