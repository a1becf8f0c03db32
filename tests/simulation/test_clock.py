"""The clock and the ids of a simulated machine."""

from __future__ import annotations

from uuid import UUID

from corral.ports.runtime import Clock, IdGenerator
from tests.simulation.chance import chance
from tests.simulation.clock import START, SimClock, SimIds
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop

HOUR_S = 3600


def test_clock_that_runs_fast_sleeps_short_and_shows_more():
    async def scenario(loop: VirtualLoop) -> tuple[float, float]:
        clock: Clock = SimClock(loop, drift=0.25)
        await clock.sleep(HOUR_S)
        return loop.time(), clock.monotonic()

    assert simulate(0, scenario) == (HOUR_S / 1.25, HOUR_S)


def test_step_moves_the_wall_clock_and_not_the_monotonic_one():
    async def scenario(loop: VirtualLoop) -> None:
        clock = SimClock(loop, offset_s=7)
        clock.step(-3600)
        assert (clock.wall() - START).total_seconds() == 7 - 3600
        assert clock.monotonic() == 0

    simulate(0, scenario)


def test_ids_are_valid_grow_with_time_and_repeat_with_the_seed():
    async def scenario(loop: VirtualLoop) -> list[str]:
        clock = SimClock(loop)
        ids: IdGenerator = SimIds(chance(loop.seed, "ids"), clock)
        made = []
        for _ in range(20):
            made.append(ids.new_id())
            await clock.sleep(1)
        return [*made, ids.new_secret()]

    *made, secret = simulate(1, scenario)
    assert made == sorted(made)
    assert {UUID(each).version for each in made} == {7}
    assert len(secret) == 43
    assert simulate(1, scenario) == [*made, secret]
    assert simulate(2, scenario) != [*made, secret]
