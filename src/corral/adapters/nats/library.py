"""What Corral uses of nats-py, imported without its WebSocket transport.

That transport, which Corral does not use, is the only reason why nats-py imports aiohttp, and aiohttp is a quarter of
the time that a frontend takes to start.
"""

from __future__ import annotations

import sys
from typing import Any, cast

_modules = cast("dict[str, Any]", sys.modules)
_hides_aiohttp = "aiohttp" not in _modules
if _hides_aiohttp:
    # None makes the import fail at once; nats-py takes that for "not installed".
    _modules["aiohttp"] = None
try:
    from nats import errors as nats_errors
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription as Feed
finally:
    if _hides_aiohttp:
        del _modules["aiohttp"]

__all__ = ["Client", "Feed", "Msg", "nats_errors"]
