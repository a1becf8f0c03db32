"""Imports the parts of nats-py that Corral uses, without its WebSocket transport.

That transport, which Corral does not use, is the only reason why nats-py imports aiohttp, and aiohttp is a quarter of
the time that a frontend takes to start. nats-py has no switch for it.
"""

from __future__ import annotations

from corral.runtime.hidden_modules import hide_modules

with hide_modules("aiohttp"):
    from nats import errors as nats_errors
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription as Feed

__all__ = ["Client", "Feed", "Msg", "nats_errors"]
