"""An MCP server that takes whatever it can get: memory, disk, processes. It ignores SIGTERM and the end of its
input.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer

server = MCPServer("hostile")


@server.tool()
def identify() -> str:
    """Return who this process is and what it may use."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    home = Path(os.environ["HOME"]).stat()
    facts: dict[str, Any] = {
        "uids": os.getresuid(),
        "gids": os.getresgid(),
        "groups": os.getgroups(),
        "niceness": os.nice(0),
        "no_new_privs": status["NoNewPrivs"],
        "capabilities": status["CapEff"],
        "home": [home.st_uid, home.st_mode & 0o777],
        "memory_bytes": resource.getrlimit(resource.RLIMIT_DATA)[1],
    }
    return json.dumps(facts)


@server.tool()
def read(path: str) -> str:
    """Return a file, or why not."""
    try:
        return Path(path).read_text()
    except OSError as error:
        return str(error.strerror)


@server.tool()
def allocate(mebibytes: int) -> str:
    """Take memory."""
    try:
        return str(len(bytearray(mebibytes << 20)))
    except MemoryError:
        return "no more memory"


@server.tool()
def fill(mebibytes: int) -> str:
    """Write one file, and say how far that went."""
    block, written = b"x" * (1 << 20), 0
    try:
        with Path(os.environ["HOME"], "large").open("wb", buffering=0) as file:
            for _ in range(mebibytes):
                written += file.write(block)
    except OSError as error:
        return f"{written >> 20} {error.strerror}"
    return str(written >> 20)


@server.tool()
def multiply() -> str:
    """Start children that start children, until there can be no more, and say how many there were of the first."""
    count = 0
    try:
        while count < 5000:
            if os.fork() == 0:
                signal.pause()
            count += 1
    except OSError as error:
        return f"{count} {error.strerror}"
    return str(count)


@server.tool()
def chatter(mebibytes: int) -> str:
    """Write lines to stderr."""
    line = b"y" * 1023 + b"\n"
    for _ in range(mebibytes << 10):
        os.write(2, line)
    return "done"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(os.environ["NOTES"], "pid").write_text(str(os.getpid()))
    server.run("stdio")
    sys.stdout.close()
    while True:
        # SIGTERM is ignored, and no other signal comes.
        signal.pause()
