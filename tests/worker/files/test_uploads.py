"""Files that are sent to a node, over connections that break."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from corral.adapters.system import SystemClock
from corral.domain.errors import CorralError, Unavailable
from corral.ports.credentials import BLOB_READ_SCOPE, make_file_write_scope
from corral.transfer.inbox import CONTENT_HEADER, TARGET_HEADER
from corral.transfer.inbox_sender import InboxSender, InboxTarget, list_real_files
from tests.worker.files.scene import MIB, Node, Scene, some_bytes, ticket

BODY = some_bytes(6 * MIB + 77)
SHA = hashlib.sha256(BODY).hexdigest()
KEY = "data/in put/ünits?.bin"


class EagerClock(SystemClock):
    """Pauses take no time."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.01))


class FaultyProxy:
    """Between a sender and a node: passes everything on, counts, and breaks when the test says so."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.calls: list[str] = []
        # Bytes of bodies that came this far.
        self.bytes = 0
        # For the next PUTs: cut the body off after so many bytes.
        self.cuts: list[int] = []
        # The next answers to PUTs are lost after the node has done its work.
        self.answers_to_lose = 0
        # Answered instead of passing on, for the next calls of a method.
        self.instead: dict[str, list[int]] = {}
        self.server = TestServer(self._application())

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._pass)
        return application

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(request.method)
        if self.instead.get(request.method):
            return web.Response(status=self.instead[request.method].pop(0))
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


@pytest.fixture
async def sender() -> AsyncIterator[InboxSender]:
    async with aiohttp.ClientSession() as session:
        yield InboxSender(session, EagerClock(), patience_s=5.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    path.write_bytes(BODY)
    return path


def receiver(line: FaultyProxy, key: str = KEY) -> InboxTarget:
    url = f"http://{line.server.host}:{line.server.port}/v1/files"
    return InboxTarget(url=url, headers={"Authorization": f"Bearer {ticket(scope=make_file_write_scope(key))}"})


@pytest.mark.behaviour("NODE-129")
async def test_a_file_arrives_under_its_key_and_is_not_sent_twice(
    node: Node, line: FaultyProxy, sender: InboxSender, file: Path
) -> None:
    moves: list[tuple[int, int]] = []
    assert await sender.send(file, receiver(line), KEY, lambda now, total: moves.append((now, total))) == SHA
    assert node.inbox.find_file(KEY).read_bytes() == BODY
    assert (moves[0], moves[-1]) == ((0, len(BODY)), (len(BODY), len(BODY)))
    assert line.bytes == len(BODY)
    await sender.send(file, receiver(line), KEY)
    assert line.bytes == len(BODY)
    assert line.calls == ["HEAD", "PUT", "HEAD"]


@pytest.mark.behaviour("NODE-129", "OPS-101")
async def test_a_broken_upload_goes_on_where_it_stopped(
    node: Node, line: FaultyProxy, sender: InboxSender, file: Path
) -> None:
    line.cuts = [MIB, 2 * MIB]
    moves: list[int] = []
    await sender.send(file, receiver(line), KEY, lambda now, _total: moves.append(now))
    assert node.inbox.find_file(KEY).read_bytes() == BODY
    # What was on the way when it broke may be sent again, and no more.
    assert line.bytes <= len(BODY) + 2 * MIB
    assert line.calls == ["HEAD", "PUT"] * 3
    assert moves[-1] == len(BODY)


@pytest.mark.behaviour("NODE-129")
async def test_resumed_upload_sends_only_the_rest(
    node: Node, line: FaultyProxy, sender: InboxSender, file: Path
) -> None:
    headers = {**receiver(line).headers, CONTENT_HEADER: SHA, "Content-Range": f"bytes 0-{5 * MIB - 1}/{len(BODY)}"}
    async with aiohttp.ClientSession() as session:
        url = receiver(line).make_url(KEY)
        async with session.put(url, data=io.BytesIO(BODY[: 5 * MIB]), headers=headers, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["X-File-Size"]) == (308, str(5 * MIB))
        async with session.head(url, headers=receiver(line).headers) as answer:
            assert (answer.headers[TARGET_HEADER], CONTENT_HEADER in answer.headers) == (SHA, False)
        async with session.get(url, headers=receiver(line).headers) as answer:
            assert answer.status == 404
    line.bytes = 0
    await sender.send(file, receiver(line), KEY)
    assert line.bytes == len(BODY) - 5 * MIB
    assert node.inbox.find_file(KEY).read_bytes() == BODY


@pytest.mark.behaviour("NODE-130")
async def test_when_the_last_answer_is_lost_the_sender_finds_out(
    line: FaultyProxy, sender: InboxSender, file: Path
) -> None:
    line.answers_to_lose = 1
    assert await sender.send(file, receiver(line), KEY) == SHA
    assert line.bytes == len(BODY)
    assert line.calls == ["HEAD", "PUT", "HEAD"]


async def test_transient_upload_failure_is_retried(
    node: Node, line: FaultyProxy, sender: InboxSender, file: Path
) -> None:
    line.instead = {"HEAD": [503, 500], "PUT": [502, 409, 416, 429]}
    await sender.send(file, receiver(line), KEY)
    assert node.inbox.find_file(KEY).read_bytes() == BODY


async def test_receiver_that_cannot_be_probed_is_sent_everything(
    node: Node, line: FaultyProxy, sender: InboxSender, file: Path
) -> None:
    line.instead = {"HEAD": [405]}
    await sender.send(file, receiver(line), KEY)
    assert node.inbox.find_file(KEY).read_bytes() == BODY


async def test_without_progress_it_is_given_up(line: FaultyProxy, file: Path) -> None:
    line.instead = {"HEAD": [503] * 1000}
    async with aiohttp.ClientSession() as session:
        with pytest.raises(Unavailable) as caught:
            await InboxSender(session, EagerClock(), patience_s=0.1).send(file, receiver(line), KEY)
    assert "returned 503" in caught.value.message


async def test_an_empty_file_is_a_file(node: Node, line: FaultyProxy, sender: InboxSender, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    await sender.send(tmp_path / "empty", receiver(line), KEY)
    assert node.inbox.find_file(KEY).read_bytes() == b""


@pytest.mark.behaviour("FILE-10")
async def test_a_ticket_is_for_one_key(node: Node, line: FaultyProxy, sender: InboxSender, file: Path) -> None:
    with pytest.raises(CorralError) as caught:
        await sender.send(file, receiver(line, "data/other"), KEY)
    assert caught.value.slug == "upload_refused"
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
async def test_a_file_can_be_read_again_in_ranges(
    node: Node, line: FaultyProxy, sender: InboxSender, file: Path
) -> None:
    await sender.send(file, receiver(line), KEY)
    async with aiohttp.ClientSession(headers=receiver(line).headers) as session:
        url = f"{node.url}/v1/files"
        address = InboxTarget(url=url).make_url(KEY)
        async with session.get(URL(address, encoded=True)) as answer:
            assert await answer.read() == BODY
        async with session.get(URL(address, encoded=True), headers={"Range": "bytes=5-9"}) as answer:
            assert (answer.status, await answer.read()) == (206, BODY[5:10])


@pytest.mark.behaviour("NODE-133")
async def test_folder_upload_sends_and_counts_its_real_files(
    node: Node, line: FaultyProxy, sender: InboxSender, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    (folder / "deep").mkdir(parents=True)
    for name, text in (
        ("weights.bin", "12345"),
        ("weights.bin.sha256", "note"),
        ("weights.bin.sha256.target", "note"),
        ("deep/config.json", "123"),
        # A real file that is only called like a note.
        ("lonely.sha256", "1234567"),
    ):
        (folder / name).write_text(text)
    names = [path.relative_to(folder).as_posix() for path in list_real_files(folder)]
    assert names == ["deep/config.json", "lonely.sha256", "weights.bin"]
    moves: list[tuple[int, int]] = []
    sent = await sender.send_folder(
        folder, receiver(line, "models/m/"), "models/m", lambda now, total: moves.append((now, total))
    )
    assert sorted(sent) == names
    assert (line.bytes, moves[-1]) == (15, (15, 15))
    assert node.inbox.find_file("models/m/deep/config.json").read_text() == "123"
    with pytest.raises(CorralError):
        await sender.send(folder / "weights.bin", receiver(line, "models/m/"), "models/mm")
