"""Engines that are ready and do not respond: reported, never ended for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from corral.worker.processes.engine_health import SAMPLE_S
from corral.worker.processes.process_control import ProcessUsage
from corral.worker.processes.supervisor import EngineSupervisor
from tests.simulation.clock import SimClock
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop
from tests.support.polling import eventually
from tests.worker.processes.pretend import PretendMachine, pretend_supervisor
from tests.worker.processes.scene import NoReport, Scene, make_command

Story = Callable[[EngineSupervisor, SimClock, dict[str, bool]], Awaitable[None]]


def play(root: Path, machine: PretendMachine, story: Story) -> None:
    """An engine that is ready; `world["answers"]` says whether it answers."""
    world = {"answers": True}

    async def is_ready(_url: str, _key: str) -> bool:
        return world["answers"]

    async def scenario(loop: VirtualLoop) -> None:
        supervisor, clock = pretend_supervisor(loop, root, machine)
        object.__setattr__(supervisor._deps, "check_ready", is_ready)
        await supervisor.start()
        await supervisor.log_copy_loop.stop()
        await supervisor.start_backend(make_command(), NoReport())
        await story(supervisor, clock, world)
        await supervisor.stop()

    simulate(0, scenario)


def state_of(supervisor: EngineSupervisor) -> str:
    (process,) = supervisor.list_running()
    return process.state


def test_idle_engine_that_is_silent_three_times_is_reported_unhealthy_and_left_running(tmp_path: Path):
    machine = PretendMachine()

    async def story(supervisor: EngineSupervisor, clock: SimClock, world: dict[str, bool]) -> None:
        states: list[str] = []
        supervisor.on_change = lambda: states.append(state_of(supervisor))
        world["answers"] = False
        await clock.sleep(20)
        assert state_of(supervisor) == "ready", "twice is not enough"
        await clock.sleep(30)
        assert state_of(supervisor) == "unhealthy"
        assert states == ["unhealthy"]
        await clock.sleep(24 * 3600)
        assert state_of(supervisor) == "unhealthy"
        world["answers"] = True
        await clock.sleep(15)
        assert states == ["unhealthy", "ready"]
        assert len(machine.spawned) == 1
        assert machine.last.is_alive()
        supervisor.on_change = lambda: None

    play(tmp_path, machine, story)


@pytest.mark.behaviour("NODE-116")
def test_engine_that_works_is_well_however_long_it_is_silent(tmp_path: Path):
    machine = PretendMachine()
    machine.cpu_step_s = 0.9

    async def story(supervisor: EngineSupervisor, clock: SimClock, world: dict[str, bool]) -> None:
        world["answers"] = False
        for _ in range(60):
            await clock.sleep(60)
            assert state_of(supervisor) == "ready"
        # It has become idle and is still silent.
        machine.cpu_step_s = 0.0
        await clock.sleep(60)
        assert state_of(supervisor) == "unhealthy"

    play(tmp_path, machine, story)


def test_silences_count_in_a_row_and_not_for_the_next_process(tmp_path: Path):
    machine = PretendMachine()

    async def story(supervisor: EngineSupervisor, clock: SimClock, world: dict[str, bool]) -> None:
        for _ in range(10):
            world["answers"] = False
            await clock.sleep(15)
            world["answers"] = True
            await clock.sleep(15)
            assert state_of(supervisor) == "ready"
        world["answers"] = False
        await clock.sleep(60)
        assert state_of(supervisor) == "unhealthy"
        world["answers"] = True
        machine.last.end(1)
        await clock.sleep(5)
        assert state_of(supervisor) == "ready"

    play(tmp_path, machine, story)


async def test_suspended_real_engine_is_reported_unhealthy_and_recovers(scene: Scene):
    scene.install()
    supervisor = await scene.start(watch_s=0.1, watch_misses=2)
    process = await supervisor.start_backend(make_command(), NoReport())
    halted = psutil.Process(process.pid)
    halted.suspend()

    async def state(expected: str) -> bool:
        return [one.state for one in supervisor.list_running()] == [expected]

    try:
        await eventually(lambda: state("unhealthy"))
    finally:
        halted.resume()
    await eventually(lambda: state("ready"))
    assert supervisor.list_running()[0].pid == process.pid


def test_engine_that_uses_half_a_processor_is_measured_at_fifty_percent(tmp_path: Path):
    machine = PretendMachine()

    async def story(supervisor: EngineSupervisor, clock: SimClock, world: dict[str, bool]) -> None:
        machine.cpu_step_s = SAMPLE_S / 2
        machine.measured = ProcessUsage(ram_bytes=1000, vram_bytes=2000)
        (process,) = await supervisor.measure_running()
        assert (process.cpu_percent, process.ram_bytes, process.vram_bytes) == (50.0, 1000, 2000)

    play(tmp_path, machine, story)
