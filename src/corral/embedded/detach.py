"""`corral up --detach`: the same process in the background, and a parent that waits until it is ready.

The parent repeats what the background process says until that is ready or has failed, then leaves. From then on its
lines are found in logs/up.log.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TextIO

from corral.embedded.home import Home
from corral.embedded.logs import open_log
from corral.embedded.state import Phase, read_snapshot

INTERRUPTED = 130


def start_detached(home: Home, command: Sequence[str], options: str, out: TextIO) -> int:
    """Start `command` with `options` on its standard input; 0 when it is ready, 1 when it failed."""
    with open_log(home.log_of("up")) as log:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd="/",
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(options)
    process.stdin.close()
    try:
        for line in process.stdout:
            out.write(line)
            out.flush()
    except KeyboardInterrupt:
        out.write("It goes on starting in the background: `corral status` shows it, `corral down` stops it.\n")
        return INTERRUPTED
    finally:
        process.stdout.close()
    if read_snapshot(home.state).phase is Phase.READY and process.poll() is None:
        # It lives on; nobody will ask for its exit code.
        process.returncode = 0
        return 0
    process.wait()
    return 1


def leave_parent() -> None:
    """Called in the background process: let the parent end. What is said from now on goes to the log alone."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
