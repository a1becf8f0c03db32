"""Writes files that are replaced in one step and on the disk when the call returns, and runs slow work in threads."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from corral.runtime import disk

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
T = TypeVar("T")


def free_bytes(folder: Path) -> int | None:
    """Return the bytes free for an ordinary user on the disk of this folder; None if unknown."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def write_json(path: Path, document: Any) -> None:
    """Replace the file in one step; on return it is on the disk."""
    disk.replace(path, json.dumps(document, indent=1, ensure_ascii=False).encode())


def is_half_written(path: Path) -> bool:
    return path.name.endswith(disk.HALF_WRITTEN)


class WorkStopped(Exception):
    """Raised in a thread of a file transfer when its stop flag is set. Never leaves this package."""


class StopFlag:
    """Tells the thread of a file transfer to stop; the thread checks the flag between two steps."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def raise_if_set(self) -> None:
        if self._event.is_set():
            raise WorkStopped


async def run_in_thread(work: Callable[[StopFlag], T]) -> T:
    """Run slow work in a thread, and wait for its end when the caller is cancelled.

    A thread cannot be cancelled. So a cancelled caller sets the stop flag, waits until the thread has ended, and only
    then passes the cancellation on: nothing writes into a folder that is being removed.
    """
    stop = StopFlag()
    future = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({future})
        # Read the exception, so that asyncio does not report it as never retrieved.
        future.exception()
        raise
