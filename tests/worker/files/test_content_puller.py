"""Fetching contents, from places that are wrong, silent, dying, late or full."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from corral.bus.messages import BlobSource, ModelFileItem
from corral.domain.errors import CorralError
from corral.domain.model import CHUNK_BYTES
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.worker.files.content_puller import PullOptions
from tests.support.polling import eventually
from tests.worker.files.scene import (
    LIBRARY,
    MIB,
    QUICK,
    Fault,
    Node,
    RecordingReport,
    Scene,
    broken,
    counted,
    dies,
    item,
    longer,
    shorter,
    silent,
    some_bytes,
    wrong,
)

# Three chunks and a bit.
BODY = some_bytes(3 * CHUNK_BYTES + 12345)
# With a limit on the bandwidth, bytes take another way.
LIMITED = replace(QUICK, bandwidth_bytes_per_s=10**9)
both_ways = pytest.mark.parametrize("options", [QUICK, LIMITED], ids=["lines", "limited"])


@pytest.mark.behaviour("FILE-1", "NODE-92")
async def test_files_are_fetched_and_verified(scene: Scene) -> None:
    small, empty = some_bytes(1000, seed=2), b""
    scene.library.put(BODY, small, empty)
    node, progress = await scene.node(), RecordingReport()
    files = (item(BODY), item(small, "deep/er/config.json"), item(empty, "empty"), item(small, "again.json"))
    folder = await node.files.ensure_files("org/model", "r1", files, (LIBRARY,), progress)
    assert (folder / "model.gguf").read_bytes() == BODY
    assert (folder / "deep/er/config.json").read_bytes() == small
    assert (folder / "again.json").read_bytes() == small
    assert (folder / "empty").read_bytes() == b""
    total = len(BODY) + len(small)
    assert progress.moves[-1] == (total, total)
    assert scene.library.sent == total
    # Of a content of one chunk the list is known.
    assert scene.library.lists == 1


async def test_present_content_is_not_fetched_again(scene: Scene) -> None:
    scene.library.put(BODY)
    node, progress = await scene.node(), RecordingReport()
    await node.have(item(BODY))
    await node.files.ensure_files("other", "r1", (item(BODY, "x.gguf"),), (LIBRARY,), progress)
    assert scene.library.sent == len(BODY)
    assert progress.moves == [(len(BODY), len(BODY))]


@both_ways
async def test_wrong_chunk_is_thrown_away_and_its_source_not_used_again(scene: Scene, options: PullOptions) -> None:
    liar = await scene.another_library()
    liar.put(BODY)
    liar.faults = {1: [wrong] * 9}
    scene.library.put(BODY)
    node = await scene.node(options=replace(options, parallel=1))
    folder = await node.have(item(BODY), places=(scene.peer_place(liar), LIBRARY))
    assert (folder / "model.gguf").read_bytes() == BODY
    assert [each.chunk for each in liar.requests] == [0, 1]
    assert [each.chunk for each in scene.library.requests] == [1, 2, 3]


async def test_pull_ends_when_only_sources_of_wrong_bytes_are_left(scene: Scene) -> None:
    scene.library.put(BODY)
    scene.library.faults = {0: [wrong] * 9}
    node = await scene.node()
    with pytest.raises(TransferFailed) as caught:
        await node.have(item(BODY))
    assert caught.value.slug == "digest_mismatch"
    assert "sent wrong bytes" in caught.value.message


@pytest.mark.behaviour("FILE-1")
async def test_node_is_not_believed_about_hashes(scene: Scene) -> None:
    """The other node has other bytes and would tell hashes that fit to them."""
    liar = await scene.another_library()
    liar.contents[hashlib.sha256(BODY).hexdigest()] = some_bytes(len(BODY), seed=9)
    scene.library.put(BODY)
    node = await scene.node()
    folder = await node.have(item(BODY), places=(scene.peer_place(liar), LIBRARY))
    assert (folder / "model.gguf").read_bytes() == BODY
    assert liar.lists == 0


@pytest.mark.parametrize("fault", [dies, broken], ids=["dies", "answers 500"])
@both_ways
async def test_place_that_dies_costs_a_chunk(scene: Scene, fault: object, options: PullOptions) -> None:
    peer = await scene.another_library()
    peer.put(BODY)
    peer.faults = {1: [fault] * 9}  # type: ignore[list-item]
    scene.library.put(BODY)
    node = await scene.node(options=replace(options, parallel=1))
    folder = await node.have(item(BODY), places=(scene.peer_place(peer), LIBRARY))
    assert (folder / "model.gguf").read_bytes() == BODY
    assert peer.requests[0].sent == CHUNK_BYTES
    assert 1 in [each.chunk for each in scene.library.requests]
    assert 0 not in [each.chunk for each in scene.library.requests]


@both_ways
async def test_place_that_falls_silent_costs_a_chunk(scene: Scene, options: PullOptions) -> None:
    until = asyncio.Event()
    peer = await scene.another_library()
    peer.put(BODY)
    peer.faults = {2: [silent(until)] * 9}
    scene.library.put(BODY)
    node = await scene.node(options=replace(options, stall_s=0.2))
    folder = await node.have(item(BODY), places=(scene.peer_place(peer), LIBRARY))
    assert (folder / "model.gguf").read_bytes() == BODY
    until.set()


async def test_place_that_is_not_there_is_passed_over(scene: Scene) -> None:
    scene.library.put(BODY)
    node = await scene.node()
    silent = BlobSource(kind="node", url="http://127.0.0.1:1", ticket="t")
    folder = await node.have(item(BODY), places=(silent, LIBRARY))
    assert (folder / "model.gguf").read_bytes() == BODY


async def test_connection_that_was_closed_meanwhile_costs_nothing(scene: Scene) -> None:
    small = [some_bytes(1000, seed=seed) for seed in (5, 6)]
    peer, other = await scene.another_library(), await scene.another_library()
    for library in (peer, other):
        library.put(*small)
        library.closes = True
    node = await scene.node()
    await node.have(item(small[0]), places=(scene.peer_place(peer), scene.peer_place(other)))
    await node.have(item(small[1]), places=(scene.peer_place(peer), scene.peer_place(other)), model="m2")
    assert (peer.sent, other.sent) == (2000, 0)


@pytest.mark.parametrize("fault", [longer, shorter], ids=["longer", "shorter"])
@both_ways
async def test_chunk_of_another_length_than_requested_is_fetched_again(
    scene: Scene, options: PullOptions, fault: Fault
) -> None:
    peer = await scene.another_library()
    peer.put(BODY)
    peer.faults = {0: [fault]}
    scene.library.put(BODY)
    node = await scene.node(options=replace(options, parallel=1))
    folder = await node.have(item(BODY), places=(scene.peer_place(peer), LIBRARY))
    assert (folder / "model.gguf").read_bytes() == BODY
    assert peer.requests[0].chunk == 0, "the peer got the first request, and its answer had the wrong length"
    again = [*peer.requests[1:], *scene.library.requests]
    assert [each.chunk for each in again].count(0) == 1


@both_ways
async def test_job_that_is_cancelled_while_nothing_comes_ends_at_once(scene: Scene, options: PullOptions) -> None:
    until = asyncio.Event()
    scene.library.put(BODY)
    scene.library.faults = {0: [silent(until)] * 9}
    node = await scene.node(options=replace(options, stall_s=1000.0))
    job = asyncio.create_task(node.have(item(BODY)))

    async def has_begun() -> bool:
        return bool(scene.library.requests)

    await eventually(has_begun)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(30):
            await job
    until.set()


async def test_places_may_be_for_one_content_only_and_storage_needs_nothing(scene: Scene) -> None:
    other = some_bytes(1000, seed=3)
    storage = await scene.another_library()
    storage.put(BODY, other)
    scene.library.put(BODY)
    scene.library.has_no_bytes = True
    node = await scene.node()
    places = tuple(
        BlobSource(kind="storage", url=f"{storage.url}/storage/{sha}?signature=x", sha256=sha)
        for sha in storage.contents
    )
    folder = await node.have(item(BODY), item(other, "o"), places=places)
    assert (folder / "o").read_bytes() == other
    assert storage.sent == len(BODY) + len(other)


async def test_pull_continues_after_all_sources_failed_for_a_while(scene: Scene) -> None:
    scene.library.put(BODY)
    scene.library.faults = {0: [broken, dies], 2: [broken]}
    node = await scene.node()
    folder = await node.have(item(BODY))
    assert (folder / "model.gguf").read_bytes() == BODY


async def give_up_after_three_chunks(scene: Scene, node: Node) -> SourceFailed:
    """Fetch a file whose last chunk fails, and return the error. The failing chunk is held back until the others are
    verified: on a slow machine that takes longer than the patience of these tests."""
    scene.library.put(BODY)
    scene.library.faults = {3: [broken] * 99}
    scene.library.gate, scene.library.open_until = asyncio.Event(), 3
    job = asyncio.create_task(node.have(item(BODY)))

    async def has_three() -> bool:
        found = node.store.find(item(BODY).sha256)
        return found is not None and found.partial is not None and found.partial.verified_chunks == 3

    await eventually(has_three)
    scene.library.gate.set()
    with pytest.raises(SourceFailed) as caught:
        await job
    scene.library.faults = {}
    return caught.value


async def test_pull_is_given_up_without_chunks_for_a_while_and_keeps_its_part(scene: Scene) -> None:
    node = await scene.node(options=replace(QUICK, patience_s=0.5))
    error = await give_up_after_three_chunks(scene, node)
    assert error.slug == "source_unavailable"
    assert "returned 500" in error.message
    before = scene.library.sent
    assert before == 3 * CHUNK_BYTES
    await node.have(item(BODY))
    assert scene.library.sent - before == len(BODY) - 3 * CHUNK_BYTES


async def test_list_of_chunks_is_waited_for_too(scene: Scene) -> None:
    scene.library.put(BODY)
    scene.library.is_away = True
    node = await scene.node()
    task = asyncio.create_task(node.have(item(BODY)))

    async def has_requested_list() -> bool:
        return scene.library.lists > 0

    await eventually(has_requested_list)
    scene.library.is_away = False
    await task


async def test_two_jobs_share_one_transfer(scene: Scene) -> None:
    scene.library.put(BODY)
    node, first, second = await scene.node(), RecordingReport(), RecordingReport()
    await asyncio.gather(
        node.files.ensure_files("a", "r1", (item(BODY),), (LIBRARY,), first),
        node.files.ensure_files("b", "r1", (item(BODY),), (LIBRARY,), second),
    )
    assert scene.library.sent == len(BODY)
    assert first.moves[-1] == second.moves[-1] == (len(BODY), len(BODY))


async def test_transfer_goes_on_without_the_job_that_began_it_and_ends_with_the_last(scene: Scene) -> None:
    scene.library.put(BODY)
    scene.library.gate, scene.library.open_until = asyncio.Event(), 1
    node = await scene.node()
    first = asyncio.create_task(node.have(item(BODY), model="a"))
    second = asyncio.create_task(node.have(item(BODY), model="b"))

    async def has_begun() -> bool:
        found = node.store.find(item(BODY).sha256)
        has_one = found is not None and found.partial is not None and found.partial.verified_chunks == 1
        return has_one and len(scene.library.requests) > 1

    await eventually(has_begun)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert node.store.list_partial()
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert not node.store.list_partial()
    scene.library.gate.set()
    scene.library.gate = None
    before = len(scene.library.requests)
    # Goes on with the chunk that it has.
    await node.have(item(BODY), model="b")
    assert sorted(each.chunk for each in scene.library.requests[before:]) == [1, 2, 3]


async def test_worker_that_stops_does_not_claim_to_have_it(scene: Scene) -> None:
    scene.library.put(BODY)
    scene.library.gate = asyncio.Event()
    async with scene.running_node() as node:
        job = asyncio.create_task(node.have(item(BODY)))

        async def has_begun() -> bool:
            return bool(scene.library.requests)

        await eventually(has_begun)
    with pytest.raises(SourceFailed):
        await job
    scene.library.gate.set()


async def test_pull_without_room_fetches_nothing_and_states_the_numbers(scene: Scene) -> None:
    scene.library.put(BODY)
    options = replace(QUICK, headroom_bytes=95 * MIB, free_bytes=lambda _folder: 100 * MIB)
    node = await scene.node(options=options)
    with pytest.raises(TransferFailed) as caught:
        await node.have(item(BODY))
    assert caught.value.slug == "disk_full"
    assert "24 MiB are to be fetched, 100 MiB are free" in caught.value.message
    assert "95 MiB are to stay free" in caught.value.message
    assert (scene.library.requests, scene.library.lists) == ([], 0)


async def test_pull_needs_room_only_for_missing_bytes(scene: Scene) -> None:
    async with scene.running_node(options=replace(QUICK, patience_s=0.2)) as node:
        await give_up_after_three_chunks(scene, node)
    node = await scene.node(options=replace(QUICK, free_bytes=lambda _folder: MIB))
    await node.have(item(BODY))
    # And nothing has to, for what is here.
    await node.have(item(BODY), model="other")


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "..", "", "a\x00"])
@pytest.mark.behaviour("NODE-132")
async def test_paths_that_lead_out_are_refused_before_a_byte_is_fetched(scene: Scene, path: str) -> None:
    scene.library.put(BODY)
    node = await scene.node()
    with pytest.raises(CorralError):
        await node.have(item(BODY, path))
    assert scene.library.requests == []


@pytest.mark.parametrize("sha256", ["", "x" * 64, "../" + "a" * 61, "A" * 64])
async def test_invalid_sha256_is_refused(scene: Scene, sha256: str) -> None:
    node = await scene.node()
    with pytest.raises(CorralError):
        await node.have(ModelFileItem(path="x", sha256=sha256, size_bytes=1))


async def test_empty_file_with_another_hash_is_refused(scene: Scene) -> None:
    node = await scene.node()
    with pytest.raises(TransferFailed):
        await node.have(ModelFileItem(path="x", sha256=item(BODY).sha256, size_bytes=0))


@pytest.mark.behaviour("FILE-1")
async def test_wrong_size_is_noticed(scene: Scene) -> None:
    scene.library.put(BODY)
    node = await scene.node(options=replace(QUICK, patience_s=0.1))
    with pytest.raises(SourceFailed) as caught:
        await node.have(replace(item(BODY), size_bytes=len(BODY) + CHUNK_BYTES))
    assert "hashes of its chunks" in caught.value.message


async def test_limit_on_the_bandwidth_holds_for_what_is_fetched(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = counted(monkeypatch)
    scene.library.put(BODY)
    node = await scene.node(options=LIMITED)
    await node.have(item(BODY))
    assert sum(taken) == len(BODY)


async def test_files_of_a_shared_library_are_linked(scene: Scene, tmp_path: Path) -> None:
    sha256 = item(BODY).sha256
    source = tmp_path / "library" / "blobs" / "sha256" / sha256[:2] / sha256
    source.parent.mkdir(parents=True)
    source.write_bytes(BODY)
    node = await scene.node(shared_dir=tmp_path / "library")
    folder = await node.have(item(BODY))
    assert (folder / "model.gguf").samefile(source)
    assert scene.library.requests == []
    # Deleting gives nothing back, and takes nothing from the library.
    assert (await node.files.delete("m")).freed_bytes == 0
    assert source.read_bytes() == BODY


@pytest.mark.behaviour("FILE-5")
async def test_transfer_waits_for_its_first_place_until_the_node_is_registered(scene: Scene) -> None:
    scene.library.put(BODY)
    node = await scene.node(is_registered=False)
    job = asyncio.create_task(node.have(item(BODY), places=(LIBRARY,)))

    async def is_waiting() -> bool:
        return node.puller._transfers.has_call(item(BODY).sha256)

    await eventually(is_waiting)
    assert not job.done()
    node.is_registered = True
    folder = await job
    assert (folder / "model.gguf").read_bytes() == BODY


@pytest.mark.behaviour("FILE-5")
async def test_transfer_that_knows_its_chunks_waits_for_a_place_until_the_node_is_registered(scene: Scene) -> None:
    small = some_bytes(1000, seed=3)
    scene.library.put(small)
    # The hash of its only chunk is its own: no source is needed for the list.
    node = await scene.node(is_registered=False)
    job = asyncio.create_task(node.have(item(small), places=(LIBRARY,)))

    async def has_begun() -> bool:
        return node.store.find(item(small).sha256) is not None

    await eventually(has_begun)
    assert not job.done()
    node.is_registered = True
    folder = await job
    assert (folder / "model.gguf").read_bytes() == small


async def test_transfer_without_any_place_fails_as_source_unavailable(scene: Scene) -> None:
    node = await scene.node(options=replace(QUICK, patience_s=0.0), is_registered=False)
    with pytest.raises(SourceFailed) as caught:
        await node.have(item(some_bytes(1000, seed=3)), places=(LIBRARY,))
    assert caught.value.slug == "source_unavailable"


@both_ways
async def test_library_that_served_a_wrong_chunk_is_used_again_after_it_has_checked_its_copy(
    scene: Scene, options: PullOptions
) -> None:
    scene.library.put(BODY)
    scene.library.faults = {1: [wrong, wrong]}
    scene.library.verdicts = [None, False]
    node = await scene.node(options=replace(options, parallel=1))
    folder = await node.have(item(BODY), places=(LIBRARY,))
    assert (folder / "model.gguf").read_bytes() == BODY
    assert scene.library.reports == 2


async def test_wrong_bytes_of_the_storage_are_reported_to_the_library(scene: Scene) -> None:
    small = some_bytes(1000, seed=3)
    storage = await scene.another_library()
    storage.put(small)
    storage.faults = {0: [wrong]}
    scene.library.has_no_bytes = True
    scene.library.verdicts = [False]
    node = await scene.node()
    place = BlobSource(kind="storage", url=f"{storage.url}/storage/{item(small).sha256}")
    folder = await node.have(item(small), places=(place,))
    assert (folder / "model.gguf").read_bytes() == small
    assert scene.library.reports == 1


@pytest.mark.parametrize("verdicts", [[True], []], ids=["copy is right", "older frontend"])
async def test_transfer_ends_if_the_library_tells_wrong_bytes_and_does_not_mend_them(
    scene: Scene, verdicts: list[bool | None]
) -> None:
    scene.library.put(BODY)
    scene.library.faults = {1: [wrong] * 9}
    scene.library.verdicts = verdicts
    node = await scene.node(options=replace(QUICK, parallel=1))
    with pytest.raises(TransferFailed) as caught:
        await node.have(item(BODY), places=(LIBRARY,))
    assert caught.value.slug == "digest_mismatch"


async def test_damaged_file_of_a_shared_library_is_not_linked(scene: Scene, tmp_path: Path) -> None:
    small = some_bytes(1000, seed=3)
    sha256 = item(small).sha256
    shared = tmp_path / "shared" / "blobs" / sha256[:2] / sha256
    shared.parent.mkdir(parents=True)
    shared.write_bytes(small[:-1] + b"?")
    shared.with_name(f"{sha256}.json").write_text(json.dumps({"size": len(small), "mtime_ns": 1}))
    scene.library.put(small)
    node = await scene.node(shared_dir=tmp_path / "shared")
    folder = await node.have(item(small))
    assert (folder / "model.gguf").read_bytes() == small
