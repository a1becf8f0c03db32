"""Nodes that pass on what they have, and what they refuse to."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import aiohttp
import pytest

from corral.adapters.nats.keys import NatsKeyKind, new_key
from corral.bus.messages import BlobSource
from corral.domain.model import CHUNK_BYTES
from corral.ports.credentials import make_file_write_scope
from corral.transfer.tickets import Ticket, sign_ticket
from corral.worker.files.content_puller import HAVE_HEADER
from corral.worker.files.file_routes import FileRoutesOptions
from tests.support.polling import eventually
from tests.worker.files.scene import LIBRARY, QUICK, Node, Scene, counted, item, some_bytes, ticket

BODY = some_bytes(5 * CHUNK_BYTES + 999)
SHA = item(BODY).sha256


async def get(node: Node, shown: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{node.url}/v1/blobs/{SHA}", headers={"Authorization": f"Bearer {shown}", **headers}) as answer,
    ):
        return answer.status, await answer.read(), dict(answer.headers)


@pytest.mark.behaviour("FILE-2")
async def test_nodes_form_a_chain_while_the_first_is_still_fetching(scene: Scene) -> None:
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 2
    first, second, third = [await scene.node(f"node-{number}") for number in (1, 2, 3)]
    jobs = [asyncio.create_task(first.have(item(BODY)))]

    async def has_two(node: Node) -> bool:
        found = node.store.find(SHA)
        return found is not None and found.partial is not None and found.partial.verified_chunks == 2

    await eventually(lambda: has_two(first))
    jobs.append(asyncio.create_task(second.have(item(BODY), places=(first.place(), LIBRARY))))
    await eventually(lambda: has_two(second))
    jobs.append(asyncio.create_task(third.have(item(BODY), places=(second.place(), LIBRARY))))
    # All the way down before the first one has more.
    await eventually(lambda: has_two(third))
    scene.library.gate.set()
    for folder in await asyncio.gather(*jobs):
        assert (folder / "model.gguf").read_bytes() == BODY
    # The library has sent it once, for three nodes.
    assert scene.library.sent == len(BODY)


@pytest.mark.behaviour("FILE-2")
async def test_node_that_is_about_to_begin_is_waited_for(scene: Scene) -> None:
    scene.library.put(BODY)
    first, second = await scene.node("node-1"), await scene.node("node-2")
    later = asyncio.create_task(second.have(item(BODY), places=(first.place(), LIBRARY)))

    async def has_begun() -> bool:
        return bool(second.store.list_partial())

    await eventually(has_begun)
    await asyncio.gather(first.have(item(BODY)), later)
    assert scene.library.sent == len(BODY)


@pytest.mark.behaviour("FILE-2")
async def test_node_that_has_nothing_is_passed_over(scene: Scene) -> None:
    scene.library.put(BODY)
    first, second = await scene.node("node-1"), await scene.node("node-2")
    await second.have(item(BODY), places=(first.place(), LIBRARY))
    assert scene.library.sent == len(BODY)


@pytest.mark.behaviour("FILE-2")
async def test_node_that_gets_no_further_is_passed_over(scene: Scene) -> None:
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 1
    stuck = await scene.node("node-1", serve=FileRoutesOptions(wait_s=0.05))
    job = asyncio.create_task(stuck.have(item(BODY)))

    async def is_stuck() -> bool:
        found = stuck.store.find(SHA)
        return found is not None and found.partial is not None and found.partial.verified_chunks == 1

    await eventually(is_stuck)
    elsewhere = await scene.another_library()
    elsewhere.put(BODY)
    node = await scene.node("node-2", replace(QUICK, stall_s=0.2))
    await node.have(item(BODY), places=(stuck.place(), scene.peer_place(elsewhere)))
    # A chunk may be requested twice: a loaded machine is silent for longer than this node waits, too.
    assert {each.chunk for each in elsewhere.requests} == {1, 2, 3, 4, 5}
    scene.library.gate.set()
    await job


async def test_node_that_stops_in_the_middle_costs_nothing_but_time(scene: Scene) -> None:
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 2
    async with scene.running_node("node-1") as dying:
        job = asyncio.create_task(dying.have(item(BODY)))
        node = await scene.node("node-2")
        other = asyncio.create_task(node.have(item(BODY), places=(dying.place(), LIBRARY)))

        async def has_two() -> bool:
            found = node.store.find(SHA)
            return found is not None and found.partial is not None and found.partial.verified_chunks >= 2

        await eventually(has_two)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
    scene.library.gate.set()
    assert ((await other) / "model.gguf").read_bytes() == BODY


async def test_ranges_of_a_whole_content_are_served(scene: Scene) -> None:
    scene.library.put(BODY)
    node = await scene.node()
    await node.have(item(BODY))
    shown = ticket(audience=node.name)
    assert (await get(node, shown))[:2] == (200, BODY)
    status, body, headers = await get(node, shown, Range="bytes=10-19")
    assert (status, body, headers["Content-Range"]) == (206, BODY[10:20], f"bytes 10-19/{len(BODY)}")
    assert (await get(node, shown, Range=f"bytes={len(BODY) - 5}-"))[1] == BODY[-5:]
    assert (await get(node, shown, Range="bytes=-7"))[1] == BODY[-7:]
    assert (await get(node, shown, Range=f"bytes={len(BODY)}-"))[0] == 416
    assert (await get(node, shown, Range="nonsense"))[:2] == (200, BODY)
    async with (
        aiohttp.ClientSession() as session,
        session.head(f"{node.url}/v1/blobs/{SHA}", headers={"Authorization": f"Bearer {shown}"}) as answer,
    ):
        assert (answer.headers["X-File-Size"], answer.headers["X-Content-SHA256"]) == (str(len(BODY)), SHA)


@pytest.mark.behaviour("FILE-2")
async def test_partial_content_serves_only_verified_chunks(scene: Scene) -> None:
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 1
    node = await scene.node(serve=FileRoutesOptions(wait_s=0.05))
    job = asyncio.create_task(node.have(item(BODY)))

    async def has_one() -> bool:
        found = node.store.find(SHA)
        return found is not None and found.partial is not None and found.partial.verified_chunks == 1

    await eventually(has_one)
    shown = ticket()
    assert (await get(node, shown, Range="bytes=100-199"))[:2] == (206, BODY[100:200])
    for requested_range in (f"bytes=0-{CHUNK_BYTES}", f"bytes={CHUNK_BYTES}-", "bytes=-1"):
        status, body, headers = await get(node, shown, Range=requested_range)
        assert (status, body, headers[HAVE_HEADER], headers["Retry-After"]) == (425, b"", "1", "1")
    assert (await get(node, shown))[0] == 425
    async with (
        aiohttp.ClientSession() as session,
        session.head(f"{node.url}/v1/blobs/{SHA}", headers={"Authorization": f"Bearer {shown}"}) as answer,
    ):
        assert (answer.headers["X-Target-SHA256"], answer.headers[HAVE_HEADER]) == (SHA, "1")
        assert "X-Content-SHA256" not in answer.headers
    scene.library.gate.set()
    await job


@pytest.mark.behaviour("FILE-10")
async def test_blob_is_not_served_without_a_valid_ticket(scene: Scene) -> None:
    scene.library.put(BODY)
    node = await scene.node("node-1")
    await node.have(item(BODY))
    foreign = sign_ticket(Ticket(reader="x", scope="blobs:read", expires_at=2**40), new_key(NatsKeyKind.ACCOUNT).sign)
    for shown, status, code in (
        ("", 401, b"ticket_needed"),
        (foreign, 401, b"ticket_forged"),
        (ticket(life_s=-3600), 401, b"ticket_expired"),
        (ticket(audience="node-2"), 403, b"ticket_elsewhere"),
        (ticket(scope=make_file_write_scope(SHA)), 403, b"ticket_scope"),
    ):
        found, body, _ = await get(node, shown)
        assert (found, code in body) == (status, True), (shown, body)


@pytest.mark.behaviour("FILE-10")
async def test_node_whose_ticket_is_refused_asks_elsewhere(scene: Scene) -> None:
    scene.library.put(BODY)
    first = await scene.node("node-1")
    await first.have(item(BODY))
    second = await scene.node("node-2")
    refused = BlobSource(kind="node", url=first.url, ticket=ticket(audience="node-9"))
    await second.have(item(BODY), places=(refused, LIBRARY))
    assert scene.library.sent == 2 * len(BODY)


async def test_requests_above_the_parallel_limit_are_retried_or_moved(scene: Scene) -> None:
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 1
    node = await scene.node(serve=FileRoutesOptions(parallel=1, wait_s=20))
    job = asyncio.create_task(node.have(item(BODY)))

    async def has_one() -> bool:
        found = node.store.find(SHA)
        return found is not None and found.partial is not None and found.partial.verified_chunks == 1

    await eventually(has_one)
    shown = ticket()

    async def second_chunk() -> bytes:
        while True:
            status, body, _ = await get(node, shown, Range=f"bytes={CHUNK_BYTES}-{CHUNK_BYTES + 9}")
            if status != 503:
                return body

    waits = asyncio.create_task(second_chunk())

    async def is_full() -> bool:
        return (await get(node, shown, Range="bytes=0-9"))[0] == 503

    await eventually(is_full)
    scene.library.gate.set()
    assert (await waits) == BODY[CHUNK_BYTES : CHUNK_BYTES + 10]
    await job


async def test_contents_that_are_not_here_and_names_that_are_none(scene: Scene) -> None:
    node = await scene.node()
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {ticket()}"}) as session:
        for name, status in ((SHA, 404), ("x", 400), ("..%2f..%2fetc%2fpasswd", 400)):
            async with session.get(f"{node.url}/v1/blobs/{name}") as answer:
                assert answer.status == status


async def test_limit_on_the_bandwidth_holds_for_what_is_served(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.library.put(BODY)
    first = await scene.node("node-1", serve=FileRoutesOptions(bandwidth_bytes_per_s=10**9))
    await first.have(item(BODY))
    second = await scene.node("node-2")
    taken = counted(monkeypatch)
    folder = await second.have(item(BODY), places=(first.place(),))
    assert (folder / "model.gguf").read_bytes() == BODY
    assert sum(taken) == len(BODY)


async def test_reader_that_disconnects_does_not_block_others(scene: Scene) -> None:
    scene.library.put(BODY)
    node = await scene.node(serve=FileRoutesOptions(parallel=1))
    await node.have(item(BODY))
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    writer.write(f"GET /v1/blobs/{SHA} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ticket()}\r\n\r\n".encode())
    await reader.readexactly(100_000)
    writer.transport.abort()

    async def is_served() -> bool:
        return (await get(node, ticket()))[:2] == (200, BODY)

    await eventually(is_served)
