"""One call for each key: shared, ended with its last caller, and failing for all when it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import pytest

from corral.runtime.single_flight import ProgressListeners, SingleFlight


class StoppedError(Exception):
    """The flight was closed."""


def make_flight() -> SingleFlight[None, int]:
    return SingleFlight("test", StoppedError)


def join(flight: SingleFlight[None, int], work: Callable[[None], Awaitable[int]]) -> asyncio.Task[int]:
    waiting = flight.join("key", work, make_state=lambda: None, enter=lambda _: nullcontext())
    return asyncio.ensure_future(waiting)


async def run_pending() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_callers_with_the_same_key_share_one_call_and_its_result() -> None:
    flight, started, go_on = make_flight(), 0, asyncio.Event()

    async def work(_: None) -> int:
        nonlocal started
        started += 1
        await go_on.wait()
        return 7

    callers = [join(flight, work) for _ in range(3)]
    await run_pending()
    go_on.set()
    assert await asyncio.gather(*callers) == [7, 7, 7]
    assert started == 1
    assert not flight.has_call("key")


async def test_call_goes_on_without_one_caller_and_ends_with_the_last() -> None:
    flight, ended = make_flight(), asyncio.Event()

    async def work(_: None) -> int:
        try:
            return await asyncio.Event().wait()
        finally:
            ended.set()

    first, second = join(flight, work), join(flight, work)
    await run_pending()
    first.cancel()
    await run_pending()
    assert (first.cancelled(), ended.is_set()) == (True, False)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert ended.is_set()
    assert not flight.has_call("key")


async def test_callers_get_an_error_when_the_flight_is_closed() -> None:
    flight = make_flight()

    async def work(_: None) -> int:
        return await asyncio.Event().wait()

    caller = join(flight, work)
    await run_pending()
    await flight.close()
    with pytest.raises(StoppedError):
        await caller


async def test_progress_reaches_every_listener_until_it_leaves() -> None:
    listeners, first, second = ProgressListeners(), [], []
    with listeners.listen(lambda current, _total: first.append(current)):
        with listeners.listen(lambda current, _total: second.append(current)):
            listeners(1, None)
        listeners(2, 10)
    listeners(3, 10)
    assert (first, second) == ([1, 2], [1])
