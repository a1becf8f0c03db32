"""Calls engines over HTTP/1.1 with callbacks on bare connections, because every token of every response passes here.

`client.py` renders and sends calls and keeps connections; `connection.py` is one connection, parses what an engine
sends, and has the handles that control one call.
"""

from __future__ import annotations

from corral.adapters.engines.client import HttpEngineClient

__all__ = ("HttpEngineClient",)
