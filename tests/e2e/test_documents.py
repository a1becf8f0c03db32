"""What the pages tell people to run is run."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.e2e.processes import Program
from tests.support.ports import find_free_port

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.behaviour("FLT-10")
async def test_script_of_several_frontends_runs_and_leaves_nothing_running(tmp_path: Path) -> None:
    environment = {
        "FIRST_PORT": str(find_free_port()),
        "SECOND_PORT": str(find_free_port()),
        # `corral` is the one beside the Python that runs the tests.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
    }
    script = [str(DOCS / "how-to" / "several-frontends.sh"), str(tmp_path / "demo")]
    (tmp_path / "demo").mkdir()
    program = Program("script", script, tmp_path / "script.log", environment)
    await program.start()
    try:
        code = await program.wait(limit_s=100)
        logs = "\n".join(path.read_text() for path in (tmp_path / "demo").glob("*.log"))
        assert code == 0, f"{program.log}\n{logs}"
    finally:
        if program.is_running:
            await program.end(signal.SIGTERM)
    printed = program.log
    for name in ("worker-1", "worker-2", "worker-3"):
        # Once in the list of each frontend.
        assert sum(line.startswith(name) and "healthy" in line for line in printed.splitlines()) == 2, printed
    assert printed.count("leader") == 1 or "Leader" in printed
    assert "Corral has stopped." in printed
    assert _processes_of(tmp_path) == []


def _processes_of(folder: Path) -> list[list[str]]:
    """Return the command lines that name the folder: the servers, frontends and workers of the script."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if any(str(folder) in part for part in command) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(command)
    return found
