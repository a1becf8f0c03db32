"""Files of models on their way: a worker that goes away in the middle, and a library that is lost or damaged."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.e2e.models.scene import Models, models_of

pytestmark = pytest.mark.timeout(240)

MIB = 1024 * 1024


def flip(path: Path) -> None:
    """Change one bit as a failing disk does: neither size nor time of the file changes."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(before.st_size // 2)
        byte = file.read(1)[0]
        file.seek(before.st_size // 2)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def cut(path: Path) -> None:
    os.truncate(path, 1000)


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[Models]:
    """Run one worker that fetches 8 MB a second: a chunk each second."""
    settings = {"CORRAL_DISK_HEADROOM": "0", "CORRAL_BANDWIDTH_LIMIT": "8MB"}
    async with models_of(tmp_path, "worker-1", frontends=1, settings=settings) as scene:
        yield scene


async def until_half_fetched(models: Models, sha256: str) -> None:
    """Wait until two chunks of a content, or more, are on the worker's disk, and not all."""
    part = models.disk("worker-1") / "blobs" / f"{sha256}.part"

    async def has_some() -> bool:
        return part.exists() and part.stat().st_blocks * 512 >= 16 * MIB

    await models.look(has_some)
    assert part.exists(), "it was over before anybody looked"


@pytest.mark.behaviour("FILE-5")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
async def test_load_completes_when_its_worker_restarts_while_it_fetches(slow: Models, number: signal.Signals) -> None:
    body = os.urandom(56 * MIB)
    sha256 = hashlib.sha256(body).hexdigest()
    await slow.put("large", files=slow.file("large.bin", body))
    operation = await slow.load("large")
    await until_half_fetched(slow, sha256)
    worker = slow.cluster.workers["worker-1"]
    worker.send(number)
    await worker.wait()
    await worker.start()
    await slow.becomes(operation, "completed")
    assert (slow.disk("worker-1") / "blobs" / sha256).read_bytes() == body
    await slow.answers("large")
    await slow.forget("large")


async def test_load_completes_when_the_library_loses_the_file_in_the_middle(slow: Models) -> None:
    body = os.urandom(56 * MIB)
    sha256 = hashlib.sha256(body).hexdigest()
    await slow.put("large", files=slow.file("large.bin", body))
    operation = await slow.load("large")
    await until_half_fetched(slow, sha256)
    (slow.cluster.folder / "library" / "blobs" / sha256[:2] / sha256).unlink()
    await slow.becomes(operation, "completed")
    assert (slow.disk("worker-1") / "blobs" / sha256).read_bytes() == body
    await slow.answers("large")
    await slow.forget("large")


@pytest.mark.parametrize("harm", [flip, cut], ids=["flipped", "cut"])
async def test_load_completes_when_the_copy_of_the_library_is_damaged(
    slow: Models, harm: Callable[[Path], None]
) -> None:
    body = os.urandom(9 * MIB)
    sha256 = hashlib.sha256(body).hexdigest()
    copy = slow.cluster.folder / "library" / "blobs" / sha256[:2] / sha256
    await slow.put("damaged", files=slow.file("damaged.bin", body))
    status, installing = await slow.call("POST", "/api/models/install/damaged", {})
    assert status in (200, 202), installing
    await slow.becomes(str(installing["id"]), "completed")
    harm(copy)
    await slow.becomes(await slow.load("damaged"), "completed")
    assert (slow.disk("worker-1") / "blobs" / sha256).read_bytes() == body
    assert copy.read_bytes() == body
    await slow.answers("damaged")
    await slow.forget("damaged")
