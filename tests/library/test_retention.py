"""What a library keeps: what its folder and the registry say agrees, and nothing goes that somebody wants."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from sqlalchemy import text

from corral.domain.errors import NotFound
from corral.library.content_store import INCOMING_LIFE_S, PIECE_BYTES, read_file
from corral.store.database import Database
from tests.library.origins import RecordingProgress, sha256_of
from tests.library.scene import FRONTEND, Scene, one

URL = "https://models.example/m.bin"
CONTENT = bytes(range(256)) * 2000


async def test_stopped_library_is_no_holder_and_reports_its_content_after_a_restart(scene: Scene) -> None:
    scene.origins.contents[URL] = CONTENT
    (stored,) = await scene.enter("m", one("m.bin", URL))
    await scene.library.stop()
    assert await scene.library.list_holders(stored.sha256) == ()
    reborn = scene.another()
    await reborn.start()
    assert [holder.name for holder in await reborn.list_holders(stored.sha256)] == [FRONTEND]
    assert await reborn.filter_held([stored.sha256]) == {stored.sha256}
    await reborn.stop()


async def test_holder_rows_of_a_dead_frontend_are_deleted_at_the_next_start(database: Database, tmp_path: Path) -> None:
    dead = Scene(database, tmp_path / "dead", frontend_id="dead")
    dead.origins.contents[URL] = CONTENT
    (stored,) = await dead.enter("m", one("m.bin", URL))
    living = Scene(database, tmp_path / "living")
    await living.library.start()
    assert await living.library.list_holders(stored.sha256) == ()
    await living.library.stop()


async def test_file_of_the_wrong_size_is_thrown_away_and_fetched_again(scene: Scene) -> None:
    scene.origins.contents[URL] = CONTENT
    file = one("m.bin", URL, sha256=sha256_of(CONTENT))
    (stored,) = await scene.enter("m", file)
    path = scene.library.find_path(stored.sha256)
    assert path is not None
    path.chmod(0o600)
    os.truncate(path, 100)
    await scene.library.tidy()
    assert scene.library.find_path(stored.sha256) is None
    await scene.library.ensure_files("m", [file], RecordingProgress())
    assert path.read_bytes() == CONTENT


async def test_tidy_keeps_resumable_parts_and_deletes_old_ones(scene: Scene) -> None:
    fresh, old = (scene.folder / "incoming" / name for name in ("fresh", "old"))
    for folder in (fresh, old):
        (folder / "0").mkdir(parents=True)
        (folder / "0" / "part").write_bytes(b"bytes")
        (folder / "joined.new").write_bytes(b"half")
    long_ago = (scene.folder.stat().st_mtime - INCOMING_LIFE_S - 60,) * 2
    for path in (old / "0" / "part", old / "0", old):
        os.utime(path, long_ago)
    (old / "joined.new").unlink()
    os.utime(old, long_ago)
    await scene.library.tidy()
    assert scene.on_disk() == ["incoming/fresh/0/part"]


@pytest.mark.behaviour("LIB-10")
async def test_contents_in_use_and_shared_contents_are_not_collected(scene: Scene) -> None:
    scene.origins.contents |= {URL: CONTENT, "/other": b"other"}
    await scene.enter("one", one("m.bin", URL), one("o.bin", "/other"))
    await scene.enter("two", one("m.bin", URL))
    await scene.delete("one")
    collected = await scene.library.collect(older_than_s=0)
    assert [file.sha256 for file in collected.files] == [sha256_of(b"other")]
    assert collected.freed_bytes == 5
    assert scene.library.find_path(sha256_of(CONTENT)) is not None
    assert not await scene.library.forget(sha256_of(CONTENT))
    await scene.delete("two")
    assert await scene.library.forget(sha256_of(CONTENT))
    assert scene.on_disk() == []


@pytest.mark.behaviour("LIB-10")
async def test_content_that_is_being_imported_is_not_collected(scene: Scene) -> None:
    scene.origins.contents |= {URL: CONTENT, "/other": CONTENT[1:]}
    await scene.enter("first", one("m.bin", URL, sha256=sha256_of(CONTENT)))
    await scene.delete("first")
    files = [one("m.bin", URL, sha256=sha256_of(CONTENT)), one("o.bin", "/other")]
    await scene.model("second", files)
    scene.origins.gate.clear()
    scene.origins.begun.clear()
    entering = asyncio.create_task(scene.library.ensure_files("second", files, RecordingProgress()))
    await scene.origins.begun.wait()
    assert (await scene.library.collect(older_than_s=0)).files == ()
    scene.origins.gate.set()
    await entering
    assert (await scene.library.collect(older_than_s=0)).files == ()
    assert scene.origins.moved_bytes[URL] == len(CONTENT)


@pytest.mark.behaviour("LIB-10")
async def test_periodic_collection_waits_a_day(scene: Scene) -> None:
    scene.origins.contents[URL] = CONTENT
    await scene.enter("m", one("m.bin", URL))
    await scene.delete("m")
    assert await scene.library.tick() == 0
    async with scene.database.transaction() as tx:
        await tx.execute(text("UPDATE library_files SET created_at = corral_now() - interval '25 hours'"))
        await tx.execute(text("UPDATE blobs SET created_at = corral_now() - interval '25 hours'"))
    assert await scene.library.tick() == 1
    assert await scene.rows("SELECT 1 FROM blobs") == []


async def test_reading_goes_over_pieces_stops_at_the_end_and_survives_a_removal(tmp_path: Path) -> None:
    content = os.urandom(2 * PIECE_BYTES + 77)
    path = tmp_path / "file"
    path.write_bytes(content)
    pieces = [piece async for piece in read_file(path, 5, len(content))]
    assert b"".join(pieces) == content[5:]
    reading = read_file(path, 0, len(content))
    first = await anext(reading)
    path.unlink()
    assert b"".join([first, *[piece async for piece in reading]]) == content


async def test_missing_content_cannot_be_read(scene: Scene) -> None:
    with pytest.raises(NotFound):
        scene.library.read("0" * 64, 0, 1)
    with pytest.raises(NotFound):
        await scene.library.get_blob("0" * 64)
    assert not await scene.library.has("0" * 64)
