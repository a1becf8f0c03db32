"""A file from an admin to a frontend, from there to one node and from that one to the next: everything real."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.app.worker import ComposedWorker
from corral.bus.messages import BlobSource
from corral.client.client import CorralClient
from corral.domain.model import CHUNK_BYTES, Model, ModelConfig, StoredFile
from corral.domain.node import NodeId
from corral.loading.kinds.commands import BlobSourceResolver
from corral.ports.credentials import BLOB_READ_SCOPE
from tests.bus.nats_server import NatsServer
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import create_join_token
from tests.support.polling import eventually
from tests.worker.conftest import QUICK, StartWorker
from tests.worker.files.scene import LIBRARY, RecordingReport, item, some_bytes

BODY = some_bytes(2 * CHUNK_BYTES + 5)


@pytest.fixture
async def cluster(nats: NatsServer, database_url: str, tmp_path: Path) -> AsyncIterator[RunningFrontend]:
    """A frontend with a library of its own."""
    library = tmp_path / "library"
    async with running_frontend(
        database_url, authority=nats.authority, nats_url=nats.url, library_dir=library, **QUICK
    ) as running:
        yield running


async def ready(worker: ComposedWorker) -> ComposedWorker:
    async def is_ready() -> bool:
        return worker.membership.find_not_ready_reason() is None

    await eventually(is_ready)
    return worker


async def fetched(worker: ComposedWorker, *places: BlobSource) -> bytes:
    assert worker.runner is not None
    files = worker.runner._deps.files
    folder = await files.ensure_files("m", "r1", (item(BODY),), places, RecordingReport())
    return (folder / "model.gguf").read_bytes()


@pytest.mark.behaviour("FILE-2", "FILE-10", "NODE-129")
async def test_file_enters_the_cluster_once_and_goes_from_node_to_node(
    cluster: RunningFrontend, start_worker: StartWorker, tmp_path: Path
) -> None:
    source = tmp_path / "weights.gguf"
    source.write_bytes(BODY)
    async with CorralClient(cluster.url, ADMIN_KEY, clock=SystemClock(), ids=SystemIdGenerator()) as client:
        for _ in range(2):
            assert await client.files.send_file(source) == item(BODY).sha256
    workers = []
    for name in ("gpu-a", "gpu-b"):
        home = tmp_path / name
        home.mkdir()
        token = await create_join_token(cluster, approves=True)
        workers.append(await ready(await start_worker(token=token, name=name, worker_home=home)))
    first, second = workers
    assert await fetched(first, LIBRARY) == BODY
    # From here on only the first node has the bytes; the frontend tells their hashes.
    for path in (tmp_path / "library" / "blobs").rglob(item(BODY).sha256):
        path.unlink()
    reader, audience = second.membership.node_id, first.membership.node_id
    assert reader is not None
    assert audience is not None
    ticket = cluster.core.api_deps.credentials.issue_ticket(reader, BLOB_READ_SCOPE, audience=audience, ttl_s=60)
    place = BlobSource(kind="node", url=f"127.0.0.1:{first.health.port}", ticket=ticket)
    assert await fetched(second, place, LIBRARY) == BODY


async def test_node_that_knows_one_frontend_gets_what_only_another_ones_library_holds(
    cluster: RunningFrontend, nats: NatsServer, database_url: str, start_worker: StartWorker, tmp_path: Path
) -> None:
    source = tmp_path / "weights.gguf"
    source.write_bytes(BODY)
    async with running_frontend(
        database_url,
        authority=nats.authority,
        nats_url=nats.url,
        library_dir=tmp_path / "other library",
        frontend_id="other",
        **QUICK,
    ) as other:
        async with CorralClient(other.url, ADMIN_KEY, clock=SystemClock(), ids=SystemIdGenerator()) as client:
            await client.files.send_file(source)
        worker = await ready(await start_worker(token=await create_join_token(cluster, approves=True)))
        stored = (StoredFile(path="model.gguf", sha256=item(BODY).sha256, size_bytes=len(BODY)),)
        now, config = SystemClock().wall(), ModelConfig(name="m", backend="fake")
        model = Model(config=config, revision=1, run_hash="r1", files=stored, created_at=now, updated_at=now)
        # As the frontend that the worker knows, and which does not hold it, tells a node.
        places = await BlobSourceResolver(library=cluster.core.library).resolve(
            NodeId(worker.membership.node_id or ""), (), {}, model
        )
        assert [(place.kind, place.url) for place in places] == [("library", ""), ("library", other.url)]
        assert await fetched(worker, *places) == BODY
