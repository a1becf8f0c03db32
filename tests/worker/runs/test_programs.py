"""Programs of runs, as real processes: their lines, their end, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.domain.errors import Unprocessable
from corral.worker.programs.program_process import ProgramLaunch, run_program_lines
from tests.support.polling import eventually


def make_launch(folder: Path, program: str, **more: Any) -> ProgramLaunch:
    environment = {"PATH": os.environ["PATH"]}
    return ProgramLaunch(
        command=(sys.executable, "-I", "-c", program), environment=environment, directory=folder, **more
    )


def ignore(fields: Mapping[str, Any]) -> None:
    del fields


async def test_lines_of_a_program_are_read_and_its_last_one_is_the_result(tmp_path: Path) -> None:
    program = (
        "import json\n"
        "print('loading the library')\n"
        "print(json.dumps({'phase': 'quantizing', 'fraction': 0.5}))\n"
        "print(json.dumps({'result': {'tool': 't'}}))\n"
    )
    seen: list[Mapping[str, Any]] = []
    assert await run_program_lines(make_launch(tmp_path, program), seen.append) == {"tool": "t"}
    assert seen == [{"phase": "quantizing", "fraction": 0.5}]


@pytest.mark.behaviour("QUANT-17")
async def test_reason_of_a_program_is_the_reason_of_its_failure(tmp_path: Path) -> None:
    program = (
        "import json; print(json.dumps({'error': 'The file is broken.', 'code': 'broken_file'})); raise SystemExit(1)"
    )
    with pytest.raises(Unprocessable) as failed:
        await run_program_lines(make_launch(tmp_path, program), ignore)
    assert (failed.value.slug, failed.value.message) == ("broken_file", "The file is broken.")


@pytest.mark.behaviour("QUANT-17")
async def test_program_without_a_reason_fails_with_its_last_words(tmp_path: Path) -> None:
    program = "import sys; print('first', file=sys.stderr); sys.exit('no memory left')"
    with pytest.raises(Unprocessable) as failed:
        await run_program_lines(make_launch(tmp_path, program), ignore)
    assert failed.value.slug == "program_failed"
    assert "ended with exit code 1" in failed.value.message
    assert "no memory left" in failed.value.message


@pytest.mark.behaviour("QUANT-17")
async def test_program_that_says_it_is_done_and_fails_has_no_result(tmp_path: Path) -> None:
    program = "import json; print(json.dumps({'result': {}}), flush=True); raise SystemExit(3)"
    with pytest.raises(Unprocessable):
        await run_program_lines(make_launch(tmp_path, program), ignore)


@pytest.mark.behaviour("QUANT-17")
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is set for another process, which only Linux allows")
async def test_program_cannot_write_a_larger_file_than_it_may(tmp_path: Path) -> None:
    program = (
        "import resource\n"
        "while resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000: pass\n"
        "open('large', 'wb').write(b'x' * 5000)\n"
    )
    with pytest.raises(Unprocessable):
        await run_program_lines(make_launch(tmp_path, program, file_bytes_max=1000), ignore)
    assert (tmp_path / "large").stat().st_size <= 1000


async def test_program_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    program = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(Unprocessable) as failed:
        await run_program_lines(make_launch(tmp_path, program), ignore)
    assert failed.value.slug == "program_broken"


@pytest.mark.behaviour("QUANT-15")
async def test_program_and_what_it_has_started_are_gone_when_the_call_is_cancelled(tmp_path: Path) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    call = asyncio.create_task(run_program_lines(make_launch(tmp_path, child), ignore))

    async def find_both() -> list[psutil.Process]:
        own = [one for one in psutil.Process().children(recursive=True) if "-c" in one.cmdline()]
        return own if len(own) == 2 else []

    both = await eventually(find_both)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    async def are_gone() -> bool:
        return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in both)

    await eventually(are_gone)
