"""A simulated machine: frozen and ended as a whole, without holding up the others."""

from __future__ import annotations

import asyncio

from tests.simulation.chance import chance
from tests.simulation.clock import SimClock
from tests.simulation.gate import Turnstile
from tests.simulation.machine import Machine
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop


async def _tick(loop: VirtualLoop, seen: list[float]) -> None:
    while True:
        await SimClock(loop).sleep(1)
        seen.append(loop.time())


def _machine(loop: VirtualLoop, name: str) -> tuple[Machine, Turnstile]:
    turnstile = Turnstile(loop, chance(loop.seed, "turns"))
    return Machine(name, loop, turnstile), turnstile


def test_frozen_machine_takes_no_step_until_it_is_thawed(seed: int):
    async def scenario(loop: VirtualLoop) -> tuple[list[float], list[float]]:
        machine, _ = _machine(loop, "m")
        frozen: list[float] = []
        awake: list[float] = []
        machine.run(_tick(loop, frozen), name="tick")
        loop.create_task(_tick(loop, awake))
        await SimClock(loop).sleep(2.5)
        await machine.freeze()
        await SimClock(loop).sleep(10)
        machine.thaw()
        await SimClock(loop).sleep(1.2)
        return frozen, awake

    frozen, awake = simulate(seed, scenario)
    assert frozen == [1, 2, 12.5, 13.5]
    assert awake == [float(second) for second in range(1, 14)]


def test_killing_a_machine_ends_what_its_tasks_started_and_nothing_else(seed: int):
    async def scenario(loop: VirtualLoop) -> tuple[int, list[float]]:
        machine, _ = _machine(loop, "m")
        others: list[float] = []

        async def parent() -> None:
            child = asyncio.get_running_loop().create_task(_tick(loop, []))
            await asyncio.wait([child])

        machine.run(parent(), name="parent")
        loop.create_task(_tick(loop, others))
        await SimClock(loop).sleep(1.5)
        await machine.freeze()
        await machine.kill()
        await SimClock(loop).sleep(1)
        return len(loop.tasks_of("m")), others

    assert simulate(seed, scenario) == (0, [1, 2])


def test_frozen_machine_that_waits_for_its_turn_lets_the_others_pass(seed: int):
    async def scenario(loop: VirtualLoop) -> list[str]:
        machine, turnstile = _machine(loop, "m")
        order: list[str] = []

        async def enter(name: str) -> None:
            async with turnstile.turn():
                order.append(name)

        async with turnstile.turn():
            machine.run(enter("frozen"), name="enter")
            loop.create_task(enter("awake"))
            await asyncio.sleep(0)
            while len(turnstile._waiting) < 2:
                await asyncio.sleep(0)
            await machine.freeze()
        with loop.io():
            # The seed decides who runs when: everybody gets a step sooner or later, not within a number of steps.
            while not order:
                await asyncio.sleep(0)
        assert order == ["awake"]
        machine.thaw()
        while len(order) < 2:
            await asyncio.sleep(0)
        return order

    assert simulate(seed, scenario) == ["awake", "frozen"]
