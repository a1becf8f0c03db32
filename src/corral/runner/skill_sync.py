"""Executes a sync: fetches the skills of a git repository in a process of its own, and delivers them to a frontend.

Guarantee: the process has limits on memory and time and is gone when the run ends, however it ends. Only the frontend
judges what was found; it stores all of it or nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from corral.domain.errors import CorralError
from corral.runner import stdio_launcher
from corral.runner.guarded_execution import run_guarded
from corral.runtime.processes import kill_group
from corral.runtime.python_environment import make_python_environment
from corral.wire.run_work import RunOutcome, RunSpec
from corral.wire.runner_protocol import ProgramLimits

# The objects of one commit, unpacked one at a time.
MEMORY_BYTES = 1024**3
# The pack and its index; see `git_fetch.PACK_BYTES_MAX`.
FILE_BYTES = 128 * 1024**2
# The line of JSON and the archive; see `git_fetch.SKILLS_BYTES_MAX`.
OUTPUT_BYTES_MAX = 20 * 1024 * 1024
_PIECE_BYTES = 256 * 1024

# Calls `store_skills` of a frontend. Raises `CorralError`.
SkillStorer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class SkillSyncFailed(CorralError):
    """The skills of the repository could not be fetched."""

    code = "skill_sync_failed"


class SkillSyncExecution:
    """Executes one sync of a git repository with skills of LLM agents, in the runner process."""

    def __init__(self, spec: RunSpec, store: SkillStorer) -> None:
        self._spec = spec
        self._store = store

    async def run(self) -> RunOutcome:
        """Execute the sync. Only cancellation passes through; every error becomes an outcome."""
        return await run_guarded(self._execute, self.make_failure, run_id=self._spec.run_id, what="The sync")

    def make_failure(self, code: str, sentence: str, reason: str = "error") -> RunOutcome:
        return RunOutcome(state="failed", reason=reason, error_code=code, error_text=sentence)

    def make_cancelled(self) -> RunOutcome:
        return RunOutcome(state="cancelled")

    async def _execute(self) -> RunOutcome:
        with tempfile.TemporaryDirectory(prefix="corral-git-") as folder:
            request = dict(self._spec.extra) | {"password": self._spec.repo_password}
            output = await _run_fetch(json.dumps(request).encode(), folder)
        answer, archive = _split_output(output)
        if answer.get("error"):
            raise SkillSyncFailed(str(answer["error"]))
        commit = str(answer.get("commit", ""))
        delivery = {
            "commit": commit,
            "is_unchanged": bool(answer.get("is_unchanged")),
            "archive": base64.b64encode(archive).decode(),
            "problems": [str(problem)[:1000] for problem in answer.get("problems") or ()],
        }
        stored = await self._store(delivery)
        count, problem = int(stored.get("skills", 0)), str(stored.get("problem", ""))
        content = f"{count} skill{'' if count == 1 else 's'} of commit {commit[:12]}. {problem}".strip()
        return RunOutcome(state="completed", content=content, result={"commit": commit, "skills": count})


async def _run_fetch(request: bytes, folder: str) -> bytes:
    """Return what the process has written. It is killed when this is cancelled."""
    limits = ProgramLimits(memory_bytes=MEMORY_BYTES, file_bytes=FILE_BYTES)
    fields = json.dumps({**limits.model_dump(), "parent_pid": os.getpid()})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", stdio_launcher.__file__, fields),
        *(sys.executable, "-m", "corral.runner.git_fetch"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # No settings of git of the worker's own user count.
        env={**make_python_environment(), "HOME": folder},
        cwd=folder,
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(request)
        process.stdin.write_eof()
        return await _read_output(process)
    finally:
        kill_group(process.pid)
        await process.wait()


async def _read_output(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    output = bytearray()
    while piece := await process.stdout.read(_PIECE_BYTES):
        output += piece
        if len(output) > OUTPUT_BYTES_MAX:
            raise SkillSyncFailed("The skills of the repository are too large.")
    return bytes(output)


def _split_output(output: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, archive = output.partition(b"\n")
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise SkillSyncFailed("The process that fetches the repository has died: perhaps it has too much in it.")
    return answer, archive
