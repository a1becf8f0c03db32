"""`/v1/files`: uploads as they arrive, lists, downloads at any frontend, owners, limits."""

from __future__ import annotations

import hashlib
import io
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from sqlalchemy import text

from corral.adapters.nats.authority import NatsAuthority
from corral.runs.artifacts import CHUNK_BYTES, ArtifactOptions
from corral.store import artifacts as store
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually

BOUNDARY = "corral-boundary"
QUOTA = 8 * 1024 * 1024


@pytest.fixture
async def frontends(database_url: str) -> AsyncIterator[list[RunningFrontend]]:
    async with AsyncExitStack() as stack:
        authority = NatsAuthority.create()
        options = ArtifactOptions(owner_bytes_max=QUOTA)
        yield [
            await stack.enter_async_context(running_frontend(database_url, authority=authority, artifacts=options))
            for _ in range(2)
        ]


async def make_key(frontend: RunningFrontend, name: str) -> str:
    status, made = await frontend.call("POST", "/api/keys", {"name": name, "scope": "infer"})
    assert status == 201, made
    return str(made["key"])


def make_form(
    content: bytes, *, name: str = "in.jsonl", purpose: str | None = "batch", file_first: bool = False
) -> bytes:
    file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'.encode()
    file += b"Content-Type: application/jsonl\r\n\r\n" + content + b"\r\n"
    field = (
        b""
        if purpose is None
        else (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n{purpose}\r\n'.encode())
    )
    parts = file + field if file_first else field + file
    return parts + f"--{BOUNDARY}--\r\n".encode()


async def upload(frontend: RunningFrontend, key: str, content: bytes, **form: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    body = io.BytesIO(make_form(content, **form))
    async with frontend.http.post(f"{frontend.url}/v1/files", data=body, headers=headers) as answer:
        return answer.status, await answer.json()


async def download(frontend: RunningFrontend, key: str, file_id: str) -> bytes:
    headers = {"Authorization": f"Bearer {key}"}
    async with frontend.http.get(f"{frontend.url}/v1/files/{file_id}/content", headers=headers) as answer:
        assert answer.status == 200
        return await answer.read()


async def count_rows(frontend: RunningFrontend, table: str) -> int:
    async with frontend.database.transaction() as tx:
        return int((await tx.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one())


@pytest.mark.behaviour("BATCH-1")
@pytest.mark.parametrize("file_first", [False, True])
async def test_uploaded_file_is_read_at_another_frontend(frontends: list[RunningFrontend], file_first: bool):
    first, second = frontends
    key = await make_key(first, "app")
    content = random.Random(7).randbytes(3 * CHUNK_BYTES + 17) + f"\r\n--{BOUNDARY[:-1]}\r\n".encode()
    status, made = await upload(first, key, content, name='ün \\"x\\".bin', purpose="user_data", file_first=file_first)
    assert status == 200, made
    assert (made["object"], made["bytes"], made["purpose"]) == ("file", len(content), "user_data")
    assert made["filename"] == 'ün "x".bin'
    status, shown = await second.call("GET", f"/v1/files/{made['id']}", key=key)
    assert (status, shown) == (200, made)
    assert await download(second, key, made["id"]) == content
    async with first.database.transaction() as tx:
        stored = (await tx.execute(text("SELECT sha256, size_bytes, is_complete FROM artifacts"))).one()
    assert tuple(stored) == (hashlib.sha256(content).hexdigest(), len(content), True)


@pytest.mark.behaviour("BATCH-2")
async def test_file_of_another_owner_is_404(frontends: list[RunningFrontend]):
    first, _ = frontends
    mine, theirs = await make_key(first, "mine"), await make_key(first, "theirs")
    _, made = await upload(first, mine, b"{}")
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        status, answer = await first.call(method, f"/v1/files/{made['id']}{path}", key=theirs)
        assert (status, answer["error"]["code"]) == (404, "file_not_found")
    assert (await first.call("GET", "/v1/files", key=theirs))[1]["data"] == []
    assert await download(first, mine, made["id"]) == b"{}"


async def test_unknown_file_ids_are_404(frontends: list[RunningFrontend]):
    for file_id in ("file-nothing", "x", "file-" + "0" * 32):
        status, answer = await frontends[0].call("GET", f"/v1/files/{file_id}")
        assert (status, answer["error"]["code"]) == (404, "file_not_found")


async def test_files_are_listed_in_pages_and_by_purpose(frontends: list[RunningFrontend]):
    first, second = frontends
    key = await make_key(first, "app")
    made = [(await upload(first, key, b"x", name=f"{n}", purpose=p))[1] for n, p in enumerate(("batch", "vision") * 2)]
    ids = [file["id"] for file in made]
    _, page = await second.call("GET", "/v1/files?limit=3", key=key)
    assert ([file["id"] for file in page["data"]], page["has_more"]) == (ids[:0:-1], True)
    _, rest = await second.call("GET", f"/v1/files?limit=3&after={page['last_id']}", key=key)
    assert ([file["id"] for file in rest["data"]], rest["has_more"]) == (ids[:1], False)
    _, oldest = await second.call("GET", "/v1/files?order=asc&purpose=batch", key=key)
    assert [file["id"] for file in oldest["data"]] == [ids[0], ids[2]]


async def test_deleted_file_is_gone_with_its_bytes(frontends: list[RunningFrontend]):
    first, second = frontends
    _, made = await upload(first, await make_key(first, "other"), b"stays")
    key = await make_key(first, "app")
    _, made = await upload(first, key, b"x" * CHUNK_BYTES * 2)
    status, answer = await second.call("DELETE", f"/v1/files/{made['id']}", key=key)
    assert (status, answer) == (200, {"id": made["id"], "object": "file", "deleted": True})
    assert (await first.call("GET", f"/v1/files/{made['id']}", key=key))[0] == 404
    assert await count_rows(first, "artifact_chunks") == 1


@pytest.mark.behaviour("BATCH-3")
async def test_upload_above_the_quota_of_its_owner_is_429_and_leaves_nothing(frontends: list[RunningFrontend]):
    first, _ = frontends
    key, other = await make_key(first, "app"), await make_key(first, "other")
    status, made = await upload(first, key, b"x" * (QUOTA - 1000))
    assert status == 200, made
    status, answer = await upload(first, key, b"y" * 1001)
    assert (status, answer["error"]["code"]) == (429, "file_quota_reached")
    assert (await upload(first, other, b"y" * 1001))[0] == 200
    assert await count_rows(first, "artifacts") == 2
    assert (await upload(first, key, b"y" * 1000))[0] == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (make_form(b"{}", purpose="thieving"), "invalid_purpose"),
        (make_form(b"{}", purpose=None), "invalid_purpose"),
        (make_form(b"{}")[:-20], "malformed_form"),
        (make_form(b"{}")[1:], "malformed_form"),
        (make_form(b"{}").replace(b'name="file"', b'name="other"'), "file_missing"),
        (make_form(b"{}").replace(b' name="file";', b""), "malformed_form"),
    ],
)
async def test_malformed_upload_is_refused_and_leaves_nothing(frontends: list[RunningFrontend], body: bytes, code: str):
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    status, answer = await frontends[0].call("POST", "/v1/files", body, Content_Type=kind)
    assert (status, answer["error"]["code"]) == (400, code)
    assert await count_rows(frontends[0], "artifacts") == 0


@pytest.mark.behaviour("BATCH-4")
async def test_upload_that_is_cut_off_leaves_nothing(frontends: list[RunningFrontend]):
    first, _ = frontends
    key = await make_key(first, "app")
    form = make_form(b"x" * CHUNK_BYTES * 3)

    async def send_part() -> AsyncIterator[bytes]:
        yield form[: 2 * CHUNK_BYTES]
        await eventually(lambda: count_rows(first, "artifact_chunks"))
        raise ConnectionError("cut")

    headers = {
        "Authorization": f"Bearer {key}",
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        "Content-Length": str(len(form)),
    }
    with pytest.raises((ConnectionError, aiohttp.ClientError)):
        await first.http.post(f"{first.url}/v1/files", data=send_part(), headers=headers)

    async def is_empty() -> bool:
        return not await count_rows(first, "artifacts")

    await eventually(is_empty)
    assert await count_rows(first, "artifact_chunks") == 0
    assert (await first.call("GET", "/v1/files", key=key))[1]["data"] == []


@pytest.mark.behaviour("BATCH-5")
async def test_damaged_file_breaks_off_instead_of_ending_well(frontends: list[RunningFrontend]):
    first, _ = frontends
    key = await make_key(first, "app")
    _, made = await upload(first, key, b"x" * (CHUNK_BYTES + 5))
    async with first.database.transaction() as tx:
        await tx.execute(text("UPDATE artifact_chunks SET content = 'xxxxy' WHERE start_byte > 0"))
    with pytest.raises(aiohttp.ClientError):
        await download(first, key, made["id"])


@pytest.mark.behaviour("BATCH-6")
async def test_files_go_with_their_time_and_their_key_and_unfinished_ones_too(frontends: list[RunningFrontend]):
    first, _ = frontends
    kept, old = await make_key(first, "kept"), await make_key(first, "old")
    await upload(first, kept, b"stays")
    await upload(first, old, b"expires")
    await upload(first, old, b"abandoned")
    async with first.database.transaction() as tx:
        await tx.execute(
            text("UPDATE artifacts SET expires_at = corral_now() - interval '1 s' WHERE size_bytes = length('expires')")
        )
        await tx.execute(
            text(
                "UPDATE artifacts SET is_complete = false, created_at = created_at - interval '2 days'"
                " WHERE size_bytes = length('abandoned')"
            )
        )
        assert await store.prune(tx) == 2
        await tx.execute(text("DELETE FROM api_keys WHERE name = 'kept'"))
    assert await count_rows(first, "artifacts") == await count_rows(first, "artifact_chunks") == 0
