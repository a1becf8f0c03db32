"""The snapshot on disk: whole or absent, closed to others, and never trusted when anything about it is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from corral.backends.catalog import Catalog
from corral.serving.kept import FORMAT, REFRESH_S, Keeper, KeptFile, cluster_key
from corral.store.database import Database
from tests.backends.entries import parsed

WEEK_S = 7 * 86400.0
HERE = cluster_key("postgresql://corral:secret@db:5432/corral")


class Hands:
    """A clock whose hands the test moves."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def monotonic(self) -> float:
        return 10_000.0 + self.passed_s

    def wall(self) -> datetime:
        return datetime(2026, 11, 15, 12, tzinfo=UTC) + timedelta(seconds=self.passed_s)

    async def sleep(self, seconds: float) -> None:
        self.passed_s += seconds


class Part:
    def __init__(self, **content: Any) -> None:
        self.content: dict[str, Any] = content

    def to_kept(self) -> Mapping[str, Any]:
        return dict(self.content)

    def from_kept(self, kept: Mapping[str, Any]) -> None:
        self.content = {"models": list(kept["models"])}


def _keeper(folder: Path, part: Part, clock: Hands | None = None, cluster: str = HERE) -> Keeper:
    return Keeper(KeptFile(folder, cluster), {"snapshot": part}, clock or Hands(), WEEK_S)


async def _kept(folder: Path, *models: str) -> Path:
    keeper = _keeper(folder, Part(models=list(models)))
    keeper.changed()
    assert await keeper.tick()
    return KeptFile(folder, HERE).path


@pytest.mark.behaviour("GW-140")
async def test_what_was_kept_is_given_back_with_its_time_to_another_process(tmp_path: Path) -> None:
    await _kept(tmp_path / "state", "llama", "qwen")
    part = Part()
    assert _keeper(tmp_path / "state", part).restore() == Hands().wall()
    assert part.content == {"models": ["llama", "qwen"]}


@pytest.mark.behaviour("GW-141")
async def test_the_file_and_its_folder_are_closed_to_others_and_nothing_half_written_stays(tmp_path: Path) -> None:
    path = await _kept(tmp_path / "a" / "state", "llama")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.behaviour("GW-141")
async def test_a_write_that_fails_leaves_the_old_file_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await _kept(tmp_path, "llama")
    before, part = path.read_bytes(), Part(models=["other"])
    keeper = _keeper(tmp_path, part)
    keeper.changed()

    def no_room(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", no_room)
        with pytest.raises(OSError, match="No space left"):
            await keeper.tick()
    assert "No space left on device" in (keeper.trouble() or "")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    assert await keeper.tick()
    assert keeper.trouble() is None
    assert path.read_bytes() != before


@pytest.mark.behaviour("GW-142")
async def test_it_is_written_when_something_changed_and_otherwise_once_an_hour(tmp_path: Path) -> None:
    clock, part = Hands(), Part(models=["llama"])
    keeper = _keeper(tmp_path, part, clock)
    clock.passed_s = 2 * REFRESH_S
    assert not await keeper.tick(), "nothing was read yet: what another process has kept is better"
    keeper.changed()
    assert [await keeper.tick(), await keeper.tick()] == [True, False]
    keeper.changed()
    assert not await keeper.tick(), "an event about something else"
    part.content["models"].append("qwen")
    keeper.changed()
    assert await keeper.tick()
    clock.passed_s += REFRESH_S + 1
    assert [await keeper.tick(), await keeper.tick()] == [True, False]
    restored = _keeper(tmp_path, Part(), clock).restore()
    assert restored == clock.wall()


def _replace(old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        found = path.read_bytes()
        assert old in found
        path.write_bytes(found.replace(old, new))

    return change


def _say(content: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_bytes(content)

    return change


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def _open_to_others(path: Path) -> None:
    path.chmod(0o640)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _of_another_form(path: Path) -> None:
    KeptFile(path.parent, HERE).write(Hands().wall(), json.dumps({"snapshot": {"names": []}}).encode())


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "one letter": (_replace(b"llama", b"llamb"), "checksum"),
    "another time": (_replace(b"2026-11-15", b"2026-11-16"), "checksum"),
    "cut": (_cut, "checksum"),
    "empty": (_say(b""), "damaged"),
    "no JSON": (_say(b"\x80\x04\n\x00"), "damaged"),
    "a list": (_say(b"[]\n{}"), "damaged"),
    "a later format": (_replace(b'"format": %d' % FORMAT, b'"format": 99'), "format 99"),
    "another cluster": (_replace(HERE.encode(), b"0" * 16), "another cluster"),
    "open to others": (_open_to_others, "other users"),
    "a link": (_link, "cannot be read"),
    "another form": (_of_another_form, "not what this version writes"),
}


@pytest.mark.behaviour("GW-143")
@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_file_with_which_anything_is_wrong_is_left_alone_and_said_once(tmp_path: Path, damage: str) -> None:
    path = await _kept(tmp_path, "llama")
    do, reason = DAMAGE[damage]
    do(path)
    with capture_logs() as logs:
        assert _keeper(tmp_path, Part()).restore() is None
    (line,) = logs
    assert line["log_level"] == "warning"
    assert reason in line["reason"]


@pytest.mark.behaviour("GW-143")
async def test_a_file_that_is_too_old_is_not_used_and_one_of_nobody_is_no_matter(tmp_path: Path) -> None:
    await _kept(tmp_path, "llama")
    clock = Hands()
    clock.passed_s = WEEK_S - 1
    assert _keeper(tmp_path, Part(), clock).restore() is not None
    clock.passed_s = WEEK_S + 1
    with capture_logs() as logs:
        assert _keeper(tmp_path, Part(), clock).restore() is None
        assert _keeper(tmp_path / "nothing", Part(), clock).restore() is None
    assert ["older than" in line["reason"] for line in logs] == [True]


@pytest.mark.behaviour("GW-140")
def test_a_cluster_is_known_by_its_registry_and_not_by_who_asks_it() -> None:
    same = ("postgresql://corral:secret@db:5432/corral", "postgresql://other:new@DB:5432/corral?sslmode=require")
    others = ("postgresql://corral@db:5433/corral", "postgresql://corral@db:5432/other", "postgresql://a@b/corral")
    assert len({cluster_key(url) for url in same}) == 1
    assert len({cluster_key(url) for url in (same[0], *others)}) == 4


@pytest.mark.behaviour("GW-141")
async def test_writers_and_readers_at_once_never_meet_half_a_file(tmp_path: Path) -> None:
    """Several frontends of one machine share the file."""
    await _kept(tmp_path, "llama")
    keepers = []
    for number in range(4):
        part = Part(models=[f"model-{number}"] * 2000)
        keepers.append(_keeper(tmp_path, part))

    async def write(keeper: Keeper) -> None:
        for _ in range(10):
            keeper._written = b""
            keeper.changed()
            await keeper.tick()

    async def read() -> None:
        for _ in range(50):
            assert await asyncio.to_thread(_keeper(tmp_path, Part()).restore) is not None

    async with asyncio.TaskGroup() as group:
        for keeper in keepers:
            group.create_task(write(keeper))
        group.create_task(read())
    assert list(tmp_path.iterdir()) == [KeptFile(tmp_path, HERE).path]


@pytest.mark.behaviour("GW-140")
async def test_what_backends_of_galleries_answer_is_known_before_the_galleries_are_read(
    tmp_path: Path, database: Database
) -> None:
    """By it a call is passed on as it is or translated."""
    known = Catalog(database, built_in=parsed(gallery="mine"))
    assert known.serves("ear") == ("transcriptions",)
    keeper = Keeper(KeptFile(tmp_path, HERE), {"catalog": known}, Hands(), WEEK_S)
    keeper.changed()
    await keeper.tick()
    fresh = Catalog(database)
    assert fresh.serves("ear") == ()
    built_in = {entry.name: fresh.serves(entry.name) for entry in fresh.entries()}
    assert Keeper(KeptFile(tmp_path, HERE), {"catalog": fresh}, Hands(), WEEK_S).restore() is not None
    assert fresh.serves("ear") == fresh.serves("EAR") == ("transcriptions",)
    assert built_in == {entry.name: fresh.serves(entry.name) for entry in fresh.entries()}
    await fresh.load()
    assert fresh.serves("ear") == (), "there is no such gallery any more"
