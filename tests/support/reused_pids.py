"""Starts a process with the pid of one that has ended, as the kernel does once it has used all other numbers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import start_child

_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
_WAITS = [sys.executable, "-c", "import signal; signal.pause()"]
_TRIES = 500


@contextmanager
def start_with_pid(pid: int) -> Iterator[subprocess.Popen[Any]]:
    """Start a process that waits, in a group of its own. Skips the test where pids cannot be chosen."""
    for _ in range(_TRIES):
        try:
            _LAST_PID.write_text(str(pid - 1))
        except OSError:
            pytest.skip("only root on Linux can choose the next pid")
        with start_child(_WAITS, start_new_session=True) as process:
            try:
                # Another process of this machine may have got the number in between.
                if process.pid == pid:
                    yield process
                    return
            finally:
                process.kill()
    pytest.skip("this machine starts too many processes to get a certain pid")
