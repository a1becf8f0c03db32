"""Ends what runner processes that were killed have left behind: programs of MCP servers, and their temporary folders.

A program ends with its runner, but what it has started does not, and its HOME stays. Each runner process gets
paths of its own for these HOMEs; every program has its HOME as a marker in its environment. The paths are written to a
file before the runner starts, so that also a worker that was killed with its runner finds them again.

Guarantee: after `sweep`, no process with a marker of the last runner lives, and no HOME of it exists. Limit: a process
that has dropped the marker is not found.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import tempfile
from pathlib import Path

import psutil
import structlog

from corral.runtime.processes import iterate_live_processes, read_marker, signal_processes
from corral.wire.runner_protocol import PROGRAM_MARKER

log = structlog.get_logger(__name__)

# A process that starts others while it is looked for is found with them in the next pass.
_PASSES_MAX = 20
_NAME = "corral-mcp-"
# A part of a name, such as after a write that was interrupted, would be that of others, too.
_WHOLE_NAME = re.compile(rf"{_NAME}\w{{8}}-")


class ProgramSweeper:
    """Ends the programs of MCP servers that a worker's runner process has left running, and removes their folders."""

    def __init__(self, directory: Path) -> None:
        # Holds the beginning of the paths of the last runner.
        self._file = directory / "program-homes"

    def begin(self) -> str:
        """Clear up after the last runner, and return the beginning of the paths of HOMEs for the next one. Blocks."""
        self.sweep()
        # Only the name is needed, which no other folder has.
        unique = Path(tempfile.mkdtemp(prefix=_NAME))
        unique.rmdir()
        homes = f"{unique}-"
        self._file.write_text(homes)
        return homes

    def sweep(self) -> None:
        """End all programs of the last runner, which is gone, and remove their folders. Blocks."""
        homes = self._read_homes()
        if not homes:
            return
        ended = 0
        for _ in range(_PASSES_MAX):
            found = _list_marked(homes)
            if not found:
                break
            ended += len(found)
            signal_processes(found, signal.SIGKILL)
            psutil.wait_procs(found, timeout=1.0)
        if ended:
            log.info("programs that a runner has left behind were ended", count=ended)
        for folder in Path(homes).parent.glob(f"{Path(homes).name}*"):
            shutil.rmtree(folder, ignore_errors=True)
        self._file.unlink(missing_ok=True)

    def _read_homes(self) -> str:
        """Return the beginning of the paths of the last runner; empty if it has left nothing."""
        text = ""
        with contextlib.suppress(OSError, ValueError):
            text = self._file.read_text()
        return text if _WHOLE_NAME.fullmatch(Path(text).name) else ""


def _list_marked(homes: str) -> list[psutil.Process]:
    return [
        process
        for process in iterate_live_processes()
        if (read_marker(process, PROGRAM_MARKER) or "").startswith(homes)
    ]
