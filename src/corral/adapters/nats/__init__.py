"""The bus over NATS. nats-py is imported here first, without its WebSocket transport.

That transport, which Corral does not use, is the only reason why nats-py imports aiohttp, and aiohttp is a quarter of
the time that a frontend takes to start.
"""

from __future__ import annotations

import sys
from typing import Any, cast

if "aiohttp" not in sys.modules:
    # None makes the import fail at once; nats-py takes that for "not installed".
    modules = cast("dict[str, Any]", sys.modules)
    modules["aiohttp"] = None
    try:
        import nats.aio.client  # noqa: F401 - for its effect on what comes after
    finally:
        del modules["aiohttp"]
