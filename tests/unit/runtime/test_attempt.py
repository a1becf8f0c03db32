"""The one blind except: ordinary failures become values; cancellation and broken asserts do not."""

from __future__ import annotations

import asyncio

import pytest

from corral.runtime.attempt import AttemptFailure, AttemptSuccess, attempt
from corral.runtime.loop import ValueSignal


async def test_result_and_an_ordinary_failure_come_back_as_values() -> None:
    async def give() -> int:
        return 7

    async def fail() -> int:
        raise OSError("away")

    assert await attempt(give) == AttemptSuccess(7)
    outcome = await attempt(fail)
    assert isinstance(outcome, AttemptFailure)
    assert outcome.sentence == "away"


def test_error_without_words_is_named_by_its_kind() -> None:
    assert AttemptFailure(KeyError()).sentence == "KeyError"
    assert AttemptFailure(TimeoutError()).sentence == "TimeoutError"


@pytest.mark.parametrize("error", [AssertionError("a bug"), asyncio.CancelledError(), SystemExit(1)])
async def test_broken_asserts_and_cancellation_pass_through(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        await attempt(fail)


async def test_signal_gives_its_value_to_present_waiters_and_not_to_later_ones() -> None:
    signal: ValueSignal[int] = ValueSignal()
    signal.fire(1)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(signal.wait()) for _ in range(2)]
        await asyncio.wait(waiting, timeout=0)
        signal.fire(2)
        signal.fire(3)
    assert [task.result() for task in waiting] == [2, 2]
    with pytest.raises(TimeoutError):
        await signal.wait(timeout_s=0)


async def test_waiter_that_gave_up_does_not_disturb_the_signal() -> None:
    signal: ValueSignal[int] = ValueSignal()
    with pytest.raises(TimeoutError):
        await signal.wait(timeout_s=0)
    signal.fire(1)
