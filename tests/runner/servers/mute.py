"""A program that is no MCP server: it reads and never answers. With an argument it says so on stderr and ends."""

from __future__ import annotations

import sys

if len(sys.argv) > 1:
    print(sys.argv[1], file=sys.stderr)
    sys.exit(3)
for _ in sys.stdin:
    pass
