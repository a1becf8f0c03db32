"""kill -9 while files are fetched, and disks that are full."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from corral.domain.model import CHUNK_BYTES
from corral.worker.files import partial
from tests.support.waiting import eventually
from tests.worker.files.scene import Scene, item, some_bytes

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
        if not part.exists():
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
async def test_a_killed_worker_goes_on_with_the_chunks_that_it_has(scene: Scene) -> None:
    await killed_after(scene, 3)
    before = len(scene.library.requests)
    node = await scene.node("node-1")
    folder = await node.have(item(BODY))
    assert (folder / "model.gguf").read_bytes() == BODY
    # No byte of the three chunks crosses the wire again, although nobody had time to note them.
    assert sorted(each.chunk for each in scene.library.requests[before:]) == [3, 4, 5]
    assert sum(each.sent for each in scene.library.requests[before:]) == len(BODY) - 3 * CHUNK_BYTES


@pytest.mark.behaviour("FILE-5", "FILE-1")
async def test_bytes_that_were_damaged_meanwhile_are_fetched_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the machine went down, also chunks that were noted are looked at."""
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 3
    async with scene.running_node("node-1") as node:
        job = asyncio.create_task(node.have(item(BODY)))

        async def has_three() -> bool:
            found = node.store.find(SHA)
            return found is not None and found.partial is not None and found.partial.have_chunks == 3

        await eventually(has_three)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        part = node.store.part_path(SHA)
    with part.open("r+b") as file:
        file.seek(CHUNK_BYTES + 5)
        file.write(b"lost")
    scene.library.gate.set()
    scene.library.gate = None
    monkeypatch.setattr(partial, "machine_boot", lambda: "another life")
    before = len(scene.library.requests)
    again = await scene.node("node-1")
    folder = await again.have(item(BODY))
    assert (folder / "model.gguf").read_bytes() == BODY
    assert sorted(each.chunk for each in scene.library.requests[before:]) == [1, 3, 4, 5]


@pytest.mark.behaviour("FILE-5")
async def test_a_note_that_makes_no_sense_costs_hashing_and_nothing_else(scene: Scene) -> None:
    await killed_after(scene, 2)
    note = scene.root / "node-1" / "blobs" / f"{SHA}.part.json"
    note.write_text('{"size": 5, "have": "zz"}')
    before = len(scene.library.requests)
    node = await scene.node("node-1")
    await node.have(item(BODY))
    assert sorted(each.chunk for each in scene.library.requests[before:]) == [2, 3, 4, 5]


@pytest.mark.behaviour("FILE-7")
async def test_a_disk_that_fills_up_is_told_and_what_is_here_stays(scene: Scene) -> None:
    """A limit of the system on the size of files stands in for the disk: writing really fails in the middle."""
    scene.library.put(BODY)
    process = await started(scene, "--limit", str(len(BODY) - 1))
    output, _ = await process.communicate()
    assert output.decode().startswith("disk_full The disk is full: there was no room left"), output.decode()
    node = await scene.node("node-1")
    folder = await node.have(item(BODY))
    assert (folder / "model.gguf").read_bytes() == BODY
