"""Engines over HTTP/1.1: callbacks on bare connections, because every token of every answer passes here.

`lines.py` sends calls and keeps connections, `line.py` is a call under way, `connection.py` one connection and what it
makes of what an engine sends, `head.py` the first lines of a request.
"""

from __future__ import annotations

from corral.adapters.engines.lines import HttpEngines

__all__ = ("HttpEngines",)
