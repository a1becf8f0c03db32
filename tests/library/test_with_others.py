"""The library between its neighbours: real origins before it, a worker's files behind it."""

from __future__ import annotations

import random
from pathlib import Path

from aiohttp import web

from corral.adapters.system import SystemClock
from corral.bus.messages import ModelFileItem
from corral.domain.model import FilePart, ModelFile
from corral.library.library import FrontendLibrary
from corral.library.library_reader import LibraryOptions
from corral.store.database import Database
from corral.transfer.origins.file_origin import OriginOptions
from corral.transfer.origins.origin_router import OriginRouter
from corral.worker.files.blob_store import BlobStore
from tests.library.origins import RecordingProgress, sha256_of
from tests.library.scene import FRONTEND, Scene, one
from tests.support.tiny_gguf import write_tiny_gguf


async def test_folder_and_an_address_enter_through_the_real_origins(database: Database, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    tiny = write_tiny_gguf(mine / "tiny.gguf")
    (mine / "tiny.gguf.sha256").write_text("a sidecar")
    served = b"served" * 100_000

    async def serve(_: web.Request) -> web.Response:
        return web.Response(body=served)

    app = web.Application()
    app.router.add_get("/extra.bin", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    origins = OriginRouter(OriginOptions(paths=(mine,), allows_private=True), SystemClock(), random.Random(1))
    options = LibraryOptions(frontend_id=FRONTEND, folder=tmp_path / "library")
    library = FrontendLibrary(options, database, origins, SystemClock())
    scene = Scene(database, tmp_path / "library")
    files = (
        ModelFile(path="weights/", parts=(FilePart(uri=f"file://{mine}"),)),
        one("extra.bin", f"http://127.0.0.1:{port}/extra.bin", sha256=sha256_of(served)),
    )
    try:
        await scene.enter("m", *files, library=library)
    finally:
        await library.stop()
        await origins.close()
        await runner.cleanup()
    model = await scene.found("m")
    assert model.files is not None
    assert [file.path for file in model.files] == ["extra.bin", "weights/tiny.gguf"]
    assert model.facts is not None
    assert model.facts.architecture == "llama"
    assert tiny.exists()
    assert sorted(path.split("/")[0] for path in scene.on_disk()) == ["blobs", "blobs"]


async def test_worker_on_the_same_machine_links_what_the_library_holds(scene: Scene, tmp_path: Path) -> None:
    scene.origins.contents["/a"] = b"bytes of a model"
    (stored,) = await scene.enter("m", one("m.bin", "/a"))
    store = BlobStore(tmp_path / "models", SystemClock(), shared_dir=scene.folder)
    await store.tidy()
    item = ModelFileItem(path=stored.path, sha256=stored.sha256, size_bytes=stored.size_bytes)
    assert await store.ensure_valid(item.sha256, item.size_bytes)
    path = scene.library.find_path(stored.sha256)
    assert path is not None
    assert store.get_path(stored.sha256).stat().st_ino == path.stat().st_ino
    # The library may throw its own copy away: the worker keeps what it has.
    await scene.delete("m")
    assert await scene.library.forget(stored.sha256)
    assert store.get_path(stored.sha256).read_bytes() == b"bytes of a model"


async def test_report_is_what_loads_expect(scene: Scene) -> None:
    """`ports.library.ModelLibrary` by shape: what loads are given is this library."""
    from corral.ports.library import ModelLibrary  # noqa: PLC0415

    library: ModelLibrary = scene.library
    assert await library.list_blob_sources(["0" * 64]) == ()
    await library.forget_unused()
    progress = RecordingProgress()
    await scene.model("fake", [])
    assert await library.ensure_files("fake", (), progress) == ()
