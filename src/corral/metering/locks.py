"""A lock on a file that the kernel takes back when its process ends, however it ends."""

from __future__ import annotations

import errno
import sys

if sys.platform != "win32":
    import fcntl


def try_lock(descriptor: int) -> bool:
    """False: another one has it. It is held until the descriptor is closed. On Windows there is none: an `OSError`."""
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "spools need locks that Windows does not have")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
