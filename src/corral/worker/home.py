"""The worker's own folder: made if it is absent, closed to others, and locked by one worker at a time.

The lock is the kernel's: it cannot outlive its holder, however that ends, and nothing has to be cleaned up.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from corral.domain.errors import Conflict, InvalidRequest

LOCK_NAME = "worker.lock"
_ANOTHER_HOME = "Choose another folder with --worker-home."


class WorkerAlreadyRunning(Conflict):
    """Another worker runs on this folder."""

    code = "worker_running"


@contextlib.contextmanager
def hold_home(home: Path) -> Iterator[Path]:
    """Hold the lock of this folder until the block ends; raise `WorkerAlreadyRunning` if another worker has it."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Python closes the descriptor on exec, so an engine that is started later does not keep the lock.
        descriptor = os.open(home / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InvalidRequest(
            f"The worker's folder {home} cannot be used: {error.strerror}.", hint=_ANOTHER_HOME
        ) from error
    try:
        _lock(descriptor, home)
        yield home
    finally:
        os.close(descriptor)


def _lock(descriptor: int, home: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        holder_name = f"process {holder}" if holder.isdigit() else "another process"
        raise WorkerAlreadyRunning(
            f"A worker already runs on {home} ({holder_name}).",
            hint="Stop that one first, or give this one another --worker-home and --name.",
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
