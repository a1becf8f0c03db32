"""Engines over HTTP/1.1: callbacks on bare connections, because every token of every answer passes here.

`lines.py` has the calls and the kept connections, `connection.py` one connection and what it makes of what an engine
sends, `head.py` the first lines of a request.
"""

from __future__ import annotations

from corral.adapters.engines.lines import HttpEngines

__all__ = ("HttpEngines",)
