"""A storage that all frontends share, against a real S3 server; and a folder that workers share."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from corral.adapters.storage import S3Key, parse_address
from corral.adapters.storage.s3 import PART_BYTES, S3Storage
from corral.domain.errors import InvalidRequest, NotFound, Unavailable
from corral.store.database import Database
from tests.library.origins import RecordingProgress, sha256_of
from tests.library.s3_server import BUCKET, s3_server
from tests.library.scene import Scene, one
from tests.library.test_damage import found
from tests.support.tiny_gguf import write_tiny_gguf

URL = "https://models.example/m.bin"
CONTENT = bytes(range(256)) * 4000


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as url:
        yield url


def storage_at(url: str, folder: str) -> S3Storage:
    return S3Storage(parse_address(f"s3://{BUCKET}/{folder}?endpoint={url}"), S3Key(name="key", secret="secret"))


@pytest.fixture
def storage(s3: str, tmp_path: Path) -> S3Storage:
    return storage_at(s3, tmp_path.name)


@pytest.mark.behaviour("LIB-11")
async def test_content_lies_in_the_storage_and_nowhere_else(database: Database, tmp_path: Path, storage: S3Storage):
    scene = Scene(database, tmp_path / "library", storage=storage)
    scene.origins.contents[URL] = CONTENT
    (stored,) = await scene.enter("m", one("m.bin", URL))
    assert await storage.find(stored.sha256) == len(CONTENT)
    assert scene.on_disk() == []
    assert await scene.rows("SELECT holder, is_shared FROM library_files") == [(storage.name, True)]
    assert await scene.library.filter_held([stored.sha256, "0" * 64]) == {stored.sha256}
    # Another frontend has it without fetching, and so has its next life.
    other = scene.another()
    await scene.model("again", [one("m.bin", URL, sha256=stored.sha256)])
    await other.ensure_files("again", [one("m.bin", URL, sha256=stored.sha256)], RecordingProgress())
    assert scene.origins.moved_bytes[URL] == len(CONTENT)


@pytest.mark.behaviour("LIB-11")
async def test_node_reads_from_an_address_that_needs_nothing_more(
    database: Database, tmp_path: Path, storage: S3Storage
) -> None:
    scene = Scene(database, tmp_path / "library", storage=storage)
    scene.origins.contents[URL] = CONTENT
    (stored,) = await scene.enter("m", one("m.bin", URL))
    (place,) = await scene.library.list_blob_sources([stored.sha256, "0" * 64])
    assert (place.kind, place.sha256) == ("storage", stored.sha256)
    async with (
        aiohttp.ClientSession() as session,
        session.get(place.url, headers={"Range": "bytes=10-19"}) as answer,
    ):
        assert (answer.status, await answer.read()) == (206, CONTENT[10:20])


@pytest.mark.behaviour("LIB-11")
async def test_unregistered_object_in_the_storage_is_replaced(
    database: Database, tmp_path: Path, storage: S3Storage
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"x" * len(CONTENT))
    await storage.put(sha256_of(CONTENT), wrong, lambda _: None)
    scene = Scene(database, tmp_path / "library", storage=storage)
    scene.origins.contents[URL] = CONTENT
    (stored,) = await scene.enter("m", one("m.bin", URL, sha256=sha256_of(CONTENT)))
    assert b"".join([piece async for piece in storage.read(stored.sha256, 0, len(CONTENT))]) == CONTENT


@pytest.mark.behaviour("LIB-11")
async def test_object_deleted_from_the_bucket_is_fetched_again(
    database: Database, tmp_path: Path, storage: S3Storage
) -> None:
    scene = Scene(database, tmp_path / "library", storage=storage)
    scene.origins.contents[URL] = CONTENT
    file = one("m.bin", URL, sha256=sha256_of(CONTENT))
    (stored,) = await scene.enter("m", file)
    await storage.remove(stored.sha256)
    await scene.library.ensure_files("m", [file], RecordingProgress())
    assert scene.origins.moved_bytes[URL] == 2 * len(CONTENT)
    assert await storage.find(stored.sha256) == len(CONTENT)


async def test_reported_copy_of_the_storage_that_is_damaged_is_dropped_and_fetched_again(
    database: Database, tmp_path: Path, storage: S3Storage
) -> None:
    scene = Scene(database, tmp_path / "library", storage=storage)
    scene.origins.contents[URL] = CONTENT
    file = one("m.bin", URL, sha256=sha256_of(CONTENT))
    (stored,) = await scene.enter("m", file)
    assert await found(scene.library, stored.sha256) is True
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"?" + CONTENT[1:])
    await storage.put(stored.sha256, damaged, lambda _: None)
    other = scene.another()
    assert await found(other, stored.sha256) is False
    assert await storage.find(stored.sha256) is None
    assert await other.list_holders(stored.sha256) == ()
    await other.ensure_files("m", [file], RecordingProgress())
    assert await found(other, stored.sha256) is True


@pytest.mark.behaviour("LIB-11")
async def test_headers_of_what_is_only_in_the_storage_are_read_from_there(
    database: Database, tmp_path: Path, storage: S3Storage
) -> None:
    content = write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()
    scene = Scene(database, tmp_path / "library", storage=storage)
    scene.origins.contents[URL] = content
    file = one("tiny.gguf", URL, sha256=sha256_of(content))
    await scene.enter("first", file)
    await scene.enter("second", file, library=scene.another())
    facts = (await scene.found("second")).facts
    assert facts is not None
    assert facts == (await scene.found("first")).facts
    assert facts.layers == 2


@pytest.mark.behaviour("LIB-11")
async def test_large_file_goes_in_parts_and_reports(tmp_path: Path, storage: S3Storage) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"a" * PART_BYTES + b"b" * 100)
    moved: list[int] = []
    await storage.put("ab" * 32, large, moved.append)
    assert moved == [PART_BYTES, PART_BYTES + 100]
    assert await storage.find("ab" * 32) == PART_BYTES + 100
    end = [piece async for piece in storage.read("ab" * 32, PART_BYTES - 1, 2)]
    assert b"".join(end) == b"ab"


async def test_unused_content_is_deleted_from_the_storage_too(
    database: Database, tmp_path: Path, storage: S3Storage
) -> None:
    scene = Scene(database, tmp_path / "library", storage=storage)
    scene.origins.contents |= {URL: CONTENT, "/other": b"other"}
    (gone,) = await scene.enter("gone", one("m.bin", URL))
    (kept,) = await scene.enter("kept", one("m.bin", "/other"))
    await scene.delete("gone")
    assert (await scene.library.collect()).files == ()
    collected = await scene.library.collect(older_than_s=0)
    assert [file.sha256 for file in collected.files] == [gone.sha256]
    assert await storage.find(gone.sha256) is None
    assert await storage.find(kept.sha256) is not None
    assert await scene.library.filter_held([gone.sha256, kept.sha256]) == {kept.sha256}


async def test_storage_that_is_down_or_lacks_a_content_raises(s3: str, tmp_path: Path, storage: S3Storage) -> None:
    with pytest.raises(NotFound):
        _ = [piece async for piece in storage.read("00" * 32, 0, 10)]
    await storage.remove("00" * 32)
    nowhere = S3Storage(parse_address(f"s3://no-such-bucket/x?endpoint={s3}"), S3Key(name="key", secret="secret"))
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    with pytest.raises((Unavailable, NotFound)):
        await nowhere.put("00" * 32, file, lambda _: None)


@pytest.mark.parametrize("text", ["http://x/y", "s3://", "s3://b?colour=blue", "s3://user:secret@bucket/x", "nonsense"])
def test_address_of_a_storage_that_makes_no_sense_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_address(text)
    assert "secret" not in caught.value.message


# --- a folder that workers share ---


async def test_shared_folder_is_registered_once_for_all_and_readable_for_workers(
    database: Database, tmp_path: Path
) -> None:
    scene = Scene(database, tmp_path / "library", is_shared=True)
    await scene.library.start()
    scene.origins.contents[URL] = CONTENT
    (stored,) = await scene.enter("m", one("m.bin", URL))
    other = scene.another()
    await other.start()
    assert await scene.rows("SELECT holder, is_shared FROM library_files") == [("shared folder", True)]
    path = other.find_path(stored.sha256)
    assert path is not None
    assert stat.S_IMODE((await asyncio.to_thread(path.stat)).st_mode) == 0o644
    await scene.library.stop()
    assert await other.filter_held([stored.sha256]) == {stored.sha256}
    assert len(await scene.rows("SELECT 1 FROM library_files")) == 1
    await other.stop()
