"""Engines of replicas: their budget, what they carry, how they fail, and what a killed worker leaves of them."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from corral.domain.errors import InvalidRequest
from corral.policy.gallery import parse_manifest
from corral.worker.processes.process_control import EngineStartFailed, ProcessUsage
from corral.worker.processes.supervisor import EngineSupervisor
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop
from tests.support.polling import eventually
from tests.worker.processes.pretend import PretendMachine, pretend_supervisor
from tests.worker.processes.programs.leaving import make_leaving_command
from tests.worker.processes.scene import NoReport, Scene, ask, make_command
from tests.worker.processes.test_adoption import adopting

LEAVING = Path(__file__).parent / "programs" / "leaving.py"
REPOSITORY = Path(__file__).parents[3]


@pytest.mark.behaviour("NODE-83")
async def test_engine_that_takes_longer_than_its_budget_is_ended_and_no_other(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    other = await supervisor.start_backend(make_command("other"), NoReport())
    sibling = await supervisor.start_backend(make_command("llama", replica=1), NoReport())
    slow = replace(make_command("llama", say="1", never_ready="yes"), ready_s=0.7)
    with pytest.raises(EngineStartFailed, match=r"llama#0 was not ready after 0.7 s.\n    trouble 0") as caught:
        await supervisor.start_backend(slow, NoReport())
    assert caught.value.slug == "load_timeout"
    assert {one.pid for one in supervisor.list_running()} == {other.pid, sibling.pid}
    assert await ask(other)
    assert await ask(sibling)


@pytest.mark.behaviour("NODE-84")
async def test_engine_that_fails_while_it_loads_ends_no_other(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    other = await supervisor.start_backend(make_command("other"), NoReport())
    with pytest.raises(EngineStartFailed, match=r"exit code 4 before it was ready\.\n    trouble 0") as caught:
        await supervisor.start_backend(make_command("llama", say="1", fail="4"), NoReport())
    assert caught.value.slug == "engine_failed"
    assert [one.pid for one in supervisor.list_running()] == [other.pid]
    assert await ask(other)


@pytest.mark.behaviour("PROC-14")
@pytest.mark.parametrize(
    "words",
    [
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9216.00 MiB: cudaMalloc failed: out of memory",
        "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
        "RuntimeError: CUDA error: out of memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "MemoryError",
        "vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
        "mmap failed: Cannot allocate memory",
        "ggml_aligned_malloc: failed to allocate 12.00 GB",
    ],
)
async def test_engine_that_reports_lack_of_memory_fails_as_out_of_memory(scene: Scene, words: str):
    scene.install()
    supervisor = await scene.start()
    with pytest.raises(EngineStartFailed, match=r"It ran out of memory\.") as caught:
        await supervisor.start_backend(make_command(last_words=words, fail="1"), NoReport())
    assert caught.value.slug == "out_of_memory"
    assert words in caught.value.message


@pytest.mark.behaviour("PROC-14")
async def test_manifest_names_the_signs_of_its_engine(scene: Scene):
    manifest = parse_manifest({"errors": {"bad_model": ["unknown (architecture|model)"]}}, "here")
    assert set(manifest.errors) == {"bad_model", "out_of_memory"}
    scene.install(errors=manifest.errors)
    supervisor = await scene.start()
    with pytest.raises(EngineStartFailed) as caught:
        await supervisor.start_backend(make_command(last_words="Unknown architecture 'x'", fail="1"), NoReport())
    assert caught.value.slug == "bad_model"
    with pytest.raises(InvalidRequest, match=r"here: errors: '\(' is not a regular expression"):
        parse_manifest({"errors": {"bad_model": ["("]}}, "here")


@pytest.mark.behaviour("PROC-14")
@pytest.mark.parametrize(("grown", "code"), [(1, "out_of_memory"), (0, "engine_failed")])
def test_kill_of_the_kernel_is_known_by_its_counter(tmp_path: Path, grown: int, code: str):
    machine = PretendMachine()

    async def never(_url: str, _key: str) -> bool:
        return False

    async def scenario(loop: VirtualLoop) -> None:
        supervisor, clock = pretend_supervisor(loop, tmp_path, machine)
        object.__setattr__(supervisor._deps, "check_ready", never)
        await supervisor.start()
        starting = loop.create_task(supervisor.start_backend(make_command(), NoReport()))
        await clock.sleep(1)
        assert machine.killed_for_memory is not None
        machine.killed_for_memory += grown
        machine.last.end(-9)
        with pytest.raises(EngineStartFailed) as caught:
            await starting
        assert caught.value.slug == code
        await supervisor.stop()

    simulate(0, scenario)


async def test_process_tells_what_it_is_and_what_it_takes(scene: Scene):
    scene.install(api_key="environment", environment={"KEY": "{api_key}"})
    supervisor = await scene.start()
    command = replace(make_command("llama", threads=3, fork="yes"), revision="r1", operation_id="o1")
    process = await supervisor.start_backend(command, NoReport())
    reported = (process.revision, process.operation_id, process.job_id, process.threads)
    assert reported == ("r1", "o1", "j1", 3)
    assert process.engine_key == (await ask(process))["environment"]["KEY"]
    assert process.ram_bytes is not None
    # With what it has forked.
    assert process.ram_bytes > psutil.Process(process.pid).memory_info().rss
    assert process.vram_bytes is None
    assert process.engine_key not in repr(process)


def test_vram_measured_by_the_gpu_is_reported(tmp_path: Path):
    machine = PretendMachine()
    machine.measured = ProcessUsage(ram_bytes=5, vram_bytes=7)

    async def scenario(loop: VirtualLoop) -> None:
        supervisor, _ = pretend_supervisor(loop, tmp_path, machine)
        await supervisor.start()
        process = await supervisor.start_backend(make_command(), NoReport())
        assert (process.ram_bytes, process.vram_bytes) == (5, 7)
        await supervisor.stop()

    simulate(0, scenario)


async def test_replica_of_another_revision_gets_another_process(scene: Scene):
    scene.install()
    supervisor = await scene.start()
    first = await supervisor.start_backend(replace(make_command(), revision="r1"), NoReport())
    same = await supervisor.start_backend(replace(make_command(), revision="r1", operation_id="o2"), NoReport())
    assert same.pid == first.pid
    second = await supervisor.start_backend(replace(make_command(), revision="r2"), NoReport())
    assert second.pid != first.pid
    assert [one.revision for one in supervisor.list_running()] == ["r2"]


# --- what a killed worker leaves ---


async def left_by(root: Path, mode: str, ready_when: Path) -> int:
    """The pid of the engine of a worker that was killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(LEAVING),
        str(root),
        mode,
        str(ready_when),
        env={"PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)]), "PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        # What the worker logs comes in between.
        while not (line := (await process.stdout.readline()).decode()).startswith("left: "):
            assert line, "it ended before it was done"
    finally:
        process.kill()
        await process.wait()
    return int(line.removeprefix("left: "))


async def is_ready(supervisor: EngineSupervisor) -> bool:
    return [one.state for one in supervisor.list_running()] == ["ready"]


async def test_engine_that_was_loading_goes_on_loading_and_carries_what_it_did(scene: Scene, tmp_path: Path):
    let = tmp_path / "ready"
    pid = await left_by(tmp_path, "loading", let)
    supervisor = adopting(scene)
    await supervisor.start()
    (running,) = supervisor.list_running()
    assert (running.pid, running.state) == (pid, "starting")
    assert (running.revision, running.operation_id, running.job_id, running.threads) == ("r1", "o1", "j1", 2)
    assert running.engine_key
    # The job that is taken up again finds it, and waits for it.
    starting = asyncio.get_running_loop().create_task(
        supervisor.start_backend(make_leaving_command(str(let)), NoReport())
    )
    let.touch()
    process = await starting
    assert (process.pid, process.state, process.engine_key) == (pid, "ready", running.engine_key)
    assert process.ram_bytes


async def test_adopted_engine_that_dies_while_loading_fails_its_start(scene: Scene, tmp_path: Path):
    let = tmp_path / "ready"
    pid = await left_by(tmp_path, "loading", let)
    supervisor = adopting(scene)
    await supervisor.start()
    starting = asyncio.get_running_loop().create_task(
        supervisor.start_backend(make_leaving_command(str(let)), NoReport())
    )
    psutil.Process(pid).kill()
    with pytest.raises(EngineStartFailed, match="before it was ready"):
        await starting
    assert supervisor.list_running() == ()


async def test_engine_that_paused_after_a_crash_is_started_again_by_the_next_worker(scene: Scene, tmp_path: Path):
    let = tmp_path / "ready"
    let.touch()
    assert await left_by(tmp_path, "pausing", let) == 0
    supervisor = adopting(scene)
    await supervisor.start()
    (running,) = supervisor.list_running()
    assert (running.state, running.restarts, running.revision) == ("backing_off", 1, "r1")
    await eventually(lambda: is_ready(supervisor))
    (back,) = supervisor.list_running()
    assert (back.address, back.restarts, back.engine_key) == (running.address, 1, running.engine_key)


async def test_engine_that_works_and_does_not_answer_is_adopted(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    let = tmp_path / "ready"
    scene.install(api_key="environment", environment={"KEY": "{api_key}"})
    first = await scene.start()
    let.touch()
    process = await first.start_backend(make_leaving_command(str(let)), NoReport())
    # Its worker is gone, as after a kill; it is silent from now on.
    await first._tasks.close()
    first._engines.clear()
    let.unlink()
    second = scene.make(adoption_s=0.5)
    used = iter(range(100))

    async def cpu_s(*_: object) -> float:
        return float(next(used))

    monkeypatch.setattr(second._deps.process_control, "read_cpu_s", cpu_s)
    await second.start()
    assert [one.pid for one in second.list_running()] == [process.pid]
