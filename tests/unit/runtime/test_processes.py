"""The core of process supervision: a session of its own, output by appending, identity by birth, ends in steps."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import uvloop

from corral.runtime.processes import (
    BIRTH_TOLERANCE_S,
    ProcessBirth,
    SpawnRequest,
    end_in_steps,
    identify_process,
    is_alive,
    spawn_process,
)
from tests.support.polling import eventually


def make_request(folder: Path, program: str) -> SpawnRequest:
    return SpawnRequest(
        command=(sys.executable, "-I", "-c", program),
        environment={},
        directory=folder,
        stdout=folder / "out",
        stderr=folder / "out",
    )


async def test_process_leads_its_own_session_and_appends_to_its_output(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("before\n")
    process = await spawn_process(make_request(tmp_path, "import os; print(os.getsid(0) == os.getpid())"))
    assert await process.wait_ended() == 0
    assert (tmp_path / "out").read_text() == "before\nTrue\n"


def test_process_is_started_on_the_event_loop_of_workers(tmp_path: Path) -> None:
    async def run() -> int:
        process = await spawn_process(make_request(tmp_path, "pass"))
        return await process.wait_ended()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(run()) == 0


async def test_process_is_known_by_its_birth_and_not_by_its_pid(tmp_path: Path) -> None:
    process = await spawn_process(make_request(tmp_path, "input(); import time; time.sleep(600)"))
    await process.wait_ended()
    assert not process.is_alive()
    me = identify_process(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert not is_alive(replace(me, born_s=me.born_s - 2 * BIRTH_TOLERANCE_S))


async def test_killing_the_group_ends_what_the_process_has_started(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(600)']); "
        "print(child.pid, flush=True); time.sleep(600)"
    )
    process = await spawn_process(make_request(tmp_path, program))

    async def find_child() -> ProcessBirth | None:
        text = (tmp_path / "out").read_text()
        return identify_process(int(text)) if text.endswith("\n") else None

    child = await eventually(find_child)
    assert child is not None
    process.kill_group()
    assert await process.wait_ended() == -9

    async def is_child_gone() -> bool:
        return not is_alive(child)

    assert await eventually(is_child_gone)


async def test_force_follows_only_when_politeness_did_not_help() -> None:
    for patience, expected in ((1.0, ["ask"]), (2.0, ["ask", "kill"]), (3.0, ["ask", "kill"])):
        sent: list[str] = []

        async def ask(sent: list[str] = sent) -> None:
            sent.append("ask")

        async def kill(sent: list[str] = sent) -> None:
            sent.append("kill")

        async def wait_ended(limit_s: float, patience: float = patience) -> bool:
            return limit_s >= patience

        assert await end_in_steps(((ask, 1.0), (kill, 2.0)), wait_ended) is (patience <= 2.0)
        assert sent == expected
