"""An MCP server of an earlier protocol, written by hand: it shakes hands, answers pings, and writes what no SDK would.

It writes the methods that it gets to the note `methods` of the folder NOTES. With one argument it cannot list its
tools; if that is `library`, it has resources instead. With the arguments TOOLS and CHARACTERS it lists pages without
end, each of so many tools with descriptions of that length.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

NOTES = Path(os.environ["NOTES"])
SCHEMA = {"type": "object", "properties": {"mebibytes": {"type": "integer"}}}
TOOLS = [{"name": name, "inputSchema": SCHEMA} for name in ("flood", "noise", "never")]


def flood(mebibytes: int) -> None:
    """Write a line that does not end."""
    block = b"x" * (1 << 20)
    for number in range(mebibytes):
        os.write(1, block)
        (NOTES / "flooded").write_text(str(number + 1))


def answer(request: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a request; None if there is none."""
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            return {
                "protocolVersion": version,
                "capabilities": {"resources": {}} if sys.argv[1:] == ["library"] else {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            }
        case "tools/list" if len(sys.argv) > 2:
            return {
                "tools": int(sys.argv[1]) * [{**TOOLS[0], "description": "x" * int(sys.argv[2])}],
                "nextCursor": "x",
            }
        case "resources/list":
            return {"resources": [{"uri": "books://moby", "name": "Moby Dick"}]}
        case "resources/read":
            return {"contents": [{"uri": request["params"]["uri"], "text": "Call me Ishmael."}]}
        case "tools/list" if len(sys.argv) == 1:
            return {"tools": TOOLS}
        case "ping":
            return {}
        case "tools/call":
            params = request["params"]
            if params["name"] == "never":
                return None
            if params["name"] == "flood":
                flood(params["arguments"].get("mebibytes", 1))
            else:
                os.write(1, b"this is no message\n\n{}\n[1]\n")
            return {"content": [{"type": "text", "text": "done"}]}
        case _:
            raise LookupError(request["method"])


for line in sys.stdin:
    request = json.loads(line)
    with (NOTES / "methods").open("a") as methods:
        methods.write(request["method"] + "\n")
    if "id" not in request:
        continue
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        result = answer(request)
    except LookupError:
        reply["error"] = {"code": -32601, "message": "Method not found"}
    else:
        if result is None:
            continue
        reply["result"] = result
    os.write(1, json.dumps(reply).encode() + b"\n")
