"""The end of a program that is an MCP server, seen without a session."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from corral.runner.stdio_server import StdioOptions, open_stdio_transport
from corral.wire.run_work import McpServerSpec
from tests.runner.scene import WAIT_S
from tests.support.polling import eventually
from tests.support.reused_pids import start_with_pid
from tests.worker.runs.scene import is_alive

_WRITE_PID = "import os, pathlib; pathlib.Path(os.environ['NOTES'], 'pid').write_text(str(os.getpid()))"
# Leaves a child in its group that has dropped everything it could be found by.
_LEAVE_CHILD = """
import subprocess
child = subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"]}, stdin=-3, stdout=-3, stderr=-3)
pathlib.Path(os.environ["NOTES"], "child").write_text(str(child.pid))
"""


def make_server(notes: Path, program: str) -> McpServerSpec:
    environment = {"NOTES": str(notes)}
    return McpServerSpec(name="short", transport="stdio", command=sys.executable, args=["-c", program], env=environment)


async def test_process_that_has_got_the_pid_of_an_ended_program_is_left_alone(tmp_path: Path) -> None:
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    options = StdioOptions(path=os.environ["PATH"])
    server = make_server(tmp_path, _WRITE_PID)
    with ExitStack() as stack:
        async with asyncio.timeout(WAIT_S), open_stdio_transport(server, options, ended.set_result):
            await ended
            other = stack.enter_context(start_with_pid(int((tmp_path / "pid").read_text())))
        other.terminate()
        assert other.wait() == -signal.SIGTERM


async def test_children_in_the_group_of_an_ended_program_end_with_it(tmp_path: Path) -> None:
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    options = StdioOptions(path=os.environ["PATH"])
    server = make_server(tmp_path, _WRITE_PID + _LEAVE_CHILD)
    async with asyncio.timeout(WAIT_S), open_stdio_transport(server, options, ended.set_result):
        await ended
    child = int((tmp_path / "child").read_text())

    async def is_gone() -> bool:
        return not is_alive(child)

    await eventually(is_gone)
