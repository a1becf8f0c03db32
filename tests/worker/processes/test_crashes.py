"""A thousand crashes, and processes that cannot be ended: in virtual time, without a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.worker.processes.process_control import EngineStartFailed, ProcessBeingStopped, ProcessStopFailed
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop
from tests.worker.processes.pretend import PretendMachine, pretend_supervisor
from tests.worker.processes.scene import NoReport, make_command


@pytest.mark.behaviour("OPS-78")
def test_thousand_crashes_grow_nothing(tmp_path: Path):
    machine = PretendMachine()

    async def scenario(loop: VirtualLoop) -> None:
        supervisor, clock = pretend_supervisor(loop, tmp_path, machine)
        await supervisor.start()
        # It would look for output three hundred thousand times.
        await supervisor.log_copy_loop.stop()
        first = await supervisor.start_backend(make_command(), NoReport())
        for crashes in range(1, 1_001):
            machine.last.end(-11)
            while not any(one.state == "ready" for one in supervisor.list_running()):
                await clock.sleep(61)
            (process,) = supervisor.list_running()
            assert process.restarts == crashes
            assert process.address == first.address
        assert set(machine.ports) == {machine.ports[0]}
        assert supervisor._deps.ports.count_remembered() == 1
        assert len(supervisor._deps.threads.held) == 1
        assert len(supervisor._tasks) == 2
        assert len(list((tmp_path / "processes" / "running").iterdir())) == 1
        await supervisor.stop()
        assert supervisor.list_running() == ()
        assert list((tmp_path / "processes" / "running").iterdir()) == []

    simulate(0, scenario)
    assert len(machine.spawned) == 1_001


@pytest.mark.behaviour("OPS-78")
def test_start_that_is_tried_for_ever_uses_a_handful_of_ports(tmp_path: Path):
    machine = PretendMachine()

    async def scenario(loop: VirtualLoop) -> None:
        supervisor, _ = pretend_supervisor(loop, tmp_path, machine)
        object.__setattr__(supervisor._deps, "check_ready", _never)
        await supervisor.start()
        await supervisor.log_copy_loop.stop()
        for _ in range(200):
            with pytest.raises(EngineStartFailed, match="was not ready after 5 s"):
                await supervisor.start_backend(make_command(), NoReport())
            assert supervisor._deps.ports.count_running() == 0
        assert len(set(machine.ports)) <= 5
        await supervisor.stop()

    simulate(0, scenario)


async def _never(_url: str, _key: str) -> bool:
    return False


@pytest.mark.behaviour("PROC-3")
def test_restart_pauses_grow_to_a_minute_and_the_state_is_reported(tmp_path: Path):
    machine = PretendMachine()

    async def scenario(loop: VirtualLoop) -> list[int]:
        supervisor, clock = pretend_supervisor(loop, tmp_path, machine)
        await supervisor.start()
        await supervisor.start_backend(make_command(), NoReport())
        pauses = []
        for _ in range(8):
            machine.last.end(1)
            began_s, alive = clock.monotonic(), len(machine.spawned)
            while len(machine.spawned) == alive:
                await clock.sleep(0.05)
                processes = supervisor.list_running()
                assert not processes or processes[0].state in ("backing_off", "ready")
            pauses.append(round(clock.monotonic() - began_s))
            while supervisor.list_running()[0].state != "ready":
                await clock.sleep(0.05)
        await supervisor.stop()
        return pauses

    assert simulate(0, scenario) == [1, 2, 4, 8, 16, 32, 60, 60]


@pytest.mark.behaviour("PROC-3")
def test_engine_whose_backend_is_gone_is_not_started_again(tmp_path: Path):
    machine = PretendMachine()

    async def scenario(loop: VirtualLoop) -> None:
        supervisor, clock = pretend_supervisor(loop, tmp_path, machine)
        await supervisor.start()
        await supervisor.start_backend(make_command(), NoReport())
        (tmp_path / "backend").rmdir()
        machine.last.end(1)
        await clock.sleep(120)
        assert supervisor.list_running() == ()
        assert len(machine.spawned) == 1
        assert supervisor._deps.ports.count_running() == 0
        await supervisor.stop()

    simulate(0, scenario)


@pytest.mark.behaviour("OPS-75")
@pytest.mark.behaviour("OPS-81")
def test_process_that_survives_a_stop_is_reported_keeps_its_port_and_can_be_stopped_later(tmp_path: Path):
    machine = PretendMachine()

    async def scenario(loop: VirtualLoop) -> None:
        supervisor, clock = pretend_supervisor(loop, tmp_path, machine)
        await supervisor.start()
        process = await supervisor.start_backend(make_command(), NoReport())
        machine.is_immortal = True
        began_s = clock.monotonic()
        assert await supervisor.stop_backend("cpu-fake") == ((), (process.key,))
        assert clock.monotonic() - began_s <= 12.5
        began_s = clock.monotonic()
        with pytest.raises(ProcessStopFailed, match="llama#0 could not be ended"):
            await supervisor.stop_process(process.key, force=True)
        assert clock.monotonic() - began_s <= 4.5, "by force there is no grace"
        assert supervisor.list_running() == (process,)
        assert supervisor._deps.ports.count_running() == 1
        machine.is_immortal = False
        assert await supervisor.stop_backend("cpu-fake", force=True) == ((process.key,), ())
        assert supervisor._deps.ports.count_running() == 0
        assert len(machine.spawned) == 1
        await supervisor.stop()

    simulate(0, scenario)


def test_worker_stops_within_its_limit_also_with_a_survivor_whose_record_stays(tmp_path: Path):
    machine = PretendMachine()

    async def scenario(loop: VirtualLoop) -> None:
        supervisor, clock = pretend_supervisor(loop, tmp_path, machine)
        await supervisor.start()
        for model in ("a", "b", "c"):
            await supervisor.start_backend(make_command(model), NoReport())
        machine.is_immortal = True
        began_s = clock.monotonic()
        await supervisor.stop()
        assert clock.monotonic() - began_s < 15
        assert len(list((tmp_path / "processes" / "running").iterdir())) == 3

    simulate(0, scenario)


@pytest.mark.behaviour("OPS-74")
def test_engine_that_becomes_ready_while_it_is_being_stopped_is_no_success(tmp_path: Path):
    machine = PretendMachine()
    is_up = False

    async def is_ready(_url: str, _key: str) -> bool:
        return is_up

    async def scenario(loop: VirtualLoop) -> None:
        nonlocal is_up
        supervisor, clock = pretend_supervisor(loop, tmp_path, machine)
        object.__setattr__(supervisor._deps, "check_ready", is_ready)
        await supervisor.start()
        starting = loop.create_task(supervisor.start_backend(make_command(), NoReport()))
        await clock.sleep(1)
        # It does not listen to SIGTERM: there are seconds in which it could be found ready.
        machine.is_immortal = True
        stopping = loop.create_task(supervisor.stop_process("llama#0"))
        is_up = True
        await clock.sleep(3)
        assert starting.done()
        with pytest.raises(ProcessBeingStopped, match="llama#0 was stopped while it was starting"):
            await starting
        assert not stopping.done()
        machine.is_immortal = False
        assert (await stopping)[0] is True
        assert supervisor.list_running() == ()
        await supervisor.stop()

    simulate(0, scenario)


@pytest.mark.behaviour("PROC-3")
def test_failed_restart_is_reported_to_its_waiter_and_tried_again(tmp_path: Path):
    machine = PretendMachine()
    is_up = True

    async def is_ready(_url: str, _key: str) -> bool:
        return is_up

    async def scenario(loop: VirtualLoop) -> None:
        nonlocal is_up
        supervisor, clock = pretend_supervisor(loop, tmp_path, machine)
        object.__setattr__(supervisor._deps, "check_ready", is_ready)
        await supervisor.start()
        await supervisor.start_backend(make_command(), NoReport())
        is_up = False
        machine.last.end(1)
        await clock.sleep(2)
        assert [one.state for one in supervisor.list_running()] == ["starting"]
        with pytest.raises(EngineStartFailed, match="was not ready after 5 s"):
            await supervisor.start_backend(make_command(), NoReport())
        is_up = True
        await clock.sleep(10)
        assert [(one.state, one.restarts) for one in supervisor.list_running()] == [("ready", 2)]
        await supervisor.stop()

    simulate(0, scenario)
