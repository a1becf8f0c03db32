"""The one blind except: ordinary failures become values; cancellation and broken asserts do not."""

from __future__ import annotations

import asyncio

import pytest

from corral.runtime.guard import Done, Failed, attempt
from corral.runtime.signals import Signal


@pytest.mark.behaviour("RUN-10")
async def test_a_result_and_an_ordinary_failure_come_back_as_values() -> None:
    async def give() -> int:
        return 7

    async def fail() -> int:
        raise OSError("away")

    assert await attempt(give) == Done(7)
    outcome = await attempt(fail)
    assert isinstance(outcome, Failed)
    assert outcome.sentence == "away"


@pytest.mark.behaviour("RUN-10")
def test_an_error_without_words_is_named_by_its_kind() -> None:
    assert Failed(KeyError()).sentence == "KeyError"
    assert Failed(TimeoutError()).sentence == "TimeoutError"


@pytest.mark.behaviour("RUN-10")
@pytest.mark.parametrize("error", [AssertionError("a bug"), asyncio.CancelledError(), SystemExit(1)])
async def test_broken_asserts_and_cancellation_pass_through(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        await attempt(fail)


@pytest.mark.behaviour("RUN-11")
async def test_a_signal_gives_its_value_to_all_who_wait_and_to_none_who_come_later() -> None:
    signal: Signal[int] = Signal()
    signal.fire(1)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(signal.wait()) for _ in range(2)]
        await asyncio.wait(waiting, timeout=0)
        signal.fire(2)
        signal.fire(3)
    assert [task.result() for task in waiting] == [2, 2]
    with pytest.raises(TimeoutError):
        await signal.wait(timeout_s=0)


@pytest.mark.behaviour("RUN-11")
async def test_a_waiter_that_gave_up_does_not_disturb_the_signal() -> None:
    signal: Signal[int] = Signal()
    with pytest.raises(TimeoutError):
        await signal.wait(timeout_s=0)
    signal.fire(1)
