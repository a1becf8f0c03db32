"""Files that are sent to a node, over connections that break."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from corral.ports.credentials import BLOB_READ_SCOPE, make_file_write_scope
from corral.transfer.inbox import CONTENT_HEADER, SIZE_HEADER, TARGET_HEADER
from tests.worker.files.scene import MIB, Node, Scene, some_bytes, ticket

BODY = some_bytes(6 * MIB + 77)
SHA = hashlib.sha256(BODY).hexdigest()
KEY = "data/in put/ünits?.bin"


class FaultyProxy:
    """Between a sender and a node: passes everything on, counts bytes, and breaks when the test says so."""

    def __init__(self, node: Node) -> None:
        self._node = node
        # Bytes of bodies that came this far.
        self.bytes = 0
        # For the next PUTs: cut the body off after so many bytes.
        self.cuts: list[int] = []
        # The next answers to PUTs are lost after the node has done its work.
        self.answers_to_lose = 0
        self.server = TestServer(self._application())

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._pass)
        return application

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        cut = self.cuts.pop(0) if request.method == "PUT" and self.cuts else None
        headers = {name: value for name, value in request.headers.items() if name not in ("Host", "Connection")}
        broken = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            count = 0
            async for piece in request.content.iter_any():
                if cut is not None and count + len(piece) >= cut:
                    self.bytes += cut - count
                    yield piece[: cut - count]
                    broken.set()
                    raise ConnectionResetError("cut")
                count += len(piece)
                self.bytes += len(piece)
                yield piece

        try:
            async with aiohttp.ClientSession(auto_decompress=False) as session:
                forwarded = session.request(
                    request.method,
                    f"{self._node.url}{request.raw_path}",
                    headers=headers,
                    data=body() if request.method == "PUT" else None,
                    allow_redirects=False,
                )
                async with forwarded as answer:
                    got = await answer.read()
        except (aiohttp.ClientError, OSError):
            got = None
        if got is None or (request.method == "PUT" and self.answers_to_lose > 0):
            self.answers_to_lose -= got is not None
            assert request.transport is not None
            request.transport.abort()
            raise ConnectionResetError("lost")
        passed_headers = {name: answer.headers[name] for name in answer.headers if name.startswith("X-")}
        return web.Response(status=answer.status, body=got, headers=passed_headers)


@pytest.fixture
async def node(scene: Scene) -> Node:
    return await scene.node()


@pytest.fixture
async def line(node: Node) -> AsyncIterator[FaultyProxy]:
    line = FaultyProxy(node)
    async with line.server:
        yield line


class Upload:
    """Sends the bytes of a test to a node under a key: asks how much has arrived, and sends the rest."""

    def __init__(self, session: aiohttp.ClientSession, line: FaultyProxy, key: str = KEY, *, may: str = KEY) -> None:
        self._session = session
        self.url = f"http://{line.server.host}:{line.server.port}/v1/files/{quote(key)}"
        self.headers = {"Authorization": f"Bearer {ticket(scope=make_file_write_scope(may))}"}

    async def count_arrived(self, body: bytes = BODY) -> int | None:
        """Return how many bytes have arrived, or None if the file is complete."""
        headers = {**self.headers, TARGET_HEADER: hashlib.sha256(body).hexdigest()}
        async with self._session.head(self.url, headers=headers, allow_redirects=False) as answer:
            if answer.status == 404:
                return 0
            assert answer.status == 200
            return None if CONTENT_HEADER in answer.headers else int(answer.headers[SIZE_HEADER])

    async def put(self, start: int, end: int, body: bytes = BODY) -> int:
        headers = {**self.headers, CONTENT_HEADER: hashlib.sha256(body).hexdigest()}
        if body:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(body)}"
        headers["Content-Length"] = str(end - start)

        async def pieces() -> AsyncIterator[bytes]:
            # A generator: aiohttp would send bytes a second time when the connection breaks.
            for offset in range(start, end, MIB):
                yield body[offset : min(offset + MIB, end)]

        async with self._session.put(self.url, data=pieces(), headers=headers, allow_redirects=False) as answer:
            return answer.status


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def upload(session: aiohttp.ClientSession, line: FaultyProxy) -> Upload:
    return Upload(session, line)


@pytest.mark.behaviour("NODE-129")
async def test_uploaded_file_arrives_under_its_key_and_is_known_to_be_complete(
    node: Node, line: FaultyProxy, upload: Upload
) -> None:
    assert await upload.count_arrived() == 0
    assert await upload.put(0, len(BODY)) == 200
    assert node.inbox.find_file(KEY).read_bytes() == BODY
    assert await upload.count_arrived() is None
    assert line.bytes == len(BODY)


@pytest.mark.behaviour("NODE-129", "OPS-101")
async def test_broken_upload_goes_on_where_it_stopped(node: Node, line: FaultyProxy, upload: Upload) -> None:
    arrived = 0
    for cut in (MIB, 2 * MIB):
        line.cuts = [cut]
        with pytest.raises(aiohttp.ClientError):
            await upload.put(arrived, len(BODY))
        found = await upload.count_arrived()
        assert found is not None
        # What was on the way when the connection broke may have to be sent again, and no more.
        assert arrived < found <= arrived + cut
        arrived = found
    assert await upload.put(arrived, len(BODY)) == 200
    assert node.inbox.find_file(KEY).read_bytes() == BODY


@pytest.mark.behaviour("NODE-129")
async def test_part_of_an_upload_is_shown_to_its_sender_and_not_as_a_file(
    node: Node, session: aiohttp.ClientSession, upload: Upload
) -> None:
    assert await upload.put(0, 5 * MIB) == 308
    assert await upload.count_arrived() == 5 * MIB
    async with session.head(upload.url, headers=upload.headers) as answer:
        assert (answer.headers[TARGET_HEADER], CONTENT_HEADER in answer.headers) == (SHA, False)
    async with session.get(upload.url, headers=upload.headers) as answer:
        assert answer.status == 404
    assert await upload.put(5 * MIB, len(BODY)) == 200
    assert node.inbox.find_file(KEY).read_bytes() == BODY


@pytest.mark.behaviour("NODE-130")
async def test_upload_whose_last_answer_is_lost_is_known_to_be_complete(line: FaultyProxy, upload: Upload) -> None:
    line.answers_to_lose = 1
    with pytest.raises(aiohttp.ClientError):
        await upload.put(0, len(BODY))
    assert await upload.count_arrived() is None
    assert line.bytes == len(BODY)


async def test_empty_upload_is_a_file(node: Node, upload: Upload) -> None:
    assert await upload.put(0, 0, b"") == 200
    assert node.inbox.find_file(KEY).read_bytes() == b""


@pytest.mark.behaviour("FILE-10")
async def test_upload_needs_a_ticket_for_its_key(node: Node, line: FaultyProxy, session: aiohttp.ClientSession) -> None:
    assert await Upload(session, line, may="data/other").put(0, len(BODY)) == 403
    assert await Upload(session, line, "models/mm", may="models/m/").put(0, len(BODY)) == 403
    assert await Upload(session, line, "models/m/deep", may="models/m/").put(0, len(BODY)) == 200
    shown = {"Authorization": f"Bearer {ticket(scope=BLOB_READ_SCOPE)}"}
    async with aiohttp.ClientSession(headers=shown) as session:
        for method in ("GET", "PUT", "HEAD"):
            async with session.request(method, f"{node.url}/v1/files/x") as answer:
                assert answer.status == 403
        async with session.get(f"{node.url}/healthz") as answer:
            assert answer.status == 200


@pytest.mark.behaviour("NODE-132")
@pytest.mark.parametrize("key", ["..%2f..%2fescaped", "a%2f..%2f..%2f..%2fescaped", "%2fetc%2fpasswd", ".inbox%2fx"])
async def test_keys_that_lead_out_are_refused_also_with_a_ticket_for_them(node: Node, scene: Scene, key: str) -> None:
    plain = key.replace("%2f", "/")
    shown = {"Authorization": f"Bearer {ticket(scope=make_file_write_scope(plain))}"}
    async with aiohttp.ClientSession(headers=shown) as session:
        for method in ("GET", "PUT", "HEAD"):
            url = f"{node.url}/v1/files/{key}"
            async with session.request(method, URL(url, encoded=True), data=b"x") as answer:
                assert answer.status in (400, 403)
    assert not list(scene.root.rglob("escaped"))


@pytest.mark.behaviour("OPS-101")
async def test_uploaded_file_can_be_read_again_in_ranges(
    node: Node, session: aiohttp.ClientSession, upload: Upload
) -> None:
    await upload.put(0, len(BODY))
    url = URL(f"{node.url}/v1/files/{quote(KEY)}", encoded=True)
    async with session.get(url, headers=upload.headers) as answer:
        assert await answer.read() == BODY
    async with session.get(url, headers={**upload.headers, "Range": "bytes=5-9"}) as answer:
        assert (answer.status, await answer.read()) == (206, BODY[5:10])
