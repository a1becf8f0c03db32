"""The HTTP client of Corral's own API, used by the command line and by tests.

It sends and retries requests, turns error responses back into `CorralError` classes, and follows the event stream over
restarts of frontends. It imports `wire`, `ports` and `domain` only.
"""

from corral.client.client import CorralClient
from corral.client.events import StreamConnectedNotice, StreamInterruptedNotice, StreamItem, StreamResetNotice

__all__ = ["CorralClient", "StreamConnectedNotice", "StreamInterruptedNotice", "StreamItem", "StreamResetNotice"]
