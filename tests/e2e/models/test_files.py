"""Files of models on their way: a worker that goes away in the middle, and a library that is lost or damaged."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.models.scene import Models, models_of

pytestmark = pytest.mark.timeout(240)

MIB = 1024 * 1024


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[Models]:
    """One worker that fetches 8 MB a second: a chunk each second."""
    settings = {"CORRAL_DISK_HEADROOM": "0", "CORRAL_BANDWIDTH_LIMIT": "8MB"}
    async with models_of(tmp_path, "worker-1", frontends=1, settings=settings) as scene:
        yield scene


async def until_half_fetched(models: Models, sha256: str) -> None:
    """Until two chunks of a content, or more, are on the worker's disk, and not all."""
    part = models.disk("worker-1") / "blobs" / f"{sha256}.part"

    async def has_some() -> bool:
        return part.exists() and part.stat().st_blocks * 512 >= 16 * MIB

    await models.look(has_some)
    assert part.exists(), "it was over before anybody looked"


@pytest.mark.behaviour("FLT-48", "FILE-5")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "told to stop"])
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


@pytest.mark.behaviour("LOAD-12")
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
