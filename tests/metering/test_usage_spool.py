"""The spool by itself: what is counted, what stands on the disk, and what happens when the disk is full."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.adapters.system import SystemClock
from corral.domain.usage import HOUR_S, ErrorOrigin, RequestRecord, UsageBuckets, UsageSums
from corral.metering import usage_spool
from corral.metering.usage_spool import UsageSpool
from tests.metering.scene import CHAT, HOUR, KEY, answered, sums_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "usage" / "spool-1"


def _opened(folder: Path, **options: int) -> UsageSpool:
    made = UsageSpool(folder, SystemClock(), **options)
    made.open()
    return made


def _batch(made: UsageSpool) -> UsageBuckets:
    made.close_batch()
    return made.closed[-1].read_buckets()


ONE = sums_of(1)
COUNTED = {
    "an answer": (answered(), ONE),
    "a stream that its engine broke off": (answered(origin=ErrorOrigin.ENGINE), replace(ONE, errors=1)),
    "a stream that its client left": (answered(status=499, origin=ErrorOrigin.CLIENT), ONE),
    "an engine's refusal": (answered(status=400, origin=ErrorOrigin.CLIENT), replace(ONE, errors=1)),
    "an engine's failure": (answered(status=500, origin=ErrorOrigin.ENGINE), replace(ONE, errors=1)),
    "tokens counted by events": (answered(is_estimated=True), replace(ONE, estimated_tokens=5)),
    "an engine that tells no tokens": (
        answered(prompt_tokens=None, cached_tokens=None, completion_tokens=None),
        UsageSums(requests=1),
    ),
}
NOT_COUNTED = {
    "an unknown key": answered(status=401, key_id="", replica_id="", origin=ErrorOrigin.CLIENT),
    "an unknown model": answered(status=404, model="", replica_id="", origin=ErrorOrigin.CLIENT),
    "a frontend that stops, before anybody knew who asks": answered(
        status=503, key_id="", replica_id="", origin=ErrorOrigin.GATEWAY
    ),
    "a client that left the queue": answered(status=499, replica_id="", origin=ErrorOrigin.CLIENT),
    "a limit that was reached": answered(status=429, replica_id="", origin=ErrorOrigin.CLIENT),
}


@pytest.mark.parametrize(("record", "expected"), COUNTED.values(), ids=COUNTED.keys())
def test_request_that_reached_a_replica_or_failed_is_counted(
    record: RequestRecord, expected: UsageSums, folder: Path
) -> None:
    made = _opened(folder)
    made.on_requests_ended(record)
    assert usage_spool.read_file(folder / "1.lines").buckets == {CHAT: expected}
    assert _batch(made) == {CHAT: expected}


@pytest.mark.parametrize("record", NOT_COUNTED.values(), ids=NOT_COUNTED.keys())
def test_request_refused_before_a_replica_is_not_counted(record: RequestRecord, folder: Path) -> None:
    made = _opened(folder)
    made.on_requests_ended(record)
    made.close_batch()
    assert not made.closed
    assert (folder / "1.lines").read_bytes() == b""


def test_request_without_a_replica_in_time_is_counted_without_a_node(folder: Path) -> None:
    made = _opened(folder)
    made.on_requests_ended(answered(status=503, origin=ErrorOrigin.GATEWAY, replica_id="", node_name=""))
    assert _batch(made) == {(HOUR, KEY, "llama", "chat", ""): replace(ONE, errors=1)}


def test_sums_are_kept_apart_by_hour_key_model_call_and_node(folder: Path) -> None:
    made = _opened(folder)
    for change in (
        {},
        {},
        {"began_at": (HOUR + 1) * HOUR_S + 0.0},
        {"key_id": "other"},
        {"model": 'a "quoted" größe'},
        {"call": "embeddings"},
        {"node_name": "node-2"},
    ):
        made.on_requests_ended(answered(**change))
    expected = {
        CHAT: sums_of(2),
        (HOUR + 1, KEY, "llama", "chat", "node-1"): ONE,
        (HOUR, "other", "llama", "chat", "node-1"): ONE,
        (HOUR, KEY, 'a "quoted" größe', "chat", "node-1"): ONE,
        (HOUR, KEY, "llama", "embeddings", "node-1"): ONE,
        (HOUR, KEY, "llama", "chat", "node-2"): ONE,
    }
    assert usage_spool.read_file(folder / "1.lines").buckets == expected
    assert _batch(made) == expected


def test_spool_and_its_folders_are_readable_only_by_their_owner(folder: Path) -> None:
    made = _opened(folder)
    made.on_requests_ended(answered())
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder.parent, folder, *folder.iterdir())}
    assert modes == {"usage": 0o700, "spool-1": 0o700, "lock": 0o600, "1.lines": 0o600}


@pytest.mark.parametrize("kept", range(1, 40, 4))
def test_last_line_that_is_half_written_is_dropped_and_no_other(kept: int, folder: Path) -> None:
    made = _opened(folder)
    for _ in range(3):
        made.on_requests_ended(answered())
    path = folder / "1.lines"
    whole = path.read_bytes()
    third = whole.rindex(b"\n", 0, -1) + 1
    path.write_bytes(whole[: third + kept])
    assert usage_spool.read_file(path) == usage_spool.SpoolFileContent(buckets={CHAT: sums_of(2)}, damaged=0)


@pytest.mark.parametrize(
    "damage",
    [
        b"\0" * 50,
        b"[]",
        b"nothing",
        b'[494000,"k","m","chat",1,0,1,1]',
        b'[494000,"k","m","chat",1,0,1,1,1,-1]',
        b'[494000,"k","m","chat",1,0,1,1,1,true]',
        b'["494000","k","m","chat",1,0,1,1,1,1]',
        b'[494000,"k\\u0000","m","chat",1,0,1,1,1,1]',
        b'[494000,null,"m","chat",1,0,1,1,1,1]',
        b"\xff\xfe",
        b'[494000,"k","m",1,0,1,1,1,1]',
        b'[494000,"k","m","chat","node","more",1,0,1,1,1,1]',
        b'[494000,"k","m","chat",null,1,0,1,1,1,1]',
        b'[494000,"k","m","chat","%s",1,0,1,1,1,1]' % (b"n" * 256),
    ],
)
def test_unreadable_spool_line_is_counted_as_damaged_and_the_others_count(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "1.lines"
    good = usage_spool.render_line(CHAT, ONE)
    path.write_bytes(good + damage + b"\n" + good)
    assert usage_spool.read_file(path) == usage_spool.SpoolFileContent(buckets={CHAT: sums_of(2)}, damaged=1)


async def test_batch_that_is_full_is_closed_and_summed_up_on_the_disk(folder: Path) -> None:
    made = _opened(folder, file_bytes_max=1000)
    for _ in range(35):
        made.on_requests_ended(answered())
    assert len(made.closed) > 1
    for batch in made.closed:
        await made.shorten(batch)
    closed = [batch.path for batch in made.closed]
    assert [path.read_bytes().count(b"\n") for path in closed if path] == [1] * len(closed)
    assert all(batch.buckets is None for batch in made.closed)
    assert sum(batch.read_buckets()[CHAT].requests for batch in made.closed) + _batch(made)[CHAT].requests == 35


class _Disk:
    """Writing goes wrong from the given call on: with an error, or after half of what was to be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.takes_half = False
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "fsync", self.fsync)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.takes_half:
            self.takes_half, self.is_full = False, True
            return self._write(descriptor, data[: len(data) // 2])
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> _Disk:
    return _Disk(monkeypatch)


@pytest.mark.parametrize("failure", ["is_full", "takes_half"])
def test_full_disk_fails_no_request_and_usage_is_written_later(folder: Path, disk: _Disk, failure: str) -> None:
    made = _opened(folder)
    made.on_requests_ended(answered())
    setattr(disk, failure, True)
    for _ in range(3):
        made.on_requests_ended(answered())
        made.open()
    assert made.problem == os.strerror(errno.ENOSPC)
    assert usage_spool.read_file(folder / "1.lines").buckets == {CHAT: ONE}
    assert made.requests == 4
    disk.is_full = False
    made.open()
    assert not made.problem
    assert usage_spool.read_file(folder / "1.lines").buckets == {CHAT: sums_of(4)}
    made.on_requests_ended(answered())
    assert usage_spool.read_file(folder / "1.lines").buckets == {CHAT: sums_of(5)} == _batch(made)


def test_spool_warns_once_a_minute_while_the_disk_stays_full(
    folder: Path, disk: _Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[Any] = []
    monkeypatch.setattr(usage_spool.log, "warning", lambda *_, **values: warnings.append(values))
    clock = _StandingClock()
    made = UsageSpool(folder, clock)
    made.open()
    disk.is_full = True
    for _ in range(5):
        made.on_requests_ended(answered())
        made.open()
    assert len(warnings) == 1
    clock.now += usage_spool.REPORT_EVERY_S
    made.open()
    assert len(warnings) == 2


class _StandingClock(SystemClock):
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_usage_in_memory_is_bounded_and_complete_without_disk_and_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_spool, "BUCKETS_MAX", 10)
    (tmp_path / "file").write_text("in the way")
    made = _opened(tmp_path / "file" / "spool-1")
    assert made.problem is not None
    for number in range(30):
        made.on_requests_ended(answered(key_id=f"key-{number}", node_name=f"node-{number}"))
    batch = _batch(made)
    assert len(batch) == 11
    assert batch[HOUR, "", "llama", "chat", ""] == sums_of(20)
    assert sum(sums.requests for sums in batch.values()) == 30


@pytest.mark.parametrize("together", [1, 2, 7, 60])
def test_records_written_together_are_in_the_file_of_the_batch_that_counts_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """Batches are closed in the middle of the records: for their sums, and for the size of their files."""
    monkeypatch.setattr(usage_spool, "BUCKETS_MAX", 2)
    made = _opened(folder, file_bytes_max=700)
    records = [answered(key_id=f"key-{number % 7}") for number in range(60)]
    for at in range(0, len(records), together):
        made.on_requests_ended(*records[at : at + together])
    made.close_batch()
    assert len(made.closed) > 3
    assert sum(batch.requests for batch in made.closed) == len(records)
    for batch in made.closed:
        assert usage_spool.read_file(folder / f"{batch.number}.lines").buckets == batch.read_buckets()
        assert sum(sums.requests for sums in batch.read_buckets().values()) == batch.requests


def test_like_records_written_together_are_one_spool_line(folder: Path) -> None:
    made = _opened(folder)
    made.on_requests_ended(*[answered()] * 5, answered(call="embeddings"), *[answered(status=500)] * 2)
    assert (folder / "1.lines").read_bytes().count(b"\n") == 2
    batch = _batch(made)
    assert usage_spool.read_file(folder / "1.lines").buckets == batch
    assert batch[CHAT] == replace(sums_of(7), errors=2)


def test_deleted_spool_folder_is_created_again(folder: Path) -> None:
    made = _opened(folder)
    made.on_requests_ended(answered())
    shutil.rmtree(folder)
    made.close_batch()
    made.on_requests_ended(answered())
    assert made.problem == os.strerror(errno.ENOENT)
    made.open()
    assert not made.problem
    assert usage_spool.read_file(folder / "2.lines").buckets == {CHAT: ONE}
    # In memory it was all the time.
    assert made.closed[0].read_buckets() == {CHAT: ONE}


def test_spool_with_nothing_to_ship_leaves_no_folder(folder: Path) -> None:
    made = _opened(folder)
    made.close()
    assert list(folder.parent.iterdir()) == []
