"""Services start in order, stop in reverse, and stopping reaches every one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from corral.runtime import services as services_module
from corral.runtime.services import ServiceGroup


async def _nothing() -> None:
    return


class RecordedService:
    def __init__(
        self,
        name: str,
        diary: list[str],
        *,
        starting: Callable[[], Awaitable[object]] = _nothing,
        stopping: Callable[[], Awaitable[object]] = _nothing,
    ) -> None:
        self.name = name
        self._diary = diary
        self._starting = starting
        self._stopping = stopping

    async def start(self) -> None:
        self._diary.append(f"+{self.name}")
        await self._starting()

    async def stop(self) -> None:
        self._diary.append(f"-{self.name}")
        await self._stopping()


def _fail(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        raise error

    return fail


@pytest.fixture
def diary() -> list[str]:
    return []


async def test_services_stop_in_the_reverse_order_of_their_start(diary: list[str]) -> None:
    services = ServiceGroup([RecordedService("a", diary), RecordedService("b", diary)])
    services.add(RecordedService("c", diary))
    await services.start()
    await services.stop()
    await services.stop()
    assert diary == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_start_that_fails_stops_what_was_started_and_starts_nothing_more(diary: list[str]) -> None:
    broken = RecordedService("b", diary, starting=_fail(RuntimeError("no")))
    services = ServiceGroup([RecordedService("a", diary), broken, RecordedService("c", diary)])
    with pytest.raises(RuntimeError, match="no"):
        await services.start()
    assert diary == ["+a", "+b", "-b", "-a"]


async def test_run_raises_the_error_of_a_failed_start_itself(diary: list[str]) -> None:
    services = ServiceGroup(
        [RecordedService("a", diary), RecordedService("b", diary, starting=_fail(RuntimeError("no")))]
    )
    with pytest.raises(RuntimeError, match="no"):
        await services.run()
    assert diary == ["+a", "+b", "-b", "-a"]


@pytest.mark.parametrize("error", [RuntimeError("stuck"), AssertionError("broken")])
async def test_stop_that_fails_does_not_keep_the_others_from_stopping(diary: list[str], error: Exception) -> None:
    services = ServiceGroup(
        [RecordedService("a", diary), RecordedService("b", diary, stopping=_fail(error)), RecordedService("c", diary)]
    )
    await services.start()
    with capture_logs() as logs:
        if isinstance(error, AssertionError):
            with pytest.raises(AssertionError):
                await services.stop()
        else:
            await services.stop()
            assert [(entry["service"], entry["error"]) for entry in logs] == [("b", "stuck")]
    assert diary[3:] == ["-c", "-b", "-a"]


async def test_stop_that_hangs_is_left_behind_after_its_limit(
    diary: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services_module, "STOP_LIMIT_S", 0.01)
    services = ServiceGroup([RecordedService("a", diary), RecordedService("b", diary, stopping=asyncio.Event().wait)])
    await services.start()
    with capture_logs() as logs:
        await services.stop()
    assert diary[2:] == ["-b", "-a"]
    assert [entry["service"] for entry in logs] == ["b"]


async def test_first_reason_to_end_wins_and_is_raised(diary: list[str]) -> None:
    services = ServiceGroup([RecordedService("a", diary)])
    running = asyncio.get_running_loop().create_task(services.run())
    services.request_stop(RuntimeError("first"))
    services.request_stop(RuntimeError("second"))
    with pytest.raises(RuntimeError, match="first"):
        await running


async def test_end_without_an_error_is_a_clean_stop(diary: list[str]) -> None:
    started = asyncio.Event()

    async def tell() -> None:
        started.set()

    services = ServiceGroup([RecordedService("a", diary), RecordedService("b", diary, starting=tell)])
    running = asyncio.get_running_loop().create_task(services.run())
    await started.wait()
    services.request_stop()
    await running
    assert diary == ["+a", "+b", "-b", "-a"]


async def test_end_during_a_long_start_stops_what_has_been_started(diary: list[str]) -> None:
    waiting = asyncio.Event()

    async def wait_for_ever() -> None:
        waiting.set()
        await asyncio.Event().wait()

    services = ServiceGroup(
        [RecordedService("a", diary), RecordedService("b", diary, starting=wait_for_ever), RecordedService("c", diary)]
    )
    running = asyncio.get_running_loop().create_task(services.run())
    await waiting.wait()
    services.request_stop()
    await running
    assert diary == ["+a", "+b", "-b", "-a"]


async def test_cancelled_run_stops_everything_before_it_gives_way(diary: list[str]) -> None:
    started = asyncio.Event()

    async def tell() -> None:
        started.set()

    services = ServiceGroup([RecordedService("a", diary), RecordedService("b", diary, starting=tell)])
    running = asyncio.get_running_loop().create_task(services.run())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert diary == ["+a", "+b", "-b", "-a"]


@pytest.mark.behaviour("GW-148")
@pytest.mark.parametrize("is_stuck", [False, True], ids=["started", "in the middle of its start"])
async def test_before_stop_callback_runs_with_all_services_even_during_the_start(
    diary: list[str], is_stuck: bool
) -> None:
    starting = asyncio.Event().wait if is_stuck else _nothing
    services = ServiceGroup([RecordedService("a", diary), RecordedService("b", diary, starting=starting)])

    async def leave() -> None:
        diary.append("leave")

    services.set_before_stop(leave)
    asyncio.get_running_loop().call_later(0.05, services.request_stop)
    await services.run()
    assert diary == ["+a", "+b", "leave", "-b", "-a"]


@pytest.mark.behaviour("GW-148")
async def test_failing_before_stop_callback_does_not_block_the_stop(
    diary: list[str],
) -> None:
    services = ServiceGroup([RecordedService("a", diary)])
    services.set_before_stop(_fail(RuntimeError("cannot leave")))
    asyncio.get_running_loop().call_soon(services.request_stop)
    with capture_logs() as logs:
        await services.run()
    assert [line["event"] for line in logs] == ["preparation for the stop failed"]
    broken = ServiceGroup([RecordedService("a", diary)])
    broken.set_before_stop(_fail(AssertionError("not called")))
    asyncio.get_running_loop().call_soon(broken.request_stop, ValueError("fatal"))
    with pytest.raises(ValueError, match="fatal"):
        await broken.run()
    assert diary == ["+a", "-a"] * 2
