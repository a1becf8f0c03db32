"""What engines print: numbered, bounded, followed, and gone on with by the next worker."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from corral.adapters.system import SystemClock
from corral.bus.messages import ReadLog, ReadLogReply
from corral.domain.errors import NotFound
from corral.worker.processes.process_log import (
    CHUNK_BYTES,
    LogEntry,
    OutputCopier,
    OutputCopierLimits,
    ProcessLog,
    ProcessLogLimits,
    ProcessLogStore,
)
from tests.support.polling import eventually
from tests.worker.processes.scene import NoReport, Scene, ask, make_command

SMALL = ProcessLogLimits(segment_bytes=1_000, segments=3)


def line(text: str, stream: str = "stdout") -> LogEntry:
    return LogEntry(at="2030-01-01T00:00:00+00:00", stream=stream, text=text)


def tail_of(
    folder: Path, limits: OutputCopierLimits | None = None, book: ProcessLog | None = None
) -> tuple[OutputCopier, ProcessLog]:
    kept = book or ProcessLog(folder / "log", ProcessLogLimits())
    return OutputCopier(folder, kept, SystemClock(), limits), kept


def texts(book: ProcessLog, *streams: str) -> list[str]:
    found, after = [], 0
    while lines := book.read(after, 2_000):
        found += [one.text for one in lines if not streams or one.stream in streams]
        after = lines[-1].number
    return found


def test_lines_are_numbered_over_rotations_and_the_oldest_are_gone(tmp_path: Path):
    book = ProcessLog(tmp_path, SMALL)
    for number in range(1, 201):
        book.append([line(f"this is line {number}")])
    assert book.last == 200
    assert book.first > 100
    assert [one.number for one in book.read(0, 2_000)] == list(range(book.first, 201))
    assert [one.text for one in book.read(180, 3)] == [f"this is line {number}" for number in (181, 182, 183)]
    assert len(list(tmp_path.iterdir())) == 3
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3 * 1_200


def test_log_that_is_opened_again_goes_on_with_its_numbers(tmp_path: Path):
    first = ProcessLog(tmp_path, SMALL)
    first.append([line(f"{number}") for number in range(1, 101)])
    again = ProcessLog(tmp_path, SMALL)
    assert (again.first, again.last) == (first.first, 100)
    again.append([line("next")])
    assert again.read(100, 10)[0].number == 101
    assert again.read(again.first - 1, 2_000)[0].text == f"{again.first}"


def test_record_that_was_cut_off_by_a_kill_does_not_shift_the_others(tmp_path: Path):
    ProcessLog(tmp_path, SMALL).append([line("one"), line("two")])
    (path,) = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b'["2030", "std')
    again = ProcessLog(tmp_path, SMALL)
    again.append([line("three")])
    assert [(one.number, one.text) for one in again.read(0, 10)] == [(1, "one"), (2, "two"), (3, "three")]


def test_answer_is_bounded_in_lines_and_in_bytes(tmp_path: Path):
    book = ProcessLog(tmp_path, ProcessLogLimits())
    book.append([line(f"{number}") for number in range(3_000)])
    assert len(book.read(0, 10_000)) == 2_000
    assert book.read(0, -5) == ()
    book.append([line("x" * 16_000) for _ in range(100)])
    lines = book.read(3_000, 2_000)
    assert 0 < sum(len(one.text) for one in lines) <= 512 * 1024
    assert len(lines) == 32


def test_negative_number_asks_for_the_last_lines(tmp_path: Path):
    book = ProcessLog(tmp_path, ProcessLogLimits())
    book.append([line(f"{number}") for number in range(1, 1_001)])
    assert [one.number for one in book.read(-3, 100)] == [998, 999, 1_000]
    assert [one.number for one in book.read(-5_000, 1)] == [1]


def test_output_becomes_lines_whatever_bytes_it_has(tmp_path: Path):
    tail, book = tail_of(tmp_path)
    tail.begin("started")
    tail.get_path("stderr").write_bytes("grüße\r\n\x1b[31mred\x00\n\xff\n".encode("latin-1") + b"no end yet")
    tail.copy()
    assert texts(book, "stderr") == [
        "gr\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}e",
        "\x1b[31mred\x00",
        "\N{REPLACEMENT CHARACTER}",
    ]
    tail.copy(is_final=True)
    assert texts(book, "stderr")[-1] == "no end yet"
    assert not tail.copy(is_final=True)
    assert len(texts(book, "stderr")) == 4


def test_line_without_an_end_is_cut(tmp_path: Path):
    tail, book = tail_of(tmp_path)
    tail.get_path("stdout").write_bytes(b"x" * (16 * 1024 + 5) + b"\n")
    tail.copy()
    assert [len(text) for text in texts(book)] == [16 * 1024, 5]


def test_copied_output_is_truncated_while_the_engine_writes_on(tmp_path: Path):
    tail, book = tail_of(tmp_path, OutputCopierLimits(cut_bytes=1_000))
    engine = os.open(tail.get_path("stdout"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in range(500):
        os.write(engine, f"line {number}\n".encode())
        tail.copy()
    os.close(engine)
    assert tail.get_path("stdout").stat().st_size < 1_000
    assert texts(book) == [f"line {number}" for number in range(500)]


def test_next_worker_goes_on_at_the_byte_where_the_last_one_stopped(tmp_path: Path):
    tail, book = tail_of(tmp_path)
    tail.begin("started")
    path = tail.get_path("stdout")
    path.write_bytes(b"one\ntwo\nthr")
    tail.copy()
    with path.open("ab") as file:
        file.write(b"ee\nfour\n")
    later, again = tail_of(tmp_path, book=ProcessLog(tmp_path / "log", ProcessLogLimits()))
    later.copy()
    assert texts(again, "stdout") == ["one", "two", "three", "four"]
    del book


def test_new_process_begins_a_new_file_and_goes_on_in_the_log(tmp_path: Path):
    tail, book = tail_of(tmp_path)
    tail.get_path("stdout").write_bytes(b"a long line of the first process\n")
    tail.copy()
    tail.begin("started again")
    tail.get_path("stdout").write_bytes(b"of the second process, and longer than the first\n")
    later, again = tail_of(tmp_path, book=ProcessLog(tmp_path / "log", ProcessLogLimits()))
    later.copy()
    assert texts(again)[-2:] == ["started again", "of the second process, and longer than the first"]
    del book


def test_engine_that_prints_faster_than_it_is_read_loses_the_oldest_lines_with_a_note(tmp_path: Path):
    tail, book = tail_of(tmp_path, OutputCopierLimits(cut_bytes=10_000, backlog_bytes=2 * CHUNK_BYTES))
    tail.get_path("stdout").write_bytes(b"0123456789abcde\n" * (CHUNK_BYTES // 4))
    while tail.copy():
        pass
    found = texts(book)
    assert (
        found[0]
        == f"{4 * CHUNK_BYTES - 10_000} bytes of stdout were dropped: they were printed faster than they could be read"
    )
    assert len(found) == 1 + 10_000 // 16
    assert tail.get_path("stdout").stat().st_size == 0


async def test_following_waits_for_the_next_line_and_no_longer_than_five_seconds(tmp_path: Path):
    shelf = ProcessLogStore(tmp_path, ProcessLogLimits(wait_s=0.05))
    book = shelf.open_log("llama#0", in_use=frozenset())
    book.append([line("one")])
    nothing = await shelf.read_log(ReadLog(key="llama#0", after=1, wait_s=3_600))
    assert nothing == ReadLogReply(lines=(), first=1, next=1)

    patient = ProcessLogStore(tmp_path, ProcessLogLimits())
    book = patient.open_log("llama#0", in_use=frozenset())
    async with asyncio.TaskGroup() as group:
        following = group.create_task(patient.read_log(ReadLog(key="llama#0", after=1, wait_s=5)))
        await asyncio.sleep(0)
        assert not following.done()
        book.append([line("two")])
    assert [one.text for one in following.result().lines] == ["two"]
    assert following.result().next == 2


async def test_reader_with_a_position_of_another_log_starts_over(tmp_path: Path):
    shelf = ProcessLogStore(tmp_path, ProcessLogLimits())
    shelf.open_log("llama#0", in_use=frozenset()).append([line("one")])
    assert (await shelf.read_log(ReadLog(key="llama#0", after=900))).next == 1
    with pytest.raises(NotFound, match="no log of 'other#0'"):
        await shelf.read_log(ReadLog(key="other#0"))


async def test_logs_of_ended_processes_are_kept_up_to_a_number(tmp_path: Path):
    shelf = ProcessLogStore(tmp_path, ProcessLogLimits(keys=3))
    for number in range(6):
        shelf.open_log(f"m{number}#0", in_use=frozenset({"m0#0"})).append([line("x")])
    assert (await shelf.read_log(ReadLog())).keys == ("m0#0", "m4#0", "m5#0")
    assert len(list(tmp_path.iterdir())) == 3


async def test_output_of_an_engine_can_be_read_while_it_runs_and_after_it_has_ended(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    process = await supervisor.start_backend(make_command(say="2"), NoReport())
    await ask(process, "/print?lines=3")

    async def all_logged() -> bool:
        found = await supervisor.read_log(ReadLog(key=process.key))
        return [one.text for one in found.lines if one.stream == "stdout"] == ["line 0 ", "line 1 ", "line 2 "]

    await eventually(all_logged)
    await supervisor.stop_process(process.key)
    found = await supervisor.read_log(ReadLog(key=process.key))
    assert [one.number for one in found.lines] == list(range(1, 8))
    assert [one.stream for one in found.lines].count("stderr") == 2
    assert found.lines[-1].text == "ended with exit code 0"
    assert (await supervisor.read_log(ReadLog())).keys == (process.key,)
