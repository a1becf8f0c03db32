"""Limits itself, then becomes the program of an MCP server: `python -I -S stdio_launcher.py LIMITS PROGRAM ARGUMENT…`.

LIMITS is a JSON object with the fields of `wire.runner_protocol.ProgramLimits`, and `parent_pid`. A program of its own,
because limits that are set between fork and exec of a process with threads can deadlock, and limits that are set from
outside come after the program's first children. Imports nothing of Corral.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

OPEN_FILES_MAX = 4096
# As shells report a program that exists and cannot be executed.
CANNOT_EXECUTE = 126
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def main(limits: dict[str, Any], command: list[str]) -> None:
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES_MAX)
    _lower(resource.RLIMIT_NPROC, limits["processes"])
    _lower(resource.RLIMIT_FSIZE, limits["file_bytes"])
    # Not the address space: runtimes such as Node.js reserve much more of it than they use.
    _lower(resource.RLIMIT_DATA, limits["memory_bytes"])
    with contextlib.suppress(OSError):
        os.nice(limits["niceness"])
    try:
        if limits["uid"] is not None:
            _become(limits["uid"], limits["gid"])
        if sys.platform == "linux":
            _bind_to_parent(limits["parent_pid"])
        os.execvp(command[0], command)  # noqa: S606 - becoming that program is what this one is for
    except OSError as error:
        text = f"{command[0]} cannot be executed: {error.strerror}"
        if limits["user"]:
            user = f"user {limits['user']} (setting run_user)"
            text = f"{command[0]} cannot be executed by {user}: {error.strerror}. Install it where that user may enter"
        os.write(2, f"{text}\n".encode())
        os._exit(CANNOT_EXECUTE)


def _become(uid: int, gid: int) -> None:
    """Give up this user for good, with all of its groups."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _bind_to_parent(parent_pid: int) -> None:
    """End with the runner, even if it is killed, and gain no rights by programs that grant some."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # After the change of the user, which would undo it.
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(CANNOT_EXECUTE)


def _lower(kind: int, limit: int) -> None:
    _, hard = resource.getrlimit(kind)
    lowered = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (lowered, lowered))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
