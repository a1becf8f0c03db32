"""An MCP server with tools that behave well and badly: `tools.py [stdio | http PORT | sse PORT] [NOTES]`.

NOTES is a folder in which tools leave notes about what happened to them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import BlobResourceContents, EmbeddedResource, ImageContent, ResourceLink, ToolAnnotations

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.polling import eventually

server = MCPServer("tools", instructions="Tools for tests.")
NOTES = Path(os.environ.get("NOTES", "."))


def note(name: str, text: str = "") -> None:
    """Leave a note in one step: a reader never sees half of it."""
    unfinished = NOTES / f"{name}.part"
    unfinished.write_text(text)
    unfinished.rename(NOTES / name)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool()
def fail(text: str) -> str:
    """Fail with a text."""
    raise ToolError(text)


@server.tool()
async def wait(name: str) -> str:
    """Wait until a note `go-NAME` appears; leave notes about the begin and about a cancellation."""
    note(f"began-{name}")

    async def is_released() -> bool:
        return (NOTES / f"go-{name}").exists()

    try:
        await eventually(is_released, within_s=600)
    except asyncio.CancelledError:
        note(f"cancelled-{name}")
        raise
    return f"waited for {name}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def look(name: str) -> str:
    """Do the same without any effect."""
    with (NOTES / f"looks-{name}").open("a") as looks:
        looks.write("x")
    return await wait(name)


@server.tool()
def environment() -> str:
    """Return the whole environment, the folder, the group and the limits of this process."""
    limits = {name: resource.getrlimit(getattr(resource, name))[0] for name in ("RLIMIT_CORE", "RLIMIT_NOFILE")}
    facts: dict[str, Any] = {"env": dict(os.environ), "cwd": str(Path.cwd()), "leads": os.getpgrp() == os.getpid()}
    return json.dumps(facts | {"limits": limits, "pid": os.getpid()})


@server.tool()
def chatter(lines: int) -> str:
    """Write lines to stderr."""
    for number in range(lines):
        print(f"chatter {number}", file=sys.stderr, flush=True)
    return "done"


@server.tool()
def leak(name: str) -> str:
    """Return a variable of the environment, and write all of them to stderr."""
    print(dict(os.environ), file=sys.stderr, flush=True)
    return f"the value is {os.environ[name]}"


@server.tool()
def die() -> str:
    """Be killed in the middle of the call."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool()
def fork(detached: bool) -> str:
    """Start a child that outlives a polite end, in a session of its own if detached, with stdout inherited."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=detached)
    return str(child.pid)


@server.tool()
def orphan() -> str:
    """Start a grandchild in a session of its own whose parent ends at once."""
    program = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'],"
        " start_new_session=True, stdout=-3, stderr=-3).pid)"
    )
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


@server.tool()
def draw(size: int) -> list[Any]:
    """Return a text, a picture, an embedded file, and a link to a resource."""
    picture = base64.b64encode(b"\x89PNG" * size).decode()
    blob = BlobResourceContents(
        uri="file:///tmp/../plot.csv", mime_type="text/csv", blob=base64.b64encode(b"1,2").decode()
    )
    return [
        "drawn",
        ImageContent(data=picture, mime_type="image/png"),
        EmbeddedResource(resource=blob),
        ResourceLink(name="all data", uri="data://all", mime_type="application/zip"),
    ]


@server.resource("data://all", mime_type="application/zip")
def data() -> bytes:
    """All data."""
    return b"PK"


@server.prompt()
def greet(name: str) -> str:
    """Greet a person by name."""
    return f"Say hello to {name}."


async def dawdle() -> str:
    """Answer when there is a note that says so."""
    with (NOTES / "dawdling").open("a") as calls:
        calls.write("x")

    async def may_go() -> bool:
        return (NOTES / "go").exists()

    await eventually(may_go, within_s=600)
    return "Hurry up."


if os.environ.get("DAWDLES"):
    server.prompt()(dawdle)


@server.resource("notes://first")
def first() -> str:
    """The first note."""
    return "a note"


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "stdio"
    note("started", str(os.getpid()))
    with (NOTES / "starts").open("a") as starts:
        starts.write("x")
    if kind == "stdio":
        server.run("stdio")
    elif kind == "http":
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("sse", port=int(sys.argv[2]))


if __name__ == "__main__":
    main()
