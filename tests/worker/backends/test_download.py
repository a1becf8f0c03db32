"""Downloads: resumed, verified, patient with slow servers and strict with wrong ones."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from corral.domain.errors import CorralError
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.worker.backends.layout import InstallFailed
from corral.worker.backends.sources.staging_source import InstallTimeouts
from tests.support.ports import find_free_port
from tests.worker.backends import server as faulty
from tests.worker.backends.scene import (
    NAME,
    Recorder,
    Scene,
    archive_build,
    assert_nothing_is_left_over,
    engine_files,
    sha256,
    tar_of,
)
from tests.worker.backends.server import FileServer

MIB = 1024 * 1024
BODY = tar_of(engine_files("one", padding=2 * MIB))


async def fails(scene: Scene, build: object, code: str) -> CorralError:
    with pytest.raises((TransferFailed, SourceFailed)) as caught:
        await scene.install(build)  # type: ignore[arg-type]
    assert caught.value.slug == code
    assert scene.installer.list_installed() == ()
    assert_nothing_is_left_over(scene.root, scene.installer)
    return caught.value


async def test_bytes_are_reported_as_they_arrive(scene: Scene, files: FileServer) -> None:
    files.put("/engine.tar.gz", BODY)
    report = Recorder()
    await scene.install(archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)), report=report)
    counts = [current for current, _, _ in report.bytes]
    assert counts == sorted(counts)
    assert len(counts) > 3
    assert report.bytes[-1] == (len(BODY), len(BODY), "engine.tar.gz")
    assert await scene.says() == "one"


@pytest.mark.behaviour("INS-2")
async def test_connection_that_breaks_is_resumed_where_it_broke(scene: Scene, files: FileServer) -> None:
    file = files.put("/engine.tar.gz", BODY, etag='"a"', faults=[faulty.cut_after(MIB), faulty.cut_after(1000)])
    await scene.install(archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)))
    assert await scene.says() == "one"
    assert [bool(requested_range) for requested_range in file.ranges] == [False, True, True]
    # Two pauses, the second attempt counts anew because the first had brought something.
    assert len(scene.clock.pauses) == 2


async def test_connection_that_breaks_again_and_again_gets_there_as_long_as_it_brings_something(
    scene: Scene, files: FileServer
) -> None:
    file = files.put("/engine.tar.gz", BODY, etag='"a"', faults=[faulty.cut_after(MIB // 5)] * 8)
    await scene.install(archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)))
    assert await scene.says() == "one"
    assert len(file.ranges) == 9
    assert max(scene.clock.pauses) <= 2.5


@pytest.mark.behaviour("INS-2")
async def test_download_fetches_the_whole_file_again_when_the_server_has_no_ranges(
    scene: Scene, files: FileServer
) -> None:
    files.put("/engine.tar.gz", BODY, has_ranges=False, faults=[faulty.cut_after(MIB)])
    await scene.install(archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)))
    assert await scene.says() == "one"


@pytest.mark.behaviour("INS-2")
async def test_changed_file_without_a_promised_digest_is_not_joined_from_two_versions(
    scene: Scene, files: FileServer
) -> None:
    other = tar_of(engine_files("two", padding=2 * MIB))
    file = files.put("/engine.tar.gz", BODY, etag='"a"', faults=[faulty.cut_after(MIB)])

    def change(current: int) -> None:
        file.body, file.etag = other, '"b"'

    await scene.install(archive_build(f"{files.url}/engine.tar.gz"), report=Recorder(progress_hook=change))
    assert await scene.says() == "two"


@pytest.mark.behaviour("INS-2")
async def test_changed_file_with_a_promised_digest_is_fetched_again(scene: Scene, files: FileServer) -> None:
    """No ETag tells that the file has changed; the digest does."""
    file = files.put("/engine.tar.gz", BODY, faults=[faulty.cut_after(MIB)])
    good, file.body = file.body, bytes(MIB) + BODY[MIB:]

    def mend(_current: int) -> None:
        file.body = good

    await scene.install(
        archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)), report=Recorder(progress_hook=mend)
    )
    assert await scene.says() == "one"


async def test_failing_server_is_tried_three_times_with_growing_pauses(scene: Scene, files: FileServer) -> None:
    file = files.put("/engine.tar.gz", BODY, faults=[faulty.status(503)], is_always_faulty=True)
    error = await fails(scene, archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)), "source_unavailable")
    assert "503" in error.message
    assert error.retryable
    assert len(file.ranges) == 3
    first, second = scene.clock.pauses
    assert 1.5 <= first <= 2.5 < 3.0 <= second <= 5.0


@pytest.mark.parametrize("fault", [faulty.status(503), faulty.cut_after(0)], ids=["refused", "cut at once"])
async def test_download_without_a_byte_leaves_no_file(scene: Scene, files: FileServer, fault: faulty.Fault) -> None:
    files.put("/engine.tar.gz", BODY, etag='"a"', faults=[fault], is_always_faulty=True)
    await fails(scene, archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)), "source_unavailable")
    assert list((scene.root / "downloads").iterdir()) == []


async def test_error_of_the_moment_costs_nothing_but_a_pause(scene: Scene, files: FileServer) -> None:
    files.put("/engine.tar.gz", BODY, faults=[faulty.status(500), faulty.status(429)])
    await scene.install(archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)))
    assert await scene.says() == "one"


async def test_file_that_always_ends_at_the_same_place_is_given_up(scene: Scene, files: FileServer) -> None:
    file = files.put("/engine.tar.gz", BODY, has_ranges=False, faults=[faulty.cut_after(MIB)], is_always_faulty=True)
    error = await fails(scene, archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)), "source_unavailable")
    assert error.retryable
    assert 3 <= len(file.ranges) <= 4


async def test_unreachable_server_is_a_retryable_fault(scene: Scene) -> None:
    url = f"http://127.0.0.1:{find_free_port()}/engine.tar.gz"
    assert (await fails(scene, archive_build(url, sha256=sha256(BODY)), "source_unavailable")).retryable


async def test_missing_file_fails_the_download_at_once(scene: Scene, files: FileServer) -> None:
    error = await fails(scene, archive_build(f"{files.url}/missing.tar.gz"), "not_found")
    assert not error.retryable
    assert files.gets("/missing.tar.gz") == 1


@pytest.mark.parametrize("content_type", ["text/html", "application/octet-stream"])
async def test_web_page_is_never_taken_for_a_package(scene: Scene, files: FileServer, content_type: str) -> None:
    files.put("/engine.tar.gz", BODY, faults=[faulty.page(content_type)], is_always_faulty=True)
    await fails(scene, archive_build(f"{files.url}/engine.tar.gz"), "bad_answer")


@pytest.mark.behaviour("INS-5")
async def test_wrong_digest_is_refused_and_its_bytes_are_gone(scene: Scene, files: FileServer) -> None:
    files.put("/engine.tar.gz", BODY)
    error = await fails(scene, archive_build(f"{files.url}/engine.tar.gz", sha256="0" * 64), "digest_mismatch")
    assert sha256(BODY) in error.message
    assert not error.retryable
    assert list((scene.root / "downloads").iterdir()) == []


async def test_slow_download_lives_as_long_as_bytes_move(scene: Scene, files: FileServer) -> None:
    """It takes longer than the silence that would end it."""
    scene.options = replace(scene.options, timeouts=InstallTimeouts(stall_s=3.0, header_s=30.0))
    scene.installer = scene.restarted()
    file = files.put("/engine.tar.gz", BODY, faults=[faulty.trickle(12, 0.35)])
    await scene.install(archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)))
    assert await scene.says() == "one"
    assert len(file.ranges) == 1


@pytest.mark.parametrize("count", [None, 1000], ids=["before its answer", "in the middle"])
async def test_server_that_falls_silent_is_left(scene: Scene, files: FileServer, count: int | None) -> None:
    scene.options = replace(scene.options, timeouts=InstallTimeouts(stall_s=0.2, header_s=0.2))
    scene.installer = scene.restarted()
    never = asyncio.Event()
    file = files.put("/engine.tar.gz", BODY, faults=[faulty.silent_after(count, never)], is_always_faulty=True)
    error = await fails(scene, archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY)), "source_unavailable")
    never.set()
    assert "in time" in error.message
    assert len(file.ranges) == 3


async def test_redirects_are_followed_and_limited(scene: Scene, files: FileServer) -> None:
    files.put("/engine.tar.gz", BODY)
    files.put("/moved.tar.gz", b"", faults=[faulty.redirect("/engine.tar.gz")])
    files.put("/round.tar.gz", b"", faults=[faulty.redirect("/round.tar.gz")], is_always_faulty=True)
    await fails(scene, archive_build(f"{files.url}/round.tar.gz"), "bad_answer")
    await scene.install(archive_build(f"{files.url}/moved.tar.gz", sha256=sha256(BODY)))
    assert await scene.says() == "one"


@pytest.mark.behaviour("OPS-29")
async def test_cancelled_download_goes_on_where_it_stopped(scene: Scene, files: FileServer) -> None:
    never = asyncio.Event()
    file = files.put("/engine.tar.gz", BODY, etag='"a"', faults=[faulty.silent_after(MIB, never)])
    build = archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY))
    await _cancel_after(scene, build, MIB)
    never.set()
    (partial,) = scene.partials
    assert partial.stat().st_size == MIB
    note = json.loads(partial.with_suffix(".json").read_text())
    assert (note["etag"], note["sha256"], note["owner"]) == ('"a"', sha256(BODY), NAME)
    assert_nothing_is_left_over(scene.root, scene.installer)

    scene.installer = scene.restarted()
    await scene.install(build)
    assert file.ranges[-1] == f"bytes={MIB}-"
    assert file.sent == len(BODY) - MIB
    assert await scene.says() == "one"
    assert scene.partials == []


@pytest.mark.behaviour("OPS-28")
async def test_discarded_download_leaves_no_file(scene: Scene, files: FileServer) -> None:
    never = asyncio.Event()
    files.put("/engine.tar.gz", BODY, faults=[faulty.silent_after(MIB, never)])
    files.put("/other.tar.gz", BODY, faults=[faulty.silent_after(MIB, never)])
    build = archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY))
    other = archive_build(f"{files.url}/other.tar.gz", name="other-engine", sha256=sha256(BODY))
    await _cancel_after(scene, build, MIB)
    await _cancel_after(scene, other, MIB)
    never.set()
    assert len(scene.partials) == 2
    await scene.installer.discard(build)
    (kept,) = scene.partials
    assert json.loads(kept.with_suffix(".json").read_text())["owner"] == "other-engine"


async def test_whole_file_of_an_interrupted_installation_is_not_fetched_again(scene: Scene, files: FileServer) -> None:
    file = files.put("/engine.tar.gz", BODY)
    build = archive_build(f"{files.url}/engine.tar.gz", sha256=sha256(BODY))

    async def refuses() -> None:
        raise InstallFailed("A process survives.", code="stop_failed")

    with pytest.raises(TransferFailed):
        await scene.installer.install(build, generation=1, replaces=False, before_swap=refuses, progress=Recorder())
    assert len(file.ranges) == 1
    await scene.install(build)
    assert len(file.ranges) == 1
    assert await scene.says() == "one"


async def _cancel_after(scene: Scene, build: object, count: int) -> None:
    there = asyncio.Event()
    report = Recorder(progress_hook=lambda current: there.set() if current >= count else None)
    task = asyncio.get_running_loop().create_task(scene.install(build, report=report))  # type: ignore[arg-type]
    await asyncio.wait({task, asyncio.ensure_future(there.wait())}, return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture
def test_folder_is_closed_to_others(tmp_path: Path) -> None:
    scene = Scene(root=tmp_path / "backends")
    asyncio.run(scene.installer.tidy())
    assert {path.stat().st_mode & 0o777 for path in (scene.root, *scene.root.iterdir())} == {0o700}
