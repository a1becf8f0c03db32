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

from corral.backends.catalog import BackendCatalog
from corral.gateway.routing.saved_state import FORMAT, REFRESH_S, SavedStateFile, StateSaver, compute_cluster_key
from corral.store.database import Database
from tests.backends.entries import parsed

WEEK_S = 7 * 86400.0
HERE = compute_cluster_key("postgresql://corral:secret@db:5432/corral")


class ManualClock:
    """A clock whose hands the test moves."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def monotonic(self) -> float:
        return 10_000.0 + self.passed_s

    def wall(self) -> datetime:
        return datetime(2026, 11, 15, 12, tzinfo=UTC) + timedelta(seconds=self.passed_s)

    async def sleep(self, seconds: float) -> None:
        self.passed_s += seconds


class SavedPart:
    def __init__(self, **content: Any) -> None:
        self.content: dict[str, Any] = content

    def to_saved_state(self) -> Mapping[str, Any]:
        return dict(self.content)

    def from_saved_state(self, kept: Mapping[str, Any]) -> None:
        self.content = {"models": list(kept["models"])}


def _keeper(folder: Path, part: SavedPart, clock: ManualClock | None = None, cluster: str = HERE) -> StateSaver:
    return StateSaver(SavedStateFile(folder, cluster), {"snapshot": part}, clock or ManualClock(), WEEK_S)


async def _kept(folder: Path, *models: str) -> Path:
    keeper = _keeper(folder, SavedPart(models=list(models)))
    keeper.mark_changed()
    assert await keeper.tick()
    return SavedStateFile(folder, HERE).path


async def test_saved_state_is_restored_with_its_time_in_another_process(tmp_path: Path) -> None:
    await _kept(tmp_path / "state", "llama", "qwen")
    part = SavedPart()
    assert _keeper(tmp_path / "state", part).restore() == ManualClock().wall()
    assert part.content == {"models": ["llama", "qwen"]}


async def test_file_and_its_folder_are_closed_to_others_and_nothing_half_written_stays(tmp_path: Path) -> None:
    path = await _kept(tmp_path / "a" / "state", "llama")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


async def test_write_that_fails_leaves_the_old_file_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await _kept(tmp_path, "llama")
    before, part = path.read_bytes(), SavedPart(models=["other"])
    keeper = _keeper(tmp_path, part)
    keeper.mark_changed()

    def no_room(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", no_room)
        with pytest.raises(OSError, match="No space left"):
            await keeper.tick()
    assert "No space left on device" in (keeper.describe_problem() or "")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    assert await keeper.tick()
    assert keeper.describe_problem() is None
    assert path.read_bytes() != before


async def test_state_is_saved_after_a_change_and_otherwise_once_an_hour(tmp_path: Path) -> None:
    clock, part = ManualClock(), SavedPart(models=["llama"])
    keeper = _keeper(tmp_path, part, clock)
    clock.passed_s = 2 * REFRESH_S
    assert not await keeper.tick(), "nothing was read yet: what another process has kept is better"
    keeper.mark_changed()
    assert [await keeper.tick(), await keeper.tick()] == [True, False]
    keeper.mark_changed()
    assert not await keeper.tick(), "an event about something else"
    part.content["models"].append("qwen")
    keeper.mark_changed()
    assert await keeper.tick()
    clock.passed_s += REFRESH_S + 1
    assert [await keeper.tick(), await keeper.tick()] == [True, False]
    restored = _keeper(tmp_path, SavedPart(), clock).restore()
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
    SavedStateFile(path.parent, HERE).write(ManualClock().wall(), json.dumps({"snapshot": {"names": []}}).encode())


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
    "another form": (_of_another_form, "does not write files like it"),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damaged_state_file_is_left_alone_and_reported_once(tmp_path: Path, damage: str) -> None:
    path = await _kept(tmp_path, "llama")
    do, reason = DAMAGE[damage]
    do(path)
    with capture_logs() as logs:
        assert _keeper(tmp_path, SavedPart()).restore() is None
    (line,) = logs
    assert line["log_level"] == "warning"
    assert reason in line["reason"]


async def test_state_file_that_is_too_old_is_not_used(tmp_path: Path) -> None:
    await _kept(tmp_path, "llama")
    clock = ManualClock()
    clock.passed_s = WEEK_S - 1
    assert _keeper(tmp_path, SavedPart(), clock).restore() is not None
    clock.passed_s = WEEK_S + 1
    with capture_logs() as logs:
        assert _keeper(tmp_path, SavedPart(), clock).restore() is None
        assert _keeper(tmp_path / "nothing", SavedPart(), clock).restore() is None
    assert ["older than" in line["reason"] for line in logs] == [True]


def test_cluster_key_ignores_user_and_password_of_the_database() -> None:
    same = ("postgresql://corral:secret@db:5432/corral", "postgresql://other:new@DB:5432/corral?sslmode=require")
    others = ("postgresql://corral@db:5433/corral", "postgresql://corral@db:5432/other", "postgresql://a@b/corral")
    assert len({compute_cluster_key(url) for url in same}) == 1
    assert len({compute_cluster_key(url) for url in (same[0], *others)}) == 4


async def test_writers_and_readers_at_once_never_meet_half_a_file(tmp_path: Path) -> None:
    """Several frontends of one machine share the file."""
    await _kept(tmp_path, "llama")
    keepers = []
    for number in range(4):
        part = SavedPart(models=[f"model-{number}"] * 2000)
        keepers.append(_keeper(tmp_path, part))

    async def write(keeper: StateSaver) -> None:
        for _ in range(10):
            keeper._written = b""
            keeper.mark_changed()
            await keeper.tick()

    async def read() -> None:
        for _ in range(50):
            assert await asyncio.to_thread(_keeper(tmp_path, SavedPart()).restore) is not None

    async with asyncio.TaskGroup() as group:
        for keeper in keepers:
            group.create_task(write(keeper))
        group.create_task(read())
    assert list(tmp_path.iterdir()) == [SavedStateFile(tmp_path, HERE).path]


async def test_restored_snapshot_knows_the_calls_of_backends_before_galleries_are_read(
    tmp_path: Path, database: Database
) -> None:
    """By it a call is passed on as it is or translated."""
    known = BackendCatalog(database, built_in=parsed(gallery="mine"))
    assert known.list_calls("ear") == ("transcriptions",)
    keeper = StateSaver(SavedStateFile(tmp_path, HERE), {"catalog": known}, ManualClock(), WEEK_S)
    keeper.mark_changed()
    await keeper.tick()
    fresh = BackendCatalog(database)
    assert fresh.list_calls("ear") == ()
    built_in = {entry.name: fresh.list_calls(entry.name) for entry in fresh.list_entries()}
    assert StateSaver(SavedStateFile(tmp_path, HERE), {"catalog": fresh}, ManualClock(), WEEK_S).restore() is not None
    assert fresh.list_calls("ear") == fresh.list_calls("EAR") == ("transcriptions",)
    assert built_in == {entry.name: fresh.list_calls(entry.name) for entry in fresh.list_entries()}
    await fresh.load()
    assert fresh.list_calls("ear") == (), "there is no such gallery any more"
