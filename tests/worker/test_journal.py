"""The journal on a real disk: whole or not there, bounded, and never a reason not to start."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.bus.messages import BackendCommand, BlobSource, JobEvent, LoadModel, ModelFileItem, StageModel, StartBackend
from corral.worker.jobs.journal import (
    MAX_DAMAGED,
    CommandFence,
    DiskJobJournal,
    JobKind,
    JobRecord,
    JobStopReason,
    JournalNotWritten,
)
from tests.worker.pretend_work import wire_build


def record(job_id: str = "j1", number: int = 1, **changes: object) -> JobRecord:
    command = BackendCommand(job_id=job_id, generation=7, backend="llama-cpp", build=wire_build(), force=True)
    values: dict[str, object] = {
        "kind": JobKind.UPGRADE,
        "command": command,
        "backend": "cpu-llama-cpp",
        "event": JobEvent(job_id=job_id, seq=12, state="running", stopped=("qwen#0",), result={"version": "1"}),
        "reserved_seq": 1012,
        "number": number,
        "stop": JobStopReason.PAUSE,
        "keeps_partial": True,
        "lives": 3,
    }
    return JobRecord(**(values | changes))  # type: ignore[arg-type]


async def opened(home: Path) -> DiskJobJournal:
    journal = DiskJobJournal(home)
    await journal.load()
    return journal


async def test_journal_returns_jobs_in_the_order_of_acceptance(tmp_path: Path):
    journal = await opened(tmp_path)
    start = StartBackend(job_id="weird/../id", backend="cpu", model="qwen", options={"ctx": "4096"}, threads=4)
    file = ModelFileItem(path="a/b.gguf", sha256="0" * 64, size_bytes=2**40)
    place = BlobSource(kind="node", url="http://10.0.0.1:9", ticket="t")
    load = LoadModel(job_id="l", model="m", replica=0, revision="r", backend="b", files=(file,), places=(place,))
    bare = LoadModel(job_id="k", model="m", replica=0, revision="r", backend="b")
    stage = StageModel(job_id="s", model="m", revision="r", files=(file,))
    kept = [
        record("b", 1),
        record("a", 2, stop=None),
        record("weird/../id", 3, kind=JobKind.START, command=start),
        record("l", 4, kind=JobKind.LOAD, command=load),
        record("k", 5, kind=JobKind.LOAD, command=bare),
        record("s", 6, kind=JobKind.STAGE, command=stage),
    ]
    for each in reversed(kept):
        await journal.save(each)
    await journal.save(record("gone", 7))
    await journal.forget("gone")
    await journal.forget("never there")
    seen = CommandFence(generations={"cpu": 2**62, "cuda": 1}, cancelled={"x": True})
    await journal.save_fence(seen)
    remembered = await DiskJobJournal(tmp_path).load()
    assert list(remembered.jobs) == kept
    assert remembered.fence == seen
    # Newest first to go: the order is part of it.
    assert list(remembered.fence.generations) == ["cpu", "cuda"]


@pytest.mark.parametrize("damage", [b"", b"{", b'{"kind": "upgrade"}', b"\xff\xfe", b"[]"])
async def test_damaged_file_is_put_aside_and_the_rest_is_kept(tmp_path: Path, damage: bytes):
    journal = await opened(tmp_path)
    await journal.save(record("whole", 1))
    await journal.save(record("damaged", 2))
    await journal.save_fence(CommandFence(generations={"cpu": 3}))
    path = journal._make_path("damaged")
    path.write_bytes(damage)
    (tmp_path / "journal" / "seen.json").write_bytes(b"{")
    for _ in range(2):
        remembered = await DiskJobJournal(tmp_path).load()
        assert [job.job_id for job in remembered.jobs] == ["whole"]
        assert remembered.fence == CommandFence()
    kept = tmp_path / "journal" / "damaged"
    assert sorted(each.name for each in kept.iterdir()) == sorted([path.name, "seen.json"])
    assert (kept / path.name).read_bytes() == damage


async def test_damaged_files_are_bounded_too(tmp_path: Path):
    journal = await opened(tmp_path)
    for number in range(MAX_DAMAGED + 10):
        journal._make_path(f"j{number}").write_bytes(b"{")
    await DiskJobJournal(tmp_path).load()
    assert len(list((tmp_path / "journal" / "damaged").iterdir())) == MAX_DAMAGED


async def test_write_that_was_cut_off_leaves_the_entry_before_it(tmp_path: Path):
    journal = await opened(tmp_path)
    await journal.save(record("j1", 1))
    path = journal._make_path("j1")
    path.with_name(f"{path.name}.new").write_bytes(b'{"kind": "upg')
    assert list((await DiskJobJournal(tmp_path).load()).jobs) == [record("j1", 1)]
    await journal.save(record("j1", 1, lives=4))
    assert [each.lives for each in (await DiskJobJournal(tmp_path).load()).jobs] == [4]


async def test_journal_is_readable_only_by_its_owner(tmp_path: Path):
    journal = await opened(tmp_path)
    await journal.save(record())
    assert journal._make_path("j1").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o700


async def test_journal_write_failure_is_reported_with_the_path(tmp_path: Path):
    journal = await opened(tmp_path)
    path = journal._make_path("j1")
    # A folder in the way of the file: also root cannot write there.
    path.with_name(f"{path.name}.new").mkdir()
    with pytest.raises(JournalNotWritten, match="journal cannot be written") as caught:
        await journal.save(record("j1"))
    assert caught.value.hint
    path.with_name(f"{path.name}.new").rmdir()
    await journal.save(record("j1"))
