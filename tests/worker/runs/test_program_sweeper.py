"""Programs and folders that a killed runner has left behind: found by their marker, also after the worker's own end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from corral.wire.runner_protocol import PROGRAM_MARKER
from corral.worker.runs.program_sweeper import ProgramSweeper
from tests.support.children import start_child

WAITS = [sys.executable, "-c", "import signal; signal.pause()"]


def make_home(homes: str) -> Path:
    home = Path(f"{homes}abc")
    home.mkdir()
    (home / "file").touch()
    return home


@pytest.mark.behaviour("WRK-24")
def test_next_worker_ends_what_a_killed_one_has_left_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other_homes = ProgramSweeper(tmp_path / "other").begin()
    homes = ProgramSweeper(tmp_path).begin()
    home, other_home = make_home(homes), make_home(other_homes)
    with (
        start_child(WAITS, env={**os.environ, PROGRAM_MARKER: str(home)}) as program,
        start_child(WAITS, env={**os.environ, PROGRAM_MARKER: str(other_home)}) as other,
    ):
        following = ProgramSweeper(tmp_path)
        assert following.begin() != homes
        assert (program.poll() is None, home.exists()) == (False, False)
        assert (other.poll() is None, other_home.exists()) == (True, True)
        other.kill()
        following.sweep()
    ProgramSweeper(tmp_path / "other").sweep()
    assert not other_home.exists()


@pytest.mark.parametrize("content", ["", "/tmp/corral-mcp-", "/tmp/", "/", "/tmp/corral-mcp-abc", "\0"])
def test_file_that_was_cut_off_harms_nothing(tmp_path: Path, content: str) -> None:
    kept = make_home(str(tmp_path / "corral-mcp-abcdefgh-"))
    (tmp_path / "program-homes").write_text(content.replace("/tmp", str(tmp_path)))
    ProgramSweeper(tmp_path).sweep()
    assert kept.exists()
