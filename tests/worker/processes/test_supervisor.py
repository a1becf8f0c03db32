"""Engines as real processes: one a key, ready or failed with a reason, and gone when they are stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.domain.backend import ReadyProbe
from corral.domain.errors import Conflict, InvalidRequest, NotFound
from corral.runtime.processes import RestartBackoff
from corral.worker.job_ports import ProcessSupervisor
from corral.worker.processes.port_pool import PortPool
from corral.worker.processes.process_control import AddressMismatch, EngineStartFailed, ProcessBeingStopped
from tests.support.polling import eventually
from tests.support.ports import find_free_port
from tests.worker.processes.scene import NoReport, Scene, ask, crash, make_command


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def kill(pid: int) -> None:
    psutil.Process(pid).kill()

    async def is_dead() -> bool:
        return not is_alive(pid)

    await eventually(is_dead)


async def test_engine_is_ready_when_the_start_returns_and_is_found_by_its_key(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    processes: ProcessSupervisor = supervisor
    report = NoReport()
    process = await processes.start_backend(make_command("org/llama#3", replica=2), report)
    assert process.key == "org/llama#3#2"
    assert (process.model, process.replica, process.backend) == ("org/llama#3", 2, "cpu-fake")
    assert report.last == "loading"
    assert await ask(process)
    assert processes.list_running() == (process,)


async def test_engine_is_measured_with_its_memory_and_cpu_on_request(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    process = await supervisor.start_backend(make_command(), NoReport())
    (measured,) = await supervisor.measure_running()
    assert (measured.key, measured.pid) == (process.key, process.pid)
    assert measured.ram_bytes is not None
    assert measured.ram_bytes >= psutil.Process(process.pid).memory_info().rss // 2
    assert measured.cpu_percent is not None
    assert measured.cpu_percent >= 0.0
    assert supervisor.list_running()[0].cpu_percent is None, "only who asks for it waits for it"


async def test_starting_it_again_and_at_the_same_time_gives_the_one_process(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    async with asyncio.TaskGroup() as group:
        starts = [group.create_task(supervisor.start_backend(make_command(), NoReport())) for _ in range(5)]
    again = await supervisor.start_backend(make_command(), NoReport())
    assert {start.result().pid for start in starts} == {again.pid}


async def test_changed_model_settings_start_a_new_process_on_the_key(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    first = await supervisor.start_backend(make_command(context="1024"), NoReport())
    second = await supervisor.start_backend(make_command(context="2048"), NoReport())
    assert not is_alive(first.pid)
    assert "--context=2048" in (await ask(second))["arguments"]
    assert supervisor.list_running() == (second,)


async def test_backend_that_is_not_installed_is_named(scene: Scene):
    supervisor = await scene.start()
    with pytest.raises(NotFound, match="cpu-fake is not installed") as caught:
        await supervisor.start_backend(make_command(), NoReport())
    assert caught.value.slug == "not_installed"


@pytest.mark.behaviour("OPS-71")
async def test_process_that_died_is_not_given_as_running_and_its_port_comes_back(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    first = await supervisor.start_backend(make_command(), NoReport())
    await kill(first.pid)
    assert first not in supervisor.list_running()
    second = await supervisor.start_backend(make_command(), NoReport())
    assert second.pid != first.pid
    assert await ask(second)
    assert supervisor._deps.ports.count_running() == 1


@pytest.mark.behaviour("OPS-72")
@pytest.mark.parametrize("is_reinstalled", [True, False])
async def test_process_of_a_folder_that_was_replaced_or_removed_is_not_used_again(scene: Scene, is_reinstalled: bool):
    scene.install()
    supervisor = await scene.start()
    first = await supervisor.start_backend(make_command(), NoReport())
    if is_reinstalled:
        scene.install()
        second = await supervisor.start_backend(make_command(), NoReport())
        assert second.pid != first.pid
    else:
        scene.remove()
        with pytest.raises(NotFound):
            await supervisor.start_backend(make_command(), NoReport())
    assert not is_alive(first.pid)


@pytest.mark.behaviour("OPS-73")
async def test_early_death_tells_the_exit_code_and_the_last_lines_and_gives_the_port_back_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    scene.install()
    supervisor = await scene.start()
    released: list[int] = []
    release = PortPool.release

    def counted(pool: PortPool, owner: str, port: int, now_s: float) -> None:
        released.append(port)
        release(pool, owner, port, now_s)

    monkeypatch.setattr(PortPool, "release", counted)
    with pytest.raises(EngineStartFailed) as caught:
        await supervisor.start_backend(make_command(say="30", fail="3"), NoReport())
    text = caught.value.message
    assert "llama#0 ended with exit code 3 before it was ready." in text
    assert "trouble 29" in text
    assert "trouble 10" in text
    assert "trouble 9\n" not in text
    assert supervisor.list_running() == ()
    assert len(released) == 1
    assert supervisor._deps.ports.count_running() == 0


@pytest.mark.behaviour("OPS-73")
async def test_engine_that_is_not_ready_in_time_is_ended_and_its_output_is_reported(scene: Scene):
    scene.install(ready=ReadyProbe(timeout_s=0.5))
    supervisor = await scene.start()
    with pytest.raises(EngineStartFailed, match=r"was not ready after 0.5 s.\n    trouble 0"):
        await supervisor.start_backend(make_command(say="1", never_ready="yes"), NoReport())
    assert await scene.leftovers() == frozenset()
    assert supervisor._deps.ports.count_running() == 0


@pytest.mark.behaviour("OPS-73")
async def test_command_that_does_not_exist_is_named(scene: Scene):
    scene.install(command=("/nowhere/engine",))
    supervisor = await scene.start()
    with pytest.raises(EngineStartFailed, match="No such file or directory: /nowhere/engine"):
        await supervisor.start_backend(make_command(), NoReport())
    assert supervisor._deps.ports.count_running() == 0


@pytest.mark.behaviour("OPS-74")
async def test_stop_during_the_start_never_gives_a_success(scene: Scene, tmp_path: Path):
    scene.install()
    supervisor = await scene.start()
    gate = tmp_path / "ready"
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(_outcome(supervisor.start_backend(make_command(ready_when=str(gate)), NoReport())))

        async def spawned() -> bool:
            return bool(supervisor.list_running())

        await eventually(spawned)
        pid = supervisor.list_running()[0].pid
        stopping = group.create_task(supervisor.stop_process("llama#0"))
        gate.touch()
    assert isinstance(starting.result(), ProcessBeingStopped)
    assert stopping.result()[0] is True
    assert not is_alive(pid)
    assert supervisor.list_running() == ()


@pytest.mark.behaviour("OPS-74")
async def test_start_that_is_cancelled_leaves_no_process(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    starting = asyncio.ensure_future(supervisor.start_backend(make_command(never_ready="yes"), NoReport()))

    async def spawned() -> bool:
        return bool(supervisor.list_running())

    await eventually(spawned)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    async def nothing_left() -> bool:
        return not await scene.leftovers() and not supervisor.list_running()

    await eventually(nothing_left)


@pytest.mark.behaviour("OPS-75")
async def test_stop_ends_an_engine_that_does_not_listen_to_it(scene: Scene):
    scene.install()
    supervisor = await scene.start(grace_s=0.3)
    process = await supervisor.start_backend(make_command(ignore_term="yes"), NoReport())
    assert await supervisor.stop_process("llama#0") == (True, process.address)
    assert not is_alive(process.pid)
    assert supervisor._deps.ports.count_running() == 0


@pytest.mark.parametrize("kind", ["fork", "fork_away", "fork_clean"])
@pytest.mark.parametrize("is_crash", [True, False])
async def test_children_of_an_engine_end_with_it(scene: Scene, kind: str, is_crash: bool):
    scene.install()
    supervisor = await scene.start()
    process = await supervisor.start_backend(replace(make_command(), options={kind: "yes"}), NoReport())
    (child,) = (await ask(process))["children"]
    assert is_alive(child)
    if is_crash:
        await crash(process)

        async def is_gone() -> bool:
            return not is_alive(child)

        await eventually(is_gone)
    else:
        await supervisor.stop_process("llama#0")
        assert not is_alive(child)


@pytest.mark.behaviour("OPS-76")
async def test_exact_stop_leaves_another_address_alone_and_knows_no_missing_keys(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    process = await supervisor.start_backend(make_command(), NoReport())
    with pytest.raises(AddressMismatch, match=process.address):
        await supervisor.stop_process("llama#0", expected_address="10.0.0.9:1")
    assert is_alive(process.pid)
    assert await supervisor.stop_process("llama#1") == (False, "")
    assert await supervisor.stop_process("llama#0", expected_address=process.address) == (True, process.address)
    assert not is_alive(process.pid)
    assert await supervisor.stop_process("llama#0") == (False, "")
    with pytest.raises(InvalidRequest):
        await supervisor.stop_process("llama")


@pytest.mark.behaviour("OPS-76")
async def test_second_exact_stop_is_refused_while_the_first_is_under_way(scene: Scene):
    scene.install()
    supervisor = await scene.start(grace_s=0.5)
    await supervisor.start_backend(make_command(ignore_term="yes"), NoReport())
    async with asyncio.TaskGroup() as group:
        first = group.create_task(_outcome(supervisor.stop_process("llama#0")))
        second = group.create_task(_outcome(supervisor.stop_process("llama#0")))
    assert {type(first.result()), type(second.result())} == {tuple, ProcessBeingStopped}


@pytest.mark.behaviour("OPS-81")
async def test_ending_a_backend_ends_its_processes_and_none_of_a_sibling(scene: Scene):
    scene.install("cpu-fake")
    scene.install("cuda-fake")
    supervisor = await scene.start()
    await supervisor.start_backend(make_command("a"), NoReport())
    await supervisor.start_backend(make_command("a", replica=1), NoReport())
    other = await supervisor.start_backend(make_command("b", backend="cuda-fake"), NoReport())
    assert await supervisor.stop_backend("fake") == ((), ())
    assert await supervisor.stop_backend("cpu-fake") == (("a#0", "a#1"), ())
    assert supervisor.list_running() == (other,)
    assert await supervisor.stop_backend(None) == (("b#0",), ())


@pytest.mark.behaviour("OPS-83")
async def test_dead_and_stopping_processes_are_not_listed_as_running(scene: Scene):
    scene.install()
    supervisor = await scene.start(grace_s=0.5, restart_backoff=RestartBackoff(first_s=3_600))
    slow = await supervisor.start_backend(make_command("slow", ignore_term="yes"), NoReport())
    dead = await supervisor.start_backend(make_command("dead"), NoReport())
    await kill(dead.pid)
    assert [one for one in supervisor.list_running() if one.state != "backing_off"] == [slow]
    async with asyncio.TaskGroup() as group:
        group.create_task(supervisor.stop_process("slow#0"))
        await asyncio.sleep(0)
        assert is_alive(slow.pid)
        assert [one for one in supervisor.list_running() if one.pid] == []


@pytest.mark.behaviour("PROC-3")
async def test_engine_that_crashes_is_started_again_on_its_port(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    process = await supervisor.start_backend(make_command(), NoReport())
    await crash(process)

    async def backs_off() -> bool:
        return [one.state for one in supervisor.list_running()] == ["backing_off"]

    await eventually(backs_off)

    async def is_back() -> bool:
        return [one.state for one in supervisor.list_running()] == ["ready"]

    await eventually(is_back)
    (again,) = supervisor.list_running()
    assert again.restarts == 1
    assert again.address == process.address
    assert again.pid != process.pid


@pytest.mark.behaviour("OPS-78")
async def test_repeated_crashes_leave_one_process_on_one_port(scene: Scene):
    scene.install()
    supervisor = await scene.start(restart_backoff=RestartBackoff(first_s=0.01, ceiling_s=0.01))
    process = await supervisor.start_backend(make_command(fork="yes"), NoReport())
    for crashes in range(1, 5):
        await crash(process)

        async def is_back(restarts: int = crashes) -> bool:
            return [(one.state, one.restarts) for one in supervisor.list_running()] == [("ready", restarts)]

        await eventually(is_back)
    (last,) = supervisor.list_running()
    assert last.address == process.address
    assert len(await scene.leftovers()) == 1
    assert supervisor._deps.ports.count_remembered() == 1


@pytest.mark.behaviour("PROC-3")
async def test_stop_during_the_pause_after_a_crash_ends_it(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    process = await supervisor.start_backend(make_command(), NoReport())
    await crash(process)

    async def backs_off() -> bool:
        return [one.state for one in supervisor.list_running()] == ["backing_off"]

    await eventually(backs_off)
    assert await supervisor.stop_backend("cpu-fake") == (("llama#0",), ())
    assert supervisor.list_running() == ()
    assert supervisor._deps.ports.count_running() == 0


@pytest.mark.behaviour("PROC-4")
async def test_engine_sees_nothing_of_the_workers_secrets(scene: Scene):
    scene.install(environment={"MODEL_NAME": "{name}"})
    around = {"PATH": "/usr/bin:/bin", "CORRAL_NATS_URL": "nats://u:s3cret@h", "CUDA_VISIBLE_DEVICES": "0"}
    supervisor = await scene.start(environment=around)
    process = await supervisor.start_backend(make_command(), NoReport())
    seen = (await ask(process))["environment"]
    assert seen["CUDA_VISIBLE_DEVICES"] == "0"
    assert seen["MODEL_NAME"] == "llama"
    assert "s3cret" not in str(seen)


async def test_engines_get_the_number_of_threads_that_they_may_use(scene: Scene):
    scene.install(environment={"THREADS": "{threads}"})
    supervisor = await scene.start(threads=4)
    first = await supervisor.start_backend(make_command("a", threads=3), NoReport())
    second = await supervisor.start_backend(make_command("b", threads=3), NoReport())
    assert (await ask(first))["environment"]["THREADS"] == "3"
    assert (await ask(second))["environment"]["THREADS"] == "1"
    await supervisor.stop_process("a#0")
    third = await supervisor.start_backend(make_command("c", threads=3), NoReport())
    assert (await ask(third))["environment"]["THREADS"] == "3"


async def test_worker_that_stops_ends_all_engines_also_those_that_do_not_want_to(scene: Scene):
    scene.install()
    supervisor = await scene.start(grace_s=0.5)
    pids = [
        (await supervisor.start_backend(make_command("a"), NoReport())).pid,
        (await supervisor.start_backend(make_command("b", ignore_term="yes", fork="yes"), NoReport())).pid,
    ]
    await supervisor.stop()
    assert [is_alive(pid) for pid in pids] == [False, False]
    assert await scene.leftovers() == frozenset()


async def _outcome(work: Coroutine[Any, Any, object]) -> object:
    try:
        return await work
    except (EngineStartFailed, ProcessBeingStopped) as error:
        return error


@pytest.mark.behaviour("PROC-4")
async def test_engine_that_checks_a_key_gets_one_of_its_own_and_listens_for_others(scene: Scene):
    scene.install(api_key="environment", environment={"KEY": "{api_key}"})
    supervisor = await scene.start(host="0.0.0.0", advertised_host="localhost")
    first = await supervisor.start_backend(make_command("a"), NoReport())
    second = await supervisor.start_backend(make_command("b"), NoReport())
    assert first.address.startswith("localhost:")
    seen = [(await ask(process))["environment"]["KEY"] for process in (first, second)]
    assert seen == [supervisor.find_api_key("a#0"), supervisor.find_api_key("b#0")]
    assert len(set(seen)) == 2
    assert supervisor.find_api_key("c#0") is None


async def test_port_that_another_program_holds_is_left_out(scene: Scene):
    scene.install()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        supervisor = await scene.start(port_base=port)
        process = await supervisor.start_backend(make_command(), NoReport())
        assert process.address != f"127.0.0.1:{port}"
        assert await ask(process)


async def test_two_workers_of_a_machine_that_pick_one_port_in_the_same_moment_have_an_engine_each(
    scene: Scene, tmp_path: Path
):
    scene.install()
    port = find_free_port()
    supervisors = [await scene.start(port_base=port, root=tmp_path / name) for name in ("one", "other", "third")]
    # One that dawdles finds the port answering before it listens there itself, and the port taken when it wants to.
    commands = [make_command(dawdle_s="1.5"), make_command(), make_command()]
    started = zip(supervisors, commands, strict=True)
    processes = await asyncio.gather(*(each.start_backend(command, NoReport()) for each, command in started))
    assert len({process.address for process in processes}) == 3
    # Each answers for itself: none took the engine of another for its own.
    assert [(await ask(process))["pid"] for process in processes] == [process.pid for process in processes]
    assert [process.restarts for process in processes] == [0, 0, 0]


async def test_option_that_the_engine_does_not_have_takes_no_port(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    with pytest.raises(InvalidRequest, match="no option colour"):
        await supervisor.start_backend(make_command(colour="red"), NoReport())
    assert supervisor.list_running() == ()
    assert supervisor._deps.ports.count_running() == 0


async def test_start_that_failed_can_be_tried_again(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    with pytest.raises(EngineStartFailed):
        await supervisor.start_backend(make_command(fail="1"), NoReport())
    assert await ask(await supervisor.start_backend(make_command(), NoReport()))


async def test_worker_that_stops_starts_nothing_more(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    await supervisor.stop()
    with pytest.raises(Conflict) as caught:
        await supervisor.start_backend(make_command(), NoReport())
    assert caught.value.slug == "worker_stopping"
