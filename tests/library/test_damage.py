"""Copies of the library that are damaged on its disk: found, dropped, fetched again, and reported if that fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.domain.model import StoredFile
from corral.library.inspector import INSPECT_EVERY_S
from corral.library.library import FrontendLibrary
from tests.library.origins import RecordingProgress, sha256_of
from tests.library.scene import Scene, one
from tests.library.test_importer import CONTENT, URL
from tests.operations.manual_dispatcher import SteppingClock
from tests.support.polling import eventually


def flip(path: Path) -> None:
    """One bit, and a new time."""
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


def flip_in_silence(path: Path) -> None:
    """One bit, as a failing disk does it: neither size nor time changes."""
    before = path.stat()
    flip(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def cut(path: Path) -> None:
    os.truncate(path, 100)


touched = pytest.mark.parametrize("harm", [flip, cut], ids=["flipped", "cut"])
harmed = pytest.mark.parametrize("harm", [flip, cut, flip_in_silence], ids=["flipped", "cut", "flipped in silence"])
FILE = one("m.bin", URL, sha256=sha256_of(CONTENT))


async def held(scene: Scene) -> tuple[StoredFile, Path]:
    """A content of a model in the library, and its file."""
    scene.origins.contents[URL] = CONTENT
    (stored,) = await scene.enter("m", FILE)
    return stored, path_of(scene, stored.sha256)


def path_of(scene: Scene, sha256: str) -> Path:
    path = scene.library.find_path(sha256)
    assert path is not None
    return path


async def found(library: FrontendLibrary, sha256: str) -> bool:
    """What a report of wrong bytes comes to."""

    async def is_known() -> tuple[bool] | None:
        is_right = library.report_damage(sha256)
        return None if is_right is None else (is_right,)

    (is_right,) = await eventually(is_known)  # type: ignore[misc]
    return is_right


@harmed
async def test_reported_copy_that_is_damaged_is_dropped_and_fetched_again(
    scene: Scene, harm: Callable[[Path], None]
) -> None:
    stored, path = await held(scene)
    harm(path)
    assert await found(scene.library, stored.sha256) is False
    assert scene.library.find_path(stored.sha256) is None
    assert await scene.library.list_holders(stored.sha256) == ()
    await scene.library.ensure_files("m", [FILE], RecordingProgress())
    assert path.read_bytes() == CONTENT
    assert await found(scene.library, stored.sha256) is True


async def test_reported_copy_is_hashed_at_most_once_in_ten_minutes(scene: Scene) -> None:
    clock = SteppingClock()
    library = FrontendLibrary(scene.options, scene.database, scene.origins, clock)
    stored, path = await held(scene)
    assert await found(library, stored.sha256) is True
    flip_in_silence(path)
    clock.ahead = INSPECT_EVERY_S - 1
    assert library.report_damage(stored.sha256) is True
    clock.ahead = INSPECT_EVERY_S
    assert await found(library, stored.sha256) is False
    await library.stop()


@touched
async def test_copy_that_was_touched_is_hashed_before_it_counts_as_held(
    scene: Scene, harm: Callable[[Path], None]
) -> None:
    stored, path = await held(scene)
    harm(path)
    assert not await scene.library.has(stored.sha256)
    assert await scene.library.list_holders(stored.sha256) == ()


async def test_copy_that_was_touched_and_is_right_stays(scene: Scene) -> None:
    stored, path = await held(scene)
    os.utime(path, ns=(1, 1))
    assert await scene.library.has(stored.sha256)
    assert path.read_bytes() == CONTENT


@touched
async def test_damaged_copy_is_dropped_when_its_frontend_starts(scene: Scene, harm: Callable[[Path], None]) -> None:
    stored, path = await held(scene)
    harm(path)
    reborn = scene.another()
    await reborn.start()

    async def is_gone() -> bool:
        return not path.exists() and await reborn.list_holders(stored.sha256) == ()

    await eventually(is_gone)
    await reborn.stop()


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink], ids=["flipped", "cut", "gone"])
async def test_inspection_drops_damaged_and_missing_copies(scene: Scene, harm: Callable[[Path], None]) -> None:
    stored, path = await held(scene)
    harm(path)
    await scene.library.drop_damaged([stored.sha256])
    assert await scene.library.list_holders(stored.sha256) == ()
    assert not path.exists()


@touched
async def test_damaged_copy_is_dropped_while_its_frontend_runs(scene: Scene, harm: Callable[[Path], None]) -> None:
    stored, path = await held(scene)
    harm(path)
    await scene.library.tick()

    async def is_gone() -> bool:
        return not path.exists() and await scene.library.list_holders(stored.sha256) == ()

    await eventually(is_gone)


async def test_copy_that_was_touched_is_looked_at_when_it_is_served(scene: Scene) -> None:
    stored, path = await held(scene)
    blob = await scene.library.get_blob(stored.sha256)
    flip(path)
    assert scene.library.can_serve(blob)

    async def is_gone() -> bool:
        return not path.exists() and await scene.library.list_holders(stored.sha256) == ()

    await eventually(is_gone)
    assert not scene.library.can_serve(blob)


@pytest.mark.behaviour("LIB-16")
async def test_library_says_which_upload_is_lost_until_it_is_sent_again(scene: Scene, tmp_path: Path) -> None:
    sha256 = sha256_of(CONTENT)
    sent = tmp_path / "sent"
    sent.write_bytes(CONTENT)
    await scene.library.take_upload(sent, sha256)
    await scene.enter("voice", one("voice.bin", f"upload:{sha256}"))
    assert await scene.library.find_lost() == 0
    assert scene.library.describe_lost_uploads() is None
    flip(path_of(scene, sha256))
    await scene.library.drop_damaged([sha256])
    assert scene.library.describe_lost_uploads() == (
        "voice.bin of model voice was uploaded and no library has it any more: upload it again with "
        f"`corral models import`, or PUT /api/files/{sha256}."
    )
    sent.write_bytes(CONTENT)
    await scene.library.take_upload(sent, sha256)
    assert scene.library.describe_lost_uploads() is None


@pytest.mark.behaviour("LIB-16")
async def test_library_says_nothing_of_a_lost_file_that_has_a_source(scene: Scene) -> None:
    stored, path = await held(scene)
    flip(path)
    await scene.library.drop_damaged([stored.sha256])
    assert scene.library.describe_lost_uploads() is None
