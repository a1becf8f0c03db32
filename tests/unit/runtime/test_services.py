"""Services start in order, stop in reverse, and stopping reaches every one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from corral.runtime import services as services_module
from corral.runtime.services import Services


async def _nothing() -> None:
    return


class Step:
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


@pytest.mark.behaviour("RUN-1")
async def test_services_stop_in_the_reverse_order_of_their_start(diary: list[str]) -> None:
    services = Services([Step("a", diary), Step("b", diary)])
    services.add(Step("c", diary))
    await services.start()
    await services.stop()
    await services.stop()
    assert diary == ["+a", "+b", "+c", "-c", "-b", "-a"]


@pytest.mark.behaviour("RUN-2")
async def test_a_start_that_fails_stops_what_was_started_and_starts_nothing_more(diary: list[str]) -> None:
    broken = Step("b", diary, starting=_fail(RuntimeError("no")))
    services = Services([Step("a", diary), broken, Step("c", diary)])
    with pytest.raises(RuntimeError, match="no"):
        await services.start()
    assert diary == ["+a", "+b", "-b", "-a"]


@pytest.mark.behaviour("RUN-2")
async def test_run_raises_the_error_of_a_failed_start_itself(diary: list[str]) -> None:
    services = Services([Step("a", diary), Step("b", diary, starting=_fail(RuntimeError("no")))])
    with pytest.raises(RuntimeError, match="no"):
        await services.run()
    assert diary == ["+a", "+b", "-b", "-a"]


@pytest.mark.behaviour("RUN-3")
@pytest.mark.parametrize("error", [RuntimeError("stuck"), AssertionError("broken")])
async def test_a_stop_that_fails_does_not_keep_the_others_from_stopping(diary: list[str], error: Exception) -> None:
    services = Services([Step("a", diary), Step("b", diary, stopping=_fail(error)), Step("c", diary)])
    await services.start()
    with capture_logs() as logs:
        if isinstance(error, AssertionError):
            with pytest.raises(AssertionError):
                await services.stop()
        else:
            await services.stop()
            assert [(entry["service"], entry["error"]) for entry in logs] == [("b", "stuck")]
    assert diary[3:] == ["-c", "-b", "-a"]


@pytest.mark.behaviour("RUN-3")
async def test_a_stop_that_hangs_is_left_behind_after_its_limit(
    diary: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services_module, "STOP_LIMIT_S", 0.01)
    services = Services([Step("a", diary), Step("b", diary, stopping=asyncio.Event().wait)])
    await services.start()
    with capture_logs() as logs:
        await services.stop()
    assert diary[2:] == ["-b", "-a"]
    assert [entry["service"] for entry in logs] == ["b"]


@pytest.mark.behaviour("RUN-4")
async def test_the_first_reason_to_end_wins_and_is_raised(diary: list[str]) -> None:
    services = Services([Step("a", diary)])
    running = asyncio.get_running_loop().create_task(services.run())
    services.end(RuntimeError("first"))
    services.end(RuntimeError("second"))
    with pytest.raises(RuntimeError, match="first"):
        await running


@pytest.mark.behaviour("RUN-4")
async def test_an_end_without_an_error_is_a_clean_stop(diary: list[str]) -> None:
    started = asyncio.Event()

    async def tell() -> None:
        started.set()

    services = Services([Step("a", diary), Step("b", diary, starting=tell)])
    running = asyncio.get_running_loop().create_task(services.run())
    await started.wait()
    services.end()
    await running
    assert diary == ["+a", "+b", "-b", "-a"]


@pytest.mark.behaviour("RUN-4")
async def test_an_end_during_a_long_start_stops_what_has_been_started(diary: list[str]) -> None:
    waiting = asyncio.Event()

    async def wait_for_ever() -> None:
        waiting.set()
        await asyncio.Event().wait()

    services = Services([Step("a", diary), Step("b", diary, starting=wait_for_ever), Step("c", diary)])
    running = asyncio.get_running_loop().create_task(services.run())
    await waiting.wait()
    services.end()
    await running
    assert diary == ["+a", "+b", "-b", "-a"]


@pytest.mark.behaviour("RUN-4")
async def test_a_cancelled_run_stops_everything_before_it_gives_way(diary: list[str]) -> None:
    started = asyncio.Event()

    async def tell() -> None:
        started.set()

    services = Services([Step("a", diary), Step("b", diary, starting=tell)])
    running = asyncio.get_running_loop().create_task(services.run())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert diary == ["+a", "+b", "-b", "-a"]


@pytest.mark.behaviour("GW-148")
@pytest.mark.parametrize("is_stuck", [False, True], ids=["started", "in the middle of its start"])
async def test_what_comes_before_the_stop_has_all_services_however_far_the_start_has_got(
    diary: list[str], is_stuck: bool
) -> None:
    starting = asyncio.Event().wait if is_stuck else _nothing
    services = Services([Step("a", diary), Step("b", diary, starting=starting)])

    async def leave() -> None:
        diary.append("leave")

    services.before_stop(leave)
    asyncio.get_running_loop().call_later(0.05, services.end)
    await services.run()
    assert diary == ["+a", "+b", "leave", "-b", "-a"]


@pytest.mark.behaviour("GW-148")
async def test_what_comes_before_the_stop_does_not_keep_it_and_is_left_out_after_a_fatal_error(
    diary: list[str],
) -> None:
    services = Services([Step("a", diary)])
    services.before_stop(_fail(RuntimeError("cannot leave")))
    asyncio.get_running_loop().call_soon(services.end)
    with capture_logs() as logs:
        await services.run()
    assert [line["event"] for line in logs] == ["could not end in peace"]
    broken = Services([Step("a", diary)])
    broken.before_stop(_fail(AssertionError("not asked")))
    asyncio.get_running_loop().call_soon(broken.end, ValueError("fatal"))
    with pytest.raises(ValueError, match="fatal"):
        await broken.run()
    assert diary == ["+a", "-a"] * 2
