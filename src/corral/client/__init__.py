"""The HTTP client of our own API, used by the command line and by tests.

It answers: how is a request sent, retried and turned back into our errors; how is the event stream followed over
restarts. It imports `wire`, `ports` and `domain` only.
"""

from corral.client.client import CorralClient
from corral.client.events import Connected, Interrupted, Reset, StreamItem

__all__ = ["Connected", "CorralClient", "Interrupted", "Reset", "StreamItem"]
