"""The journal on a real disk: whole or not there, bounded, and never a reason not to start."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.bus.messages import BackendCommand, BlobPlace, FileItem, JobEvent, LoadModel, StageModel, StartBackend
from corral.worker.jobs.journal import MAX_DAMAGED, DiskJournal, JournalNotWritten
from corral.worker.jobs.record import JobKind, JobRecord, Seen, Stop
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
        "stop": Stop.PAUSE,
        "keeps_partial": True,
        "lives": 3,
    }
    return JobRecord(**(values | changes))  # type: ignore[arg-type]


async def opened(home: Path) -> DiskJournal:
    journal = DiskJournal(home)
    await journal.load()
    return journal


@pytest.mark.behaviour("JOB-8")
async def test_what_was_written_is_read_back_in_the_order_of_acceptance(tmp_path: Path):
    journal = await opened(tmp_path)
    start = StartBackend(job_id="weird/../id", backend="cpu", model="qwen", options={"ctx": "4096"}, threads=4)
    file = FileItem(path="a/b.gguf", sha256="0" * 64, size_bytes=2**40)
    place = BlobPlace(kind="node", url="http://10.0.0.1:9", ticket="t")
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
    seen = Seen(generations={"cpu": 2**62, "cuda": 1}, cancelled={"x": True})
    await journal.remember(seen)
    remembered = await DiskJournal(tmp_path).load()
    assert list(remembered.jobs) == kept
    assert remembered.seen == seen
    # Newest first to go: the order is part of it.
    assert list(remembered.seen.generations) == ["cpu", "cuda"]


@pytest.mark.behaviour("JOB-9")
@pytest.mark.parametrize("damage", [b"", b"{", b'{"kind": "upgrade"}', b"\xff\xfe", b"[]"])
async def test_a_damaged_file_is_put_aside_and_the_rest_is_kept(tmp_path: Path, damage: bytes):
    journal = await opened(tmp_path)
    await journal.save(record("whole", 1))
    await journal.save(record("damaged", 2))
    await journal.remember(Seen(generations={"cpu": 3}))
    path = journal._path("damaged")
    path.write_bytes(damage)
    (tmp_path / "journal" / "seen.json").write_bytes(b"{")
    for _ in range(2):
        remembered = await DiskJournal(tmp_path).load()
        assert [job.job_id for job in remembered.jobs] == ["whole"]
        assert remembered.seen == Seen()
    kept = tmp_path / "journal" / "damaged"
    assert sorted(each.name for each in kept.iterdir()) == sorted([path.name, "seen.json"])
    assert (kept / path.name).read_bytes() == damage


@pytest.mark.behaviour("JOB-9")
@pytest.mark.behaviour("JOB-10")
async def test_damaged_files_are_bounded_too(tmp_path: Path):
    journal = await opened(tmp_path)
    for number in range(MAX_DAMAGED + 10):
        journal._path(f"j{number}").write_bytes(b"{")
    await DiskJournal(tmp_path).load()
    assert len(list((tmp_path / "journal" / "damaged").iterdir())) == MAX_DAMAGED


@pytest.mark.behaviour("JOB-9")
async def test_a_write_that_was_cut_off_leaves_the_entry_before_it(tmp_path: Path):
    journal = await opened(tmp_path)
    await journal.save(record("j1", 1))
    path = journal._path("j1")
    path.with_name(f"{path.name}.new").write_bytes(b'{"kind": "upg')
    assert list((await DiskJournal(tmp_path).load()).jobs) == [record("j1", 1)]
    await journal.save(record("j1", 1, lives=4))
    assert [each.lives for each in (await DiskJournal(tmp_path).load()).jobs] == [4]


async def test_only_the_owner_may_look(tmp_path: Path):
    journal = await opened(tmp_path)
    await journal.save(record())
    assert journal._path("j1").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o700


@pytest.mark.behaviour("JOB-14")
async def test_a_disk_that_takes_nothing_is_told_with_the_place(tmp_path: Path):
    journal = await opened(tmp_path)
    path = journal._path("j1")
    # A folder in the way of the file: also root cannot write there.
    path.with_name(f"{path.name}.new").mkdir()
    with pytest.raises(JournalNotWritten, match="journal cannot be written") as told:
        await journal.save(record("j1"))
    assert told.value.hint
    path.with_name(f"{path.name}.new").rmdir()
    await journal.save(record("j1"))
