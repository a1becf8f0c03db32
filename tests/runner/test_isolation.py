"""Programs of MCP servers cannot take the machine with them, and cannot read what belongs to the worker."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.wire.runner_protocol import ProgramLimits
from corral.worker.runs.program_limits import find_program_limits
from tests.runner.chat_server import run_scripted_model
from tests.runner.scene import SERVERS, Scene, make_server, run_scene
from tests.support.polling import eventually

pytestmark = [
    pytest.mark.behaviour("RUNNER-8"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch users"),
]
MIB = 1024**2


@pytest.fixture
def notes() -> Iterator[Path]:
    """A folder that every user can write to: pytest's own are for its user alone."""
    folder = Path(tempfile.mkdtemp(prefix="corral-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    limits = find_program_limits(None, memory_bytes=512 * MIB, file_bytes=8 * MIB)
    async with run_scripted_model() as model, run_scene(model.url, limits=limits) as started:
        yield started


async def call_tool(scene: Scene, notes: Path, name: str, **arguments: Any) -> str:
    server = make_server(notes, "hostile", args=[str(SERVERS / "hostile.py")])
    params = {"name": name, "arguments": arguments}
    answer = await scene.mcp("call_tool", server, params=params, session_key="k")
    assert answer["error"] is None, answer
    text: str = answer["result"]["content"][0]["text"]
    return text


async def is_ended(notes: Path) -> bool:
    pid = int((notes / "pid").read_text())
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_program_runs_as_another_user_without_any_right_of_the_worker(scene: Scene, notes: Path) -> None:
    account = pwd.getpwnam(find_program_limits(None, memory_bytes=1, file_bytes=1).user)
    facts = json.loads(await call_tool(scene, notes, "identify"))
    assert facts["uids"] == [account.pw_uid] * 3
    assert facts["gids"] == [account.pw_gid] * 3
    assert facts["groups"] in ([], [account.pw_gid])
    assert (facts["no_new_privs"], int(facts["capabilities"], 16)) == ("1", 0)
    assert facts["niceness"] >= 10
    assert facts["home"] == [account.pw_uid, 0o700]
    assert facts["memory_bytes"] == 512 * MIB


async def test_program_cannot_read_a_private_file_of_the_worker(scene: Scene, notes: Path, tmp_path: Path) -> None:
    secret = notes / "credential"
    secret.touch(0o600)
    secret.write_text("of the worker")
    assert await call_tool(scene, notes, "read", path=str(secret)) == "Permission denied"
    assert await call_tool(scene, notes, "read", path=f"/proc/{os.getpid()}/environ") == "Permission denied"


async def test_program_that_takes_too_much_memory_gets_an_error_and_no_other_does(scene: Scene, notes: Path) -> None:
    assert await call_tool(scene, notes, "allocate", mebibytes=2048) == "no more memory"
    assert await call_tool(scene, notes, "allocate", mebibytes=16) == str(16 * MIB)


async def test_program_cannot_fill_the_disk_with_one_file(scene: Scene, notes: Path) -> None:
    assert await call_tool(scene, notes, "fill", mebibytes=100) == "8 File too large"


async def test_program_that_forks_without_end_is_stopped_and_ends_with_its_children(scene: Scene, notes: Path) -> None:
    number, problem = (await call_tool(scene, notes, "multiply")).split(" ", 1)
    assert (0 < int(number) <= 512, problem) == (True, "Resource temporarily unavailable")
    children = psutil.Process(int((notes / "pid").read_text())).children(recursive=True)
    assert len(children) == int(number)
    await scene.send("close_sessions", session_key="k")

    async def are_gone() -> bool:
        return not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)

    await eventually(are_gone, within_s=60)


async def test_program_that_ignores_its_end_and_sigterm_is_gone_with_its_folder(scene: Scene, notes: Path) -> None:
    home = next(iter(json.loads(await call_tool(scene, notes, "identify"))["home"]))
    assert home
    await call_tool(scene, notes, "fill", mebibytes=1)
    pid = int((notes / "pid").read_text())
    folder = Path(psutil.Process(pid).environ()["HOME"])
    assert (folder / "large").exists()
    await scene.send("close_sessions", session_key="k")
    await eventually(lambda: is_ended(notes), within_s=60)

    async def is_removed() -> bool:
        return not folder.exists()

    await eventually(is_removed)


async def test_program_that_writes_100_mib_to_its_log_answers_all_the_same(scene: Scene, notes: Path) -> None:
    assert await call_tool(scene, notes, "chatter", mebibytes=100) == "done"


async def test_program_that_its_user_cannot_execute_is_named_with_the_setting(scene: Scene, notes: Path) -> None:
    program = notes / "program"
    program.write_text("#!/bin/sh\nsleep 60\n")
    program.chmod(0o700)
    answer = await scene.mcp("list", make_server(notes, "hostile", command=str(program), args=[]), session_key="k")
    assert "cannot be executed by user" in answer["error"]["message"]
    assert "(setting run_user): Permission denied. Install it where that user may enter" in answer["error"]["message"]


def test_user_of_programs_is_the_named_one_and_root_only_if_root_is_named() -> None:
    daemon = find_program_limits("daemon", memory_bytes=1, file_bytes=2)
    assert (daemon.user, daemon.uid, daemon.file_bytes) == ("daemon", pwd.getpwnam("daemon").pw_uid, 2)
    assert find_program_limits(None, memory_bytes=1, file_bytes=2).uid not in (None, 0)
    assert find_program_limits("root", memory_bytes=1, file_bytes=2) == ProgramLimits(memory_bytes=1, file_bytes=2)
