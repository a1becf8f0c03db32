"""Files over HTTP: nodes read what the library holds, admins send, list and collect."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from corral.adapters.nats.authority import NatsAuthority
from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.client import CorralClient
from corral.domain.errors import NotFound
from corral.domain.model import CHUNK_BYTES, FilePart, ModelConfig, ModelFile
from corral.domain.node import NodeId
from corral.ports.credentials import BLOB_READ_SCOPE, FRONTENDS_AUDIENCE
from corral.store import holdings
from corral.store import models as model_store
from tests.api.operations import assert_envelope
from tests.library.origins import RecordingProgress
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, join_node
from tests.support.polling import eventually

CONTENT = bytes(range(256)) * 40_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
async def library(database_url: str, tmp_path: Path) -> AsyncIterator[RunningFrontend]:
    """A frontend with a library."""
    async with running_frontend(database_url, library_dir=tmp_path / "library") as running:
        yield running


async def put(
    frontend: RunningFrontend, sha256: str, content: bytes, content_range: str = "", key: str = ADMIN_KEY
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {key}"} | ({"Content-Range": content_range} if content_range else {})
    url = f"{frontend.url}/api/files/{sha256}"
    async with frontend.http.put(url, data=io.BytesIO(content), headers=headers, allow_redirects=False) as answer:
        return answer.status, (await answer.json()) if answer.content_type == "application/json" else None


async def send(frontend: RunningFrontend, content: bytes = CONTENT) -> tuple[int, Any]:
    return await put(frontend, hashlib.sha256(content).hexdigest(), content)


async def get(node: PretendNode, path: str, **headers: str) -> tuple[int, bytes, Any]:
    sent = {"Authorization": f"Bearer {node.credential}"} | headers
    url = f"{node.frontend.url}/api/node/{node.id}{path}"
    async with node.frontend.http.get(url, headers=sent) as answer:
        return answer.status, await answer.read(), answer.headers


async def make_model(frontend: RunningFrontend, name: str, *sha256s: str) -> None:
    files = tuple(ModelFile(path=f"{sha}.bin", parts=(FilePart(uri=f"upload:{sha}"),)) for sha in sha256s)
    async with frontend.database.transaction() as tx:
        config = ModelConfig(name=name, backend="fake", files=files)
        await model_store.insert_model(tx, config, "a test", "")
    await frontend.core.library.ensure_files(name, files, RecordingProgress())


async def test_node_reads_a_content_whole_and_in_ranges(library: RunningFrontend) -> None:
    assert (await send(library))[0] == 200
    node = await join_node(library)
    path = f"/blobs/{SHA256}"
    status, body, headers = await get(node, path)
    assert (status, body) == (200, CONTENT)
    assert headers["X-Content-SHA256"] == SHA256
    assert headers["Accept-Ranges"] == "bytes"
    size = len(CONTENT)
    for requested_range, (first, end) in {
        "bytes=0-0": (0, 1),
        "bytes=100-199": (100, 200),
        f"bytes={size - 5}-": (size - 5, size),
        "bytes=-7": (size - 7, size),
        f"bytes=1-{size * 2}": (1, size),
    }.items():
        status, body, headers = await get(node, path, Range=requested_range)
        assert (status, body) == (206, CONTENT[first:end]), requested_range
        assert headers["Content-Range"] == f"bytes {first}-{end - 1}/{size}"
    status, body, headers = await get(node, path, Range=f"bytes={size}-")
    assert (status, headers["Content-Range"]) == (416, f"bytes */{size}")
    for strange in ("bytes=5-2", "bytes=0-1,5-6", "lines=1-2", "bytes=-"):
        assert (await get(node, path, Range=strange))[0] == 200
    url = f"{library.url}/api/node/{node.id}{path}"
    async with library.http.head(url, headers={"Authorization": f"Bearer {node.credential}"}) as answer:
        assert (answer.status, answer.headers["Content-Length"]) == (200, str(size))
        assert await answer.read() == b""


async def test_node_reads_the_hashes_of_the_chunks(library: RunningFrontend) -> None:
    await send(library)
    node = await join_node(library)
    status, body, headers = await get(node, f"/blobs/{SHA256.upper()}/chunks")
    chunks = [CONTENT[at : at + CHUNK_BYTES] for at in range(0, len(CONTENT), CHUNK_BYTES)]
    assert len(chunks) == 2
    assert (status, body) == (200, b"".join(hashlib.sha256(chunk).digest() for chunk in chunks))
    assert (headers["X-File-Size"], headers["X-Content-SHA256"]) == (str(len(CONTENT)), SHA256)


async def test_files_are_read_only_by_approved_nodes_with_their_own_credential(library: RunningFrontend) -> None:
    await send(library)
    node, pending = await join_node(library), await join_node(library, "node-2", approved=False)
    for path in (f"/blobs/{SHA256}", f"/blobs/{SHA256}/chunks"):
        status, answer = await pending.call("GET", path)
        assert status == 403
        assert_envelope(answer, kind="node_error")
        for key in (ADMIN_KEY, pending.credential, None):
            assert (await library.call("GET", f"/api/node/{node.id}{path}", key=key))[0] == 401


async def test_content_that_is_not_held_is_404_with_its_holders(
    library: RunningFrontend, database_url: str, tmp_path
) -> None:
    node = await join_node(library)
    for path in (f"/blobs/{SHA256}", f"/blobs/{SHA256}/chunks"):
        status, answer = await node.call("GET", path)
        assert (status, answer["error"]["code"]) == (404, "blob_not_found")
    assert (await node.call("GET", "/blobs/..%2f..%2fetc/chunks"))[0] in (400, 404)
    assert (await node.call("GET", "/blobs/nonsense"))[0] == 400
    async with running_frontend(database_url, library_dir=tmp_path / "other") as other:
        await send(other)
        status, answer = await node.call("GET", f"/blobs/{SHA256}")
        assert (status, answer["error"]["code"]) == (404, "blob_not_here")
        assert answer["error"]["details"]["holders"] == [other.core.api_deps.frontend_id]
        # Everybody can say what its chunks are.
        assert (await get(node, f"/blobs/{SHA256}/chunks"))[0] == 200
    status, answer = await node.call("GET", f"/blobs/{SHA256}")
    assert answer["error"]["details"]["holders"] == []


async def test_blob_has_no_holders_after_its_file_was_lost(library: RunningFrontend) -> None:
    await send(library)
    node = await join_node(library)
    assert (await get(node, f"/blobs/{SHA256}"))[0] == 200
    path = library.core.library.find_path(SHA256)
    assert path is not None
    path.unlink()
    status, answer = await node.call("GET", f"/blobs/{SHA256}")
    assert (status, answer["error"]["code"], answer["error"]["details"]["holders"]) == (404, "blob_not_here", [])
    (held,) = (await library.call("GET", "/api/files"))[1]["files"]
    assert held["holders"] == []


async def test_nodes_that_have_all_of_a_file_are_named(library: RunningFrontend) -> None:
    await send(library)
    whole, part = await join_node(library, name="whole"), await join_node(library, name="part")
    async with library.core.api_deps.database.transaction() as tx:
        await holdings.replace_files(tx, NodeId(whole.id), {SHA256: (len(CONTENT), True)})
        await holdings.replace_files(tx, NodeId(part.id), {SHA256: (len(CONTENT), False)})
    (held,) = (await library.call("GET", "/api/files"))[1]["files"]
    assert held["nodes"] == ["whole"]


@pytest.mark.behaviour("LIB-9")
async def test_file_is_sent_in_pieces_and_goes_on_after_a_break(library: RunningFrontend) -> None:
    size, half = len(CONTENT), len(CONTENT) // 2
    url, headers = f"{library.url}/api/files/{SHA256}", {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with library.http.head(url, headers=headers) as answer:
        assert answer.status == 404
    status, _ = await put(library, SHA256, CONTENT[:half], f"bytes 0-{half - 1}/{size}")
    assert status == 308
    async with library.http.head(url, headers=headers) as answer:
        assert (answer.headers["X-File-Size"], answer.headers["X-Target-SHA256"]) == (str(half), SHA256)
        assert "X-Content-SHA256" not in answer.headers
    status, answer = await put(library, SHA256, CONTENT[:10], f"bytes 0-9/{size}")
    assert status == 416
    assert_envelope(answer)
    rest = f"bytes {half}-{size - 1}/{size}"
    status, answer = await put(library, SHA256, CONTENT[half:], rest)
    assert (status, answer) == (200, {"sha256": SHA256, "size_bytes": size})
    # The answer was lost: sending the last piece again is a success, and so is looking.
    assert (await put(library, SHA256, CONTENT[half:], rest))[0] == 200
    async with library.http.head(url, headers=headers) as looked:
        assert looked.headers["X-Content-SHA256"] == SHA256
    path = library.core.library.find_path(SHA256)
    assert path is not None
    assert path.read_bytes() == CONTENT


@pytest.mark.behaviour("LIB-9")
async def test_upload_with_a_wrong_sha256_is_refused_and_deleted(library: RunningFrontend) -> None:
    status, answer = await put(library, SHA256, b"something else")
    assert (status, answer["error"]["code"]) == (400, "digest_mismatch")
    assert_envelope(answer)
    assert (await library.call("GET", "/api/files"))[1]["files"] == []
    assert library.core.library.find_path(SHA256) is None
    assert (await put(library, SHA256, b"x", key="ck_wrong"))[0] == 401


@pytest.mark.behaviour("LIB-9")
async def test_client_sends_a_file_once_and_lists_it(library: RunningFrontend, tmp_path: Path) -> None:
    file = tmp_path / "big.bin"
    file.write_bytes(CONTENT)
    progress: list[tuple[int, int]] = []
    async with CorralClient(library.url, ADMIN_KEY, clock=SystemClock(), ids=SystemIdGenerator()) as client:
        assert await client.files.send_file(file, lambda *moved: progress.append(moved)) == SHA256
        assert (progress[0], progress[-1]) == ((0, len(CONTENT)), (len(CONTENT), len(CONTENT)))
        assert await client.files.send_file(file, lambda *moved: progress.append(moved)) == SHA256
        (held,) = await client.files.list()
        assert (held.sha256, held.size_bytes, held.models) == (SHA256, len(CONTENT), [])
        assert [holder.name for holder in held.holders] == [library.core.api_deps.frontend_id]
        await make_model(library, "mine", SHA256)
        assert [file.models for file in await client.files.list("mine")] == [["mine"]]
        assert await client.files.list("other") == []
        empty = tmp_path / "empty"
        empty.touch()
        assert await client.files.send_file(empty) == hashlib.sha256().hexdigest()


@pytest.mark.behaviour("LIB-10")
async def test_files_route_collects_unused_contents_and_a_dry_run_deletes_nothing(library: RunningFrontend) -> None:
    await send(library)
    await send(library, b"used")
    used = hashlib.sha256(b"used").hexdigest()
    await make_model(library, "mine", used)
    status, answer = await library.call("POST", "/api/files/collect?dry_run=true")
    assert (status, answer["files"]) == (200, [])  # sent a moment ago
    from sqlalchemy import text  # noqa: PLC0415

    async with library.database.transaction() as tx:
        await tx.execute(text("UPDATE library_files SET created_at = corral_now() - interval '2 hours'"))
    status, answer = await library.call("POST", "/api/files/collect?dry_run=true")
    assert (answer["dry_run"], answer["freed_bytes"]) == (True, len(CONTENT))
    assert library.core.library.find_path(SHA256) is not None
    status, answer = await library.call("POST", "/api/files/collect")
    assert [file["sha256"] for file in answer["files"]] == [SHA256]
    assert library.core.library.find_path(SHA256) is None
    assert library.core.library.find_path(used) is not None


async def test_frontend_without_a_library_serves_none_and_takes_none(frontend: RunningFrontend) -> None:
    status, answer = await send(frontend)
    assert (status, answer["error"]["code"]) == (503, "no_library")
    assert (await frontend.call("GET", "/api/files"))[1] == {"files": [], "next": None}


async def test_reader_that_leaves_ends_the_reading(library: RunningFrontend) -> None:
    """The frontend goes on; nothing is left open."""
    await send(library)
    node = await join_node(library)
    headers = {"Authorization": f"Bearer {node.credential}"}
    async with aiohttp.ClientSession() as session:
        answer = await session.get(f"{library.url}/api/node/{node.id}/blobs/{SHA256}", headers=headers)
        await answer.content.readexactly(10)
        answer.close()
    assert (await get(node, f"/blobs/{SHA256}"))[1] == CONTENT


async def test_frontend_reads_contents_of_its_peer_and_others_are_refused(
    library: RunningFrontend, database_url: str, tmp_path: Path
) -> None:
    authority = NatsAuthority.create()
    async with (
        running_frontend(database_url, library_dir=tmp_path / "b", frontend_id="b", authority=authority) as holder,
        running_frontend(database_url, library_dir=tmp_path / "c", frontend_id="c", authority=authority) as asker,
    ):
        assert (await send(holder))[0] == 200
        assert asker.core.library.find_path(SHA256) is None
        await make_model(asker, "chat", SHA256)
        path = asker.core.library.find_path(SHA256)
        assert path is not None
        assert path.read_bytes() == CONTENT
        held = [one.name for one in await holder.core.library.list_holders(SHA256)]
        assert held == ["b", "c"]
        url = f"{holder.url}/api/node/{FRONTENDS_AUDIENCE}/blobs/{SHA256}"
        # Of another cluster, for a node, and an admin's key.
        foreign = library.core.api_deps.credentials.issue_ticket(
            "x", BLOB_READ_SCOPE, audience=FRONTENDS_AUDIENCE, ttl_s=60
        )
        other = asker.core.api_deps.credentials.issue_ticket("x", BLOB_READ_SCOPE, audience="a node", ttl_s=60)
        for shown, expected in ((foreign, 401), (other, 403), (ADMIN_KEY, 401), ("", 401)):
            async with holder.http.get(url, headers={"Authorization": f"Bearer {shown}"}) as answer:
                assert answer.status == expected, shown


async def test_content_that_no_frontend_holds_is_listed_as_missing(library: RunningFrontend) -> None:
    with pytest.raises(NotFound, match="was never uploaded"):
        await make_model(library, "chat", SHA256)


def flip(library: RunningFrontend) -> None:
    """One bit of the library's copy, without a trace in its size and time."""
    path = library.core.library.find_path(SHA256)
    assert path is not None
    before = path.stat()
    path.write_bytes(CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_report_of_wrong_bytes_makes_the_frontend_drop_its_damaged_copy(library: RunningFrontend) -> None:
    await send(library)
    node = await join_node(library)
    flip(library)

    async def is_dropped() -> bool:
        status, answer = await node.call("POST", f"/blobs/{SHA256}/damage")
        assert status == 200
        return answer["is_right"] is False

    await eventually(is_dropped)
    assert (await get(node, f"/blobs/{SHA256}"))[0] == 404
    # What is sent again is there again.
    assert (await send(library))[0] == 200
    assert (await get(node, f"/blobs/{SHA256}"))[1] == CONTENT


async def test_report_of_wrong_bytes_is_taken_from_approved_nodes_only(library: RunningFrontend) -> None:
    await send(library)
    node = await join_node(library)
    url = f"{library.url}/api/node/{node.id}/blobs/{SHA256}/damage"
    async with library.http.post(url, headers={"Authorization": "Bearer cn_wrong"}) as answer:
        assert answer.status == 401
    status, answer = await node.call("POST", f"/blobs/{'0' * 64}/damage")
    assert (status, answer["error"]["code"]) == (404, "blob_not_found")


@pytest.mark.behaviour("LIB-16")
async def test_readiness_names_an_upload_that_is_damaged_until_it_is_sent_again(library: RunningFrontend) -> None:
    await send(library)
    await make_model(library, "voice", SHA256)
    node = await join_node(library)
    flip(library)
    await node.call("POST", f"/blobs/{SHA256}/damage")

    async def sentences() -> list[str]:
        _, answer = await library.call("GET", "/readyz", key=None)
        return [sentence for sentence in answer["degraded"] if "voice" in sentence]

    (sentence,) = await eventually(sentences)
    assert f"PUT /api/files/{SHA256}" in sentence
    await send(library)
    assert await sentences() == []


async def test_copy_that_is_too_short_is_not_served(library: RunningFrontend) -> None:
    await send(library)
    node = await join_node(library)
    path = library.core.library.find_path(SHA256)
    assert path is not None
    os.truncate(path, 1000)
    status, answer = await node.call("GET", f"/blobs/{SHA256}")
    assert (status, answer["error"]["code"]) == (404, "blob_not_here")
