"""Functions that run in another process: what comes back, what is refused, and what happens to the process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from corral.domain.errors import InvalidRequest, Unavailable
from corral.runtime.compute_process import ComputeOptions, ComputeProcess
from tests.support.compute import die, read_fifo, refuse, reverse, wait_for_signal
from tests.support.polling import eventually

MIB = 1024 * 1024


@asynccontextmanager
async def compute_process(options: ComputeOptions | None = None) -> AsyncIterator[ComputeProcess]:
    made = ComputeProcess(options)
    try:
        yield made
    finally:
        await made.close()


def has_ended(pid: int) -> bool:
    return not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_work_is_done_in_one_other_process_and_its_result_comes_back() -> None:
    async with compute_process() as compute:
        payload = os.urandom(3 * MIB + 1)
        results = await asyncio.gather(*(compute.run(reverse, payload[number:]) for number in range(3)))
        assert [written for _, written in results] == [payload[number:][::-1] for number in range(3)]
        assert {pid for pid, _ in results} == {compute.pid}
        assert compute.pid != os.getpid()


async def test_error_of_the_work_is_raised_as_it_was_and_the_process_goes_on() -> None:
    async with compute_process() as compute:
        with pytest.raises(InvalidRequest) as refused:
            await compute.run(refuse, b"abc")
        error = refused.value
        assert (error.message, error.hint, error.slug) == ("3 bytes are refused.", "Send others.", "refused_in_test")
        pid = compute.pid
        assert await compute.run(reverse, b"abc") == (pid, b"cba")


async def test_loop_goes_on_while_work_is_done(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    async with compute_process() as compute:
        running = asyncio.create_task(compute.run(read_fifo, os.fsencode(fifo)))
        # Opens as soon as the work reads, which it does until this is closed.
        with await asyncio.to_thread(fifo.open, "wb") as writer:
            assert not running.done()
            writer.write(b"from the loop")
        assert await running == (None, b"from the loop")


@pytest.mark.parametrize(
    ("options", "work"),
    [(ComputeOptions(), die), (ComputeOptions(timeout_s=0.5), wait_for_signal)],
    ids=["dies", "takes too long"],
)
async def test_process_that_dies_or_takes_too_long_is_replaced(options: ComputeOptions, work: object) -> None:
    async with compute_process(options) as compute:
        with pytest.raises(Unavailable) as failed:
            await compute.run(work, b"abc")  # type: ignore[arg-type]
        assert failed.value.slug == "translation_failed"
        assert compute.pid is None
    async with compute_process() as compute:
        with pytest.raises(Unavailable):
            await compute.run(die, b"abc")
        assert (await compute.run(reverse, b"abc"))[1] == b"cba"


async def test_cancelled_work_ends_with_its_process(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    async with compute_process() as compute:
        running = asyncio.create_task(compute.run(read_fifo, os.fsencode(fifo)))
        with await asyncio.to_thread(fifo.open, "wb"):
            pid = compute.pid
            assert pid is not None
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert not is_running(pid)


async def test_work_beyond_the_limit_of_bytes_is_refused_while_others_wait(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    async with compute_process(ComputeOptions(bytes_max=MIB)) as compute:
        running = asyncio.create_task(compute.run(read_fifo, os.fsencode(fifo)))
        with await asyncio.to_thread(fifo.open, "wb"):
            with pytest.raises(Unavailable) as refused:
                await compute.run(reverse, bytes(MIB))
            assert refused.value.slug == "translation_busy"
        await running
        assert (await compute.run(reverse, bytes(2 * MIB)))[1] == bytes(2 * MIB)


async def test_idle_process_ends_and_the_next_work_starts_another() -> None:
    async with compute_process(ComputeOptions(idle_s=0.0)) as compute:
        pid, _ = await compute.run(reverse, b"abc")
        await eventually(partial(asyncio.to_thread, has_ended, pid))
        assert (await compute.run(reverse, b"abc"))[0] != pid


async def test_close_ends_the_process_and_refuses_further_work() -> None:
    compute = ComputeProcess()
    pid, _ = await compute.run(reverse, b"abc")
    await compute.close()
    assert not is_running(pid)
    with pytest.raises(Unavailable):
        await compute.run(reverse, b"abc")
