"""Files enter the cluster: once, verified, all or nothing, and a crash costs nothing but the rest of the way."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from corral.domain.errors import Conflict, CorralError, NotFound, Unavailable, Unprocessable
from corral.domain.model import CHUNK_BYTES
from corral.policy.models.headers import BadHeader
from corral.store import models as model_store
from tests.library.origins import PIECE, RecordingProgress, sha256_of
from tests.library.scene import FRONTEND, Scene, one
from tests.support.polling import eventually
from tests.support.tiny_gguf import write_tiny_gguf

URL = "https://models.example/m.bin"
CONTENT = bytes(range(256)) * 2000


async def passengers(scene: Scene, count: int) -> bool:
    """Whether so many callers wait for one flight."""
    entering = scene.library._importer
    assert entering is not None
    return [call.waiters for call in entering._flights._calls.values()] == [count]


async def test_file_is_held_hashed_and_registered_together(scene: Scene) -> None:
    scene.origins.contents[URL] = CONTENT
    (stored,) = await scene.enter("m", one("m.bin", URL))
    sha256 = sha256_of(CONTENT)
    assert (stored.path, stored.sha256, stored.size_bytes) == ("m.bin", sha256, len(CONTENT))
    path = scene.library.find_path(sha256)
    assert path is not None
    assert path.read_bytes() == CONTENT
    assert scene.on_disk() == [f"blobs/{sha256[:2]}/{sha256}"]
    assert (await scene.found("m")).files == (stored,)
    assert await scene.rows("SELECT sha256, holder, is_shared FROM library_files") == [(sha256, FRONTEND, False)]
    events = await scene.rows("SELECT key, data->>'size_bytes' FROM outbox WHERE kind = 'file.entered'")
    assert events == [(sha256, str(len(CONTENT)))]


async def test_every_chunk_has_its_own_hash(scene: Scene) -> None:
    content = b"a" * CHUNK_BYTES + b"b" * CHUNK_BYTES + b"c" * 100
    scene.origins.contents[URL] = content
    (stored,) = await scene.enter("m", one("m.bin", URL))
    blob = await scene.library.get_blob(stored.sha256)
    expected = [content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES)]
    assert blob.chunks == b"".join(hashlib.sha256(chunk).digest() for chunk in expected)
    assert [await scene.library.read_chunk(stored.sha256, index) for index in range(blob.chunk_count)] == expected
    part = [piece async for piece in scene.library.read(stored.sha256, CHUNK_BYTES - 10, 20)]
    assert b"".join(part) == b"a" * 10 + b"b" * 10


async def test_headers_of_the_files_become_the_models_facts(scene: Scene, tmp_path: Path) -> None:
    scene.origins.contents[URL] = write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()
    await scene.enter("m", one("tiny.gguf", URL))
    facts = (await scene.found("m")).facts
    assert facts is not None
    assert (facts.format, facts.architecture, facts.layers, facts.has_chat_template) == ("gguf", "llama", 2, True)


async def test_model_whose_header_makes_no_sense_is_refused_and_nothing_is_registered(scene: Scene) -> None:
    scene.origins.contents[URL] = b"<html>not here</html>"
    with pytest.raises(BadHeader):
        await scene.enter("m", one("m.gguf", URL))
    assert (await scene.found("m")).files is None
    assert await scene.rows("SELECT 1 FROM blobs") == []
    collected = await scene.library.collect(older_than_s=0)
    assert len(collected.files) == 1
    assert scene.on_disk() == []


async def test_parts_are_joined_in_order_and_the_whole_is_checked(scene: Scene) -> None:
    parts = [f"{URL}.part{number}" for number in range(3)]
    for number, uri in enumerate(parts):
        scene.origins.contents[uri] = bytes([number]) * (100_000 + number)
    whole = b"".join(scene.origins.contents[uri] for uri in parts)
    (stored,) = await scene.enter("m", one("m.bin", *parts, sha256=sha256_of(whole)))
    path = scene.library.find_path(stored.sha256)
    assert path is not None
    assert path.read_bytes() == whole
    assert scene.on_disk() == [f"blobs/{stored.sha256[:2]}/{stored.sha256}"]
    with pytest.raises(Unprocessable) as caught:
        await scene.enter("wrong", one("m.bin", *reversed(parts), sha256=sha256_of(b"something else")))
    assert caught.value.slug == "digest_mismatch"
    assert scene.on_disk() == [f"blobs/{stored.sha256[:2]}/{stored.sha256}"]


async def test_folder_keeps_its_paths_and_same_contents_are_kept_once(scene: Scene) -> None:
    scene.origins.contents |= {"/a": b"aaa", "/b": b"bbb", "/copy": b"aaa"}
    scene.origins.folders["hf://x/y"] = {"config.json": "/a", "sub/weights.bin": "/b", "sub/again.json": "/copy"}
    stored = await scene.enter("m", one("", "hf://x/y"))
    assert [file.path for file in stored] == ["config.json", "sub/again.json", "sub/weights.bin"]
    assert len(scene.on_disk()) == 2
    assert (await scene.found("m")).payload_bytes == 6


@pytest.mark.parametrize("path", ["../m.bin", "/etc/m.bin", "a/../../m.bin", "a\x00b", "a\\b", ".."])
async def test_path_that_leads_out_of_the_model_is_refused(scene: Scene, path: str) -> None:
    scene.origins.contents["/a"] = b"aaa"
    scene.origins.folders["hf://x/y"] = {path: "/a"}
    with pytest.raises(Unprocessable) as caught:
        await scene.enter("m", one("", "hf://x/y"))
    assert caught.value.slug == "bad_path"
    assert scene.origins.moved_bytes.total() == 0


async def test_folder_in_place_of_a_file_and_a_duplicate_path_are_refused(scene: Scene) -> None:
    scene.origins.contents |= {"/a": b"aaa", "/b": b"bbb"}
    scene.origins.folders["hf://x/y"] = {"a": "/a", "b": "/b"}
    for files in ([one("m.bin", "hf://x/y")], [one("", "hf://x/y"), one("a", "/a")]):
        with pytest.raises(Unprocessable):
            await scene.enter(f"m{len(files)}", *files)
    with pytest.raises(Unprocessable) as caught:
        await scene.enter("m3", one("a", "/a", sha256=sha256_of(b"another")))
    assert caught.value.slug == "digest_mismatch"
    assert scene.origins.moved_bytes.total() == 0


async def test_content_that_is_held_is_not_fetched_again(scene: Scene) -> None:
    scene.origins.contents[URL] = CONTENT
    await scene.enter("m", one("m.bin", URL, sha256=sha256_of(CONTENT)))
    progress = RecordingProgress()
    await scene.enter("again", one("other name.bin", URL, sha256=sha256_of(CONTENT)), report=progress)
    assert scene.origins.moved_bytes[URL] == len(CONTENT)
    assert progress.reported[-1] == (len(CONTENT), len(CONTENT), "other name.bin")
    assert len(await scene.rows("SELECT 1 FROM outbox WHERE kind = 'file.entered'")) == 1


async def test_held_file_that_the_registry_does_not_know_is_hashed_before_it_counts(scene: Scene) -> None:
    scene.origins.contents[URL] = CONTENT
    file = one("m.bin", URL, sha256=sha256_of(CONTENT))
    (stored,) = await scene.enter("m", file)
    for statement in ("DELETE FROM model_files", "DELETE FROM library_files", "DELETE FROM blobs"):
        async with scene.database.transaction() as tx:
            from sqlalchemy import text  # noqa: PLC0415

            await tx.execute(text(statement))
    await scene.library.ensure_files("m", [file], RecordingProgress())
    assert scene.origins.moved_bytes[URL] == len(CONTENT)
    path = scene.library.find_path(stored.sha256)
    assert path is not None
    path.chmod(0o600)
    path.write_bytes(b"damaged" + CONTENT[7:])
    async with scene.database.transaction() as tx:
        await tx.execute(text("DELETE FROM model_files"))
        await tx.execute(text("DELETE FROM library_files"))
        await tx.execute(text("DELETE FROM blobs"))
    await scene.library.ensure_files("m", [file], RecordingProgress())
    assert scene.origins.moved_bytes[URL] == 2 * len(CONTENT)
    assert path.read_bytes() == CONTENT


async def test_concurrent_fetches_of_one_content_share_one_flight(scene: Scene) -> None:
    scene.origins.contents[URL] = CONTENT
    for number in range(5):
        await scene.model(f"m{number}", [one("m.bin", URL)])
    scene.origins.gate.clear()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(scene.library.ensure_files(f"m{number}", [one("m.bin", URL)], RecordingProgress()))
            for number in range(5)
        ]
        await eventually(lambda: passengers(scene, 5))
        scene.origins.gate.set()
    assert len({task.result()[0].sha256 for task in tasks}) == 1
    assert scene.origins.moved_bytes[URL] == len(CONTENT)


async def test_shared_fetch_ends_only_when_its_last_caller_leaves(scene: Scene) -> None:
    scene.origins.contents[URL] = CONTENT
    scene.origins.gate.clear()
    for name in ("a", "b"):
        await scene.model(name, [one("m.bin", URL)])
    first, second = (
        asyncio.create_task(scene.library.ensure_files(name, [one("m.bin", URL)], RecordingProgress())) for name in "ab"
    )
    await eventually(lambda: passengers(scene, 2))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    scene.origins.gate.set()
    assert (await second)[0].sha256 == sha256_of(CONTENT)

    scene.origins.gate.clear()
    scene.origins.begun.clear()
    scene.origins.contents["/other"] = CONTENT[1:]
    await scene.model("c", [one("m.bin", "/other")])
    third = asyncio.create_task(scene.library.ensure_files("c", [one("m.bin", "/other")], RecordingProgress()))
    await scene.origins.begun.wait()
    third.cancel()
    with pytest.raises(asyncio.CancelledError):
        await third
    assert (await scene.found("c")).files is None


@pytest.mark.behaviour("LIB-6")
async def test_broken_connection_and_a_new_process_go_on_where_it_was(scene: Scene) -> None:
    scene.origins.contents[URL] = CONTENT
    scene.origins.breaks_after[URL] = 3 * PIECE
    with pytest.raises(Unavailable):
        await scene.enter("m", one("m.bin", URL))
    assert (await scene.found("m")).files is None
    assert [path.split("/")[0] for path in scene.on_disk()] == ["incoming"]
    reborn = scene.another()
    await reborn.start()
    await reborn.ensure_files("m", [one("m.bin", URL)], RecordingProgress())
    assert scene.origins.moved_bytes[URL] == len(CONTENT)
    assert [path.split("/")[0] for path in scene.on_disk()] == ["blobs"]
    await reborn.stop()


@pytest.mark.behaviour("LIB-6")
async def test_import_ends_and_registers_nothing_when_one_file_fails(scene: Scene) -> None:
    scene.origins.contents |= {"/a": CONTENT, "/b": CONTENT[1:]}
    scene.origins.breaks_after["/a"] = PIECE
    with pytest.raises(Unavailable) as caught:
        await scene.enter("m", one("a.bin", "/a"), one("b.bin", "/b"))
    assert caught.value.slug == "source_unavailable"
    assert await scene.rows("SELECT 1 FROM model_files") == []


async def test_full_disk_is_reported_before_a_byte_is_fetched(database, tmp_path) -> None:
    scene = Scene(database, tmp_path / "library", free_bytes=lambda _: 1024**3)
    scene.origins.contents[URL] = CONTENT
    with pytest.raises(Unprocessable) as caught:
        await scene.enter("m", one("m.bin", URL))
    assert caught.value.slug == "disk_full"
    assert "1.0 GiB free" in caught.value.message
    assert scene.origins.moved_bytes.total() == 0


async def test_bytes_that_have_arrived_already_need_no_room_again(database, tmp_path) -> None:
    free = 10 * 1024**3
    scene = Scene(database, tmp_path / "library", free_bytes=lambda _: free)
    scene.origins.contents[URL] = CONTENT
    scene.origins.breaks_after[URL] = len(CONTENT) // PIECE * PIECE
    with pytest.raises(Unavailable):
        await scene.enter("m", one("m.bin", URL))
    free = 1024**3 + len(CONTENT) // 2
    await scene.library.ensure_files("m", [one("m.bin", URL)], RecordingProgress())


async def test_report_only_grows_and_ends_with_all_bytes(scene: Scene) -> None:
    scene.origins.contents |= {"/a": CONTENT, "/b": CONTENT[1:]}
    progress = RecordingProgress()
    await scene.enter("m", one("a.bin", "/a"), one("b.bin", "/b"), report=progress)
    moved = [current for current, _, _ in progress.reported]
    assert moved == sorted(moved)
    assert progress.reported[-1][:2] == (2 * len(CONTENT) - 1, 2 * len(CONTENT) - 1)


async def test_source_without_a_size_is_fetched(scene: Scene) -> None:
    scene.origins.tells = False
    scene.origins.contents[URL] = CONTENT
    (stored,) = await scene.enter("m", one("m.bin", URL))
    assert stored.sha256 == sha256_of(CONTENT)


async def test_file_of_the_machine_is_copied_and_stays(scene: Scene, tmp_path: Path) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(CONTENT)
    scene.origins.local["file:///mine.bin"] = mine
    await scene.enter("m", one("m.bin", "file:///mine.bin"))
    assert mine.read_bytes() == CONTENT
    assert scene.library.find_path(sha256_of(CONTENT)) is not None


async def test_model_that_was_given_other_files_meanwhile_keeps_those(scene: Scene) -> None:
    scene.origins.contents |= {URL: CONTENT, "/other": b"/other"}
    scene.origins.gate.clear()
    before = await scene.model("m", [one("m.bin", URL)])
    entering = asyncio.create_task(scene.library.ensure_files("m", before.config.files, RecordingProgress()))
    await scene.origins.begun.wait()
    async with scene.database.transaction() as tx:
        from dataclasses import replace  # noqa: PLC0415

        locked = await model_store.lock_model(tx, "m")
        edited = replace(locked.config, files=(one("m.bin", "/other"),))
        await model_store.write_revision(tx, locked, edited, "a test", "")
    scene.origins.gate.set()
    with pytest.raises(Conflict) as caught:
        await entering
    assert caught.value.slug == "model_changed"
    assert (await scene.found("m")).files is None


async def test_model_that_does_not_exist_is_not_fetched_for(scene: Scene) -> None:
    scene.origins.contents[URL] = CONTENT
    with pytest.raises(NotFound):
        await scene.library.ensure_files("nobody", [one("m.bin", URL)], RecordingProgress())
    assert scene.origins.moved_bytes.total() == 0


async def test_frontend_without_a_library_says_so(database, tmp_path) -> None:
    scene = Scene(database, tmp_path, folder=None)
    scene.origins.contents[URL] = CONTENT
    await scene.library.start()
    with pytest.raises(CorralError) as caught:
        await scene.enter("m", one("m.bin", URL))
    assert caught.value.slug == "no_library"
    # A model without files needs none.
    assert await scene.enter("fake") == ()
    assert (await scene.library.collect()).files == ()
    await scene.library.stop()
