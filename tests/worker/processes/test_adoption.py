"""A worker that comes after one that was killed: engines go on, or end; nobody is forgotten."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from corral.bus.messages import ReadLog
from corral.worker.processes.journal import ProcessJournal
from corral.worker.processes.supervisor import EngineSupervisor
from tests.support.polling import eventually
from tests.worker.processes.scene import NoReport, Scene, ask, crash, make_command

OWNER = Path(__file__).parent / "programs" / "owner.py"
REPOSITORY = Path(__file__).parents[3]


@asynccontextmanager
async def killed_owner(root: Path, *models: str) -> AsyncIterator[dict[str, int]]:
    """The pids of engines whose worker was killed with SIGKILL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(OWNER),
        str(root),
        *models,
        env={"PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)]), "PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    pids: dict[str, int] = {}
    try:
        while (line := (await process.stdout.readline()).decode()) != "done\n":
            assert line, "the owner ended before it was done"
            key, pid, _ = line.split()
            pids[key] = int(pid)
    finally:
        process.kill()
        await process.wait()
    yield pids


def adopting(scene: Scene, *, is_reinstalled: bool = False) -> EngineSupervisor:
    """The backend as the killed worker had it, and a new supervisor on the same folder."""
    directory = scene.root / "backends" / "cpu-fake"
    kept = directory.rename(directory.with_suffix(".kept"))
    made = scene.install(api_key="environment", environment={"KEY": "{api_key}"})
    if not is_reinstalled:
        made.directory.rmdir()
        kept.rename(made.directory)
    return scene.make(adoption_s=1.0, grace_s=0.5)


@pytest.mark.behaviour("PROC-9")
async def test_engines_of_a_killed_worker_go_on_under_the_next(scene: Scene, tmp_path: Path):
    async with killed_owner(tmp_path, "llama", "other") as pids:
        supervisor = adopting(scene)
        await supervisor.start()
        by_key = {one.key: one for one in supervisor.list_running()}
        assert {key: one.pid for key, one in by_key.items()} == pids
        assert {one.state for one in by_key.values()} == {"ready"}
        key = (await ask(by_key["llama#0"]))["environment"]["KEY"]
        assert key
        assert supervisor.find_api_key("llama#0") == key
        again = await supervisor.start_backend(make_command("llama", fork="yes", threads=2, say="3"), NoReport())
        assert again.pid == pids["llama#0"]
        # Their threads and ports are taken into account.
        assert supervisor._deps.threads.free == 0
        third = await supervisor.start_backend(make_command("third"), NoReport())
        assert third.address not in {one.address for one in by_key.values()}


@pytest.mark.behaviour("PROC-9")
async def test_adopted_engine_is_logged_restarted_and_stopped_like_any_other(scene: Scene, tmp_path: Path):
    async with killed_owner(tmp_path, "llama") as pids:
        supervisor = adopting(scene)
        await supervisor.start()
        (process,) = supervisor.list_running()
        await ask(process, "/print?lines=2")

        async def logged() -> list[str]:
            found = await supervisor.read_log(ReadLog(key="llama#0"))
            return [one.text for one in found.lines if one.stream != "worker"]

        async def all_logged() -> bool:
            return len(await logged()) == 5

        await eventually(all_logged)
        assert sorted(await logged()) == ["line 0 ", "line 1 ", "trouble 0", "trouble 1", "trouble 2"]
        await crash(process)

        async def is_back() -> bool:
            return [(one.state, one.restarts) for one in supervisor.list_running()] == [("ready", 1)]

        await eventually(is_back)
        (again,) = supervisor.list_running()
        assert again.pid != pids["llama#0"]
        assert again.address == process.address
        assert await supervisor.stop_process("llama#0") == (True, process.address)
        assert await scene.leftovers() == frozenset()


async def test_engine_that_cannot_be_adopted_is_ended_with_its_children(scene: Scene, tmp_path: Path):
    async with killed_owner(tmp_path, "llama") as pids:
        supervisor = adopting(scene, is_reinstalled=True)
        await supervisor.start()
        assert supervisor.list_running() == ()
        assert not psutil.pid_exists(pids["llama#0"]) or _is_zombie(pids["llama#0"])
        assert await scene.leftovers() == frozenset()
        assert ProcessJournal(tmp_path / "processes" / "running").load() == ()


async def test_engine_that_does_not_answer_is_ended(scene: Scene, tmp_path: Path):
    async with killed_owner(tmp_path, "llama") as pids:
        psutil.Process(pids["llama#0"]).suspend()
        supervisor = adopting(scene)
        await supervisor.start()
        assert supervisor.list_running() == ()
        assert await scene.leftovers() == frozenset()


async def test_dead_engine_is_forgotten_and_its_child_is_ended(scene: Scene, tmp_path: Path):
    async with killed_owner(tmp_path, "llama") as pids:
        psutil.Process(pids["llama#0"]).kill()
        supervisor = adopting(scene)
        await supervisor.start()
        assert supervisor.list_running() == ()
        assert await scene.leftovers() == frozenset()


async def test_engine_that_no_record_names_is_ended_and_one_of_another_home_is_not(scene: Scene, tmp_path: Path):
    elsewhere = Scene(root=tmp_path / "elsewhere")
    elsewhere.install()
    other = await elsewhere.start()
    neighbour = await other.start_backend(make_command(), NoReport())
    async with killed_owner(tmp_path, "llama"):
        (record,) = (tmp_path / "processes" / "running").glob("*.json")
        record.write_text("{ half a rec")
        supervisor = adopting(scene)
        await supervisor.start()
        assert supervisor.list_running() == ()
        assert await scene.leftovers() == frozenset()
        assert len(list((tmp_path / "processes" / "running").glob("*.damaged"))) == 1
    assert await ask(neighbour)
    await other.stop()
    assert await elsewhere.leftovers() == frozenset()


async def test_pid_that_is_used_again_is_left_alone(scene: Scene, tmp_path: Path):
    stranger = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import threading; threading.Event().wait()", start_new_session=True
    )
    try:
        async with killed_owner(tmp_path, "llama") as pids:
            (record,) = (tmp_path / "processes" / "running").glob("*.json")
            written = json.loads(record.read_text())
            assert written["birth"]["pid"] == pids["llama#0"]
            written["birth"] = {"pid": stranger.pid, "born_s": written["birth"]["born_s"] - 100}
            record.write_text(json.dumps(written))
            supervisor = adopting(scene)
            await supervisor.start()
            assert supervisor.list_running() == ()
            assert stranger.returncode is None
            assert psutil.Process(stranger.pid).is_running()
            assert await scene.leftovers() == frozenset()
    finally:
        stranger.kill()
        await stranger.wait()


def _is_zombie(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
